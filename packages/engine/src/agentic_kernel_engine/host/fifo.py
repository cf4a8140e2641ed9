"""FifoLock: one holder at a time, first come first served."""

from __future__ import annotations

import asyncio
from collections import deque


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
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The caller got the lock and was cancelled before it ran again.
                self.let_go()
            elif turn in self._queue:
                self._queue.remove(turn)
            raise

    def let_go(self) -> None:
        """Release the lock; the longest waiting caller gets it."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._held = False
