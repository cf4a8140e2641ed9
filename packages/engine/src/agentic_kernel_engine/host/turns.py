"""Turns: callers wait in order, for a slot of the Host or for a lock."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

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
        await _turn(self._queue, self.give_back)
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


class FifoLock:
    """A FIFO lock as a base class; it allocates nothing until a caller has to wait.

    `let_go` passes the lock directly to the longest waiting caller, so a newcomer cannot overtake.
    The lock stores no holder: a holder that calls `hold` again waits for itself, and a `let_go` by
    another caller takes the lock from the holder. Each caller pairs the two with ``finally``.

    A base class and not a field, because there is one for each run (memory in benchmarks/host.py).
    """

    __slots__ = ("_held", "_queue")

    def __init__(self) -> None:
        self._held = False
        self._queue: deque[asyncio.Future[None]] | None = None
        """One future for each waiting caller, oldest first; None before the first wait."""

    async def hold(self) -> None:
        """Acquire the lock after the callers that came before; release it by `let_go`.

        It does not suspend if the lock is free. A caller that is cancelled does not get the lock.
        """
        if not self._held:
            self._held = True
            return
        if self._queue is None:
            self._queue = deque()
        await _turn(self._queue, self.let_go)

    def let_go(self) -> None:
        """Release the lock; the longest waiting caller gets it."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._held = False


async def _turn(queue: deque[asyncio.Future[None]], pass_on: Callable[[], None]) -> None:
    """Wait in a queue, oldest first, until another caller sets the future of this one.

    A caller that is cancelled leaves the queue.

    Args:
        pass_on: Called if this caller got its turn and was cancelled before it ran again.
    """
    turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    queue.append(turn)
    try:
        await turn
    except asyncio.CancelledError:
        if turn.done() and not turn.cancelled():
            pass_on()
        elif turn in queue:
            queue.remove(turn)
        raise
