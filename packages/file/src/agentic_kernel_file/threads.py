"""Threads: disk work that must not wait for the event loop or for its executor."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class Threads:
    """Daemon threads that start when there is work and end when there is none.

    The threads belong to the store. So tools that hang in the event loop's executor cannot prevent
    a store from opening, and no thread prevents the interpreter from exiting.
    """

    def __init__(self, most: int = 2) -> None:
        self._most = most
        self._running = 0
        self._waiting: deque[Callable[[], object]] = deque()
        self._lock = threading.Lock()

    def start(self, work: Callable[[], object]) -> None:
        """Run the work in one of the threads, or here if none can start. It must not raise."""
        with self._lock:
            self._waiting.append(work)
            if self._running == self._most:
                return
            self._running += 1
        try:
            threading.Thread(target=self._run, name="file-store-disk", daemon=True).start()
        except RuntimeError:  # The system has no thread left, or the interpreter ends.
            self._run()

    async def run(self, work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
        """Run the work in one of the threads and return its result.

        Args:
            undo: Called with the result if the caller was cancelled meanwhile.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(result: Any, error: BaseException | None) -> None:
            if future.cancelled():
                if error is None and undo is not None:
                    self.start(lambda: undo(result))
            elif error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def done() -> None:
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:
                error = raised
            with suppress(RuntimeError):  # the loop is closed, so no caller waits any more
                loop.call_soon_threadsafe(settle, result, error)

        self.start(done)
        return await future

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running -= 1
                    return
                work = self._waiting.popleft()
            work()
