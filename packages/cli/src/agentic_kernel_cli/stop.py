"""Stop: a request to stop, by Ctrl-C, SIGTERM, or a reader that closed the output."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType


class Stop:
    """A request to stop: the first signal sets it, the second signal ends the process at once.

    The handlers of the engine's `drain_on_signals` belong to the event loop. These handlers are
    Python's own, so a second Ctrl-C works even if a full output blocks the event loop.

    Args:
        last_words: The text that the second signal shows on stderr, which says how to go on.
    """

    def __init__(self, last_words: str) -> None:
        self.last_words = last_words
        self.code: int | None = None
        """The exit code of the request: 128 plus the signal's number; None without a request."""
        self._wished = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def wish(self, code: int) -> None:
        """Request a stop with this exit code. Only the first request counts."""
        if self.code is None:
            self.code = code
            self._loop.call_soon_threadsafe(self._wished.set)

    async def wait(self) -> None:
        """Return when a stop is requested."""
        await self._wished.wait()

    @contextmanager
    def on_signals(self) -> Iterator[Stop]:
        """Turn SIGINT and SIGTERM into a request while the block runs."""

        def handle(number: int, frame: FrameType | None) -> None:
            if self.code is not None:
                with suppress(OSError):  # stderr may be closed.
                    os.write(2, f"\n{self.last_words}\n".encode(errors="backslashreplace"))
                os._exit(128 + number)
            self.wish(128 + number)

        # A signal that the parent process had ignored (`nohup`, a background job) stays ignored.
        heard = [each for each in _SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
        before = {number: signal.signal(number, handle) for number in heard}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
