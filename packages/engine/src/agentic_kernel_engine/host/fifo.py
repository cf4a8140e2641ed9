"""FifoLock: one holder at a time, first come first served."""

from __future__ import annotations

import asyncio
from collections import deque


class FifoLock:
    """A FIFO lock as a base class; it allocates nothing until a caller has to wait.

    A base class and not a field, because there is one for each run (memory in benchmarks/host.py).
    """

    __slots__ = ("_held", "_queue")

    def __init__(self) -> None:
        self._held = False
        self._queue: deque[asyncio.Future[None]] | None = None

    async def hold(self) -> None:
        """Acquire the lock after the callers that came before; release it by `let_go`."""
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
