"""The end of the process closes a runtime that its program did not close, without a new thread.

Python calls the functions of `atexit` after all threads have ended that are no daemons. By then
every executor refuses work, and Python 3.12.0 and 3.12.1 start no thread. So the closing code gets
an executor that needs no thread.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

T = TypeVar("T")
UNWIND: Final = 5.0
"""Seconds that the end of the process waits for asyncio tasks that it cancelled."""


class AtExit:
    """Calls a method at the end of the process, if its object is still there."""

    def __init__(self, method: Callable[[], None]) -> None:
        self._held = weakref.WeakMethod(method)

    def __call__(self) -> None:
        method = self._held()
        if method is not None:
            method()


def close_at_exit(runner: asyncio.Runner, closing: Coroutine[Any, Any, None]) -> None:
    """Run the closing code of a runtime in its event loop, and close the loop."""
    loop = runner.get_loop()
    loop.set_default_executor(_AtOnce())
    try:
        runner.run(closing)
    finally:
        # `Runner.close` would wait without a bound, and would start a thread.
        runner.run(_cancel_all())
        loop.close()


class _AtOnce(ThreadPoolExecutor):
    """Runs each function at once in the caller's thread; asyncio takes executors of this class."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)
        return done


async def _cancel_all() -> None:
    """Cancel all tasks, wait for them within `UNWIND`, and close the asynchronous generators."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for each in left:
        each.cancel()
    if left:
        await asyncio.wait(left, timeout=UNWIND)
    await asyncio.get_running_loop().shutdown_asyncgens()
