"""Slots: the limit on how many runs a Host has in flight, and the queue for the next slot."""

from __future__ import annotations

import asyncio
from collections import deque

from agentic_kernel import CannotStart


class Slots:
    """A FIFO semaphore: a caller takes a slot before its write is durable, or is refused (R9).

    A caller waits only while no slot is free, because `give_back` passes a slot directly to the
    longest waiting caller. So `take` never overtakes a caller in `wait`.

    Args:
        limit: How many slots there are; None for no limit.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._taken = 0
        self.closed = False
        """True while the Host drains and after."""
        self._queue: deque[asyncio.Future[None]] = deque()
        """One future for each waiting caller, oldest first."""

    @property
    def free(self) -> bool:
        """True if a slot could be taken now."""
        return not self.closed and (self._limit is None or self._taken < self._limit)

    def take(self, task_id: str) -> None:
        """Take a slot.

        Raises:
            CannotStart: All are taken, or the Host is draining.
        """
        self.check_open(task_id)
        if not self.free:
            raise CannotStart(
                f"{self._taken} Tasks are in flight and max_in_flight is {self._limit}; "
                "wait with run(), or allow more",
                task_id,
            )
        self._taken += 1

    def check_open(self, task_id: str) -> None:
        """Refuse a Task while the Host drains.

        Raises:
            CannotStart: The Host is draining.
        """
        if self.closed:
            raise CannotStart("this Host is draining and starts nothing more", task_id)

    async def wait(self, task_id: str) -> None:
        """Take a slot as soon as one is free, first come first served.

        Raises:
            CannotStart: The Host is draining, or begins to while this waits.
        """
        if self.closed or (self.free and not self._queue):
            self.take(task_id)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The caller got a slot and was cancelled before it ran again.
                self.give_back()
            elif turn in self._queue:
                self._queue.remove(turn)
            raise
        if self.closed:
            self.give_back()
            self.check_open(task_id)

    def give_back(self) -> None:
        """Return a slot; the longest waiting caller gets it."""
        self._taken -= 1
        while self._queue and self.free:
            self._grant(self._queue.popleft())

    def close(self) -> None:
        """Refuse from now on, and wake the waiting callers to be refused.

        Each of them counts as a slot until it runs and gives the slot back, so for a moment more
        slots than the limit are taken.
        """
        self.closed = True
        while self._queue:
            self._grant(self._queue.popleft())

    def _grant(self, turn: asyncio.Future[None]) -> None:
        """Take a slot for a waiting caller; a caller that was cancelled is passed over."""
        if not turn.done():
            self._taken += 1
            turn.set_result(None)
