"""The wish to stop: Ctrl-C, SIGTERM, or a reader of the output that went away."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

READER_GONE = 128 + 13
"""Exit code when whoever read the output stopped reading (what SIGPIPE would give)."""

_LAST_WORDS = b"\nleft at once; what was committed is kept: agentic-kernel recover\n"


class Stop:
    """Set by the first signal; the second one leaves the process at once.

    Unlike `drain_on_signals` of the engine, whose handlers belong to the event loop, these are
    Python's own: a second Ctrl-C works even while the loop waits for an output that nobody reads.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        """The exit code that belongs to the wish: 128 plus the signal's number."""
        self._wished = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def wish(self, code: int) -> None:
        """Ask for a stop. Only the first wish counts."""
        if self.code is None:
            self.code = code
            self._loop.call_soon_threadsafe(self._wished.set)

    async def wait(self) -> None:
        """Return once a stop was asked for."""
        await self._wished.wait()

    @contextmanager
    def on_signals(self) -> Iterator[Stop]:
        """Turn SIGINT and SIGTERM into the wish while the block runs."""

        def handle(number: int, frame: FrameType | None) -> None:
            if self.code is not None:
                os.write(2, _LAST_WORDS)
                os._exit(128 + number)
            self.wish(128 + number)

        before = {number: signal.signal(number, handle) for number in _SIGNALS}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
