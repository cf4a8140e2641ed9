"""FifoLock: one holder at a time, first come first served."""

from __future__ import annotations

import asyncio
from collections import deque


class FifoLock:
    """What is held by one at a time.

    As a lock, but for what there are very many of: it is the thing itself that is held, and until
    somebody has to wait, nothing is made for it.
    """

    __slots__ = ("_held", "_queue")

    def __init__(self) -> None:
        self._held = False
        self._queue: deque[asyncio.Future[None]] | None = None

    async def hold(self) -> None:
        """Keep all others from it, as soon as those who came first are done; end it by `let_go`."""
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
        """Hand it to who waits longest, if anybody does."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._held = False
