"""Slots: a limit of the answers that the model generates at once; further ones wait in order.

llama.cpp has a queue too, but a request in its queue cannot be withdrawn.
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
        """Return a future that is done once a slot is taken; `withdraw` gives it up."""
        ticket: Future[None] = Future()
        with self._lock:
            if self._free:
                self._free -= 1
                ticket.set_result(None)
            else:
                self._waiting.append(ticket)
        return ticket

    def withdraw(self, ticket: Future[None]) -> None:
        """Leave the queue, or give back the slot if the ticket has got one meanwhile."""
        if not ticket.cancel():
            self.give()

    def give(self) -> None:
        """Give back one slot; the ticket that has waited longest gets it."""
        with self._lock:
            ticket = self._next()
            if ticket is None:
                self._free += 1
                return
        ticket.set_result(None)

    def _next(self) -> Future[None] | None:
        while self._waiting:
            ticket = self._waiting.popleft()
            # After True the ticket cannot be cancelled any more; False: it was cancelled already.
            if ticket.set_running_or_notify_cancel():
                return ticket
        return None
