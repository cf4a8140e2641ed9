"""Slots: how many answers the model works on at once; the others wait here, in order.

llama.cpp would queue them too, but a request in its queue cannot be taken back.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future


class Slots:
    """A counter of free slots with a fair queue, for threads and event loops alike."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._free = count
        self._waiting: deque[Future[None]] = deque()

    def take(self) -> Future[None]:
        """A future that is done once a slot is taken; give it up with `withdraw`."""
        ticket: Future[None] = Future()
        with self._lock:
            if self._free:
                self._free -= 1
                ticket.set_result(None)
            else:
                self._waiting.append(ticket)
        return ticket

    def withdraw(self, ticket: Future[None]) -> None:
        """Leave the queue, or give back the slot if it came meanwhile."""
        if not ticket.cancel():
            self.give()

    def give(self) -> None:
        """Give back one slot; the longest waiting gets it."""
        with self._lock:
            ticket = self._next()
            if ticket is None:
                self._free += 1
                return
        ticket.set_result(None)

    def _next(self) -> Future[None] | None:
        while self._waiting:
            ticket = self._waiting.popleft()
            # From here on it cannot be cancelled; False: it was already.
            if ticket.set_running_or_notify_cancel():
                return ticket
        return None
