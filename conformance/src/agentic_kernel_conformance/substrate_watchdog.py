"""Watchdog: a thread of a worker process that notices when the event loop is held."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

_LOOK: Final = 0.02
"""Seconds between two looks."""
_LOOPS: Final = ("asyncio", "host")
"""The folders of the calls that every run has in common: the event loop's, and the Host's."""
_SHOWN: Final = 12
"""The most frames of a stack that are reported."""


class Watchdog:
    """Asks the event loop for a sign of life, and looks at its thread's stack while none comes.

    Time in which the loop's thread waits for a processor does not count, where the system says how
    long that is: on a busy machine no loop is taken for one that is held. A loop that waits for
    input does not count either.

    Args:
        loop: The loop to watch; it runs in the thread with the identifier ``thread``.
        held: Seconds for which one callback may hold the loop.
        tell: Called in the watchdog's thread, once, with the stack that holds the loop.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, thread: int, held: float, tell: Callable[[str], None]
    ) -> None:
        self._loop, self._watched = loop, thread
        self._most = max(2 * _LOOK, held)
        self._queued = _Queued(thread)
        self._tell = tell
        self._ended = threading.Event()
        self._answered = True
        self._thread = threading.Thread(target=self._watch, name="kit: watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; return when the thread has ended."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        held, told = 0.0, False
        while not self._ended.is_set():
            begun, queued = time.monotonic(), self._queued.seconds()
            time.sleep(_LOOK)
            if self._answered:
                held, told, self._answered = 0.0, False, False
                try:
                    self._loop.call_soon_threadsafe(self._answer)
                except RuntimeError:
                    return  # The loop is closed.
                continue
            frame = sys._current_frames().get(self._watched)
            if frame is None or _waits(frame):
                continue
            held += time.monotonic() - begun - (self._queued.seconds() - queued)
            if held >= self._most and not told:
                told = True
                self._tell(stack(frame))

    def _answer(self) -> None:
        self._answered = True


class _Queued:
    """The time for which a thread was ready to run and had no processor."""

    def __init__(self, thread: int) -> None:
        found = (each.native_id for each in threading.enumerate() if each.ident == thread)
        # After a fork, the main thread's `native_id` may be that of the parent.
        native = os.getpid() if thread == threading.main_thread().ident else next(found, 0)
        self._path = Path(f"/proc/self/task/{native}/schedstat")

    def seconds(self) -> float:
        """Return the time so far; 0 if the system does not say it."""
        try:
            return int(self._path.read_text(encoding="ascii").split()[1]) / 1e9
        except (OSError, LookupError, ValueError):
            return 0.0


def _waits(frame: FrameType) -> bool:
    """True if the loop's thread waits for input, as an idle loop does."""
    code = frame.f_code
    caller = frame.f_back
    return (
        code.co_name == "select"
        and code.co_filename.endswith("selectors.py")
        and caller is not None
        and caller.f_code.co_name == "_run_once"
    )


def stack(frame: FrameType) -> str:
    """Return the calls of a thread as text, the innermost first, without those of the loop."""
    lines = []
    for call in reversed(traceback.extract_stack(frame)):
        path = Path(call.filename)
        if path.parent.name not in _LOOPS:
            lines.append(f"  {path.name}:{call.lineno} in {call.name}: {call.line}")
    return "\n".join(lines[:_SHOWN])
