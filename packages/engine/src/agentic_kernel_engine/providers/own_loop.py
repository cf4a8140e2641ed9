"""OwnLoop: the event loop of `run_sync`, which works only during a call.

The end of the process closes a runtime that its program did not close. Python calls the functions
of `atexit` after all threads have ended that are no daemons. By then every executor refuses work,
and Python 3.12.0 and 3.12.1 start no thread. So the closing code gets an executor that needs no
thread.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")
UNWIND: Final = 5.0
"""Seconds that the end of the process waits for asyncio tasks that it cancelled."""


class Closes(Protocol):
    """A runtime that is closed in its event loop."""

    async def close(self) -> None:
        """See `Host.close`."""
        ...


class OwnLoop:
    """An event loop for the calls of one runtime, one after the other.

    Args:
        runtime: Closed at the end of the process, if it is still there; it is held weakly.
    """

    def __init__(self, runtime: Closes) -> None:
        self._runtime = weakref.ref(runtime)
        self._runner = asyncio.Runner()
        self._process = os.getpid()
        self._at_exit: Callable[[], None] = _Ending(weakref.ref(self))

    @property
    def runs_here(self) -> bool:
        """True if the caller runs in this loop."""
        return asyncio.get_running_loop() is self._runner.get_loop()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call to its end; the tasks that wait for the next call stand still after it."""
        try:
            return self._runner.run(_alone(call))
        finally:
            # The last function comes first. The call may have registered others, such as the one
            # that stops the database that the runtime uses until it is closed.
            atexit.unregister(self._at_exit)
            atexit.register(self._at_exit)

    def close(self, runtime: Closes) -> None:
        """Close the runtime, and then the loop."""
        atexit.unregister(self._at_exit)
        with self._runner as runner:
            runner.run(runtime.close())

    def drop(self) -> None:
        """Close the loop alone, because its runtime is gone."""
        atexit.unregister(self._at_exit)
        self._runner.get_loop().close()

    def end(self) -> None:
        """Close the runtime and the loop at the end of the process, without a new thread."""
        runtime, loop = self._runtime(), self._runner.get_loop()
        if runtime is None or os.getpid() != self._process or loop.is_closed():
            return
        if loop.is_running():
            return  # A daemon thread is in a call. It stands still when the interpreter ends.
        loop.set_default_executor(_AtOnce())
        try:
            self._runner.run(runtime.close())
        finally:
            # `Runner.close` would wait without a bound, and would start a thread.
            self._runner.run(_cancel_all())
            loop.close()


class _Ending:
    """Calls `OwnLoop.end`, if the loop is still there."""

    def __init__(self, held: weakref.ref[OwnLoop]) -> None:
        self._held = held

    def __call__(self) -> None:
        own = self._held()
        if own is not None:
            own.end()


class _AtOnce(ThreadPoolExecutor):
    """Runs each function at once in the caller's thread; asyncio takes executors of this class."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)
        return done


async def _alone(call: Coroutine[Any, Any, T]) -> T:
    """Run a call, after which the tasks that wait for the next one may be let go in silence."""
    try:
        return await call
    finally:
        for _ in range(10):  # Generators that were let go are closed.
            await asyncio.sleep(0)
        for each in asyncio.all_tasks():
            # As `asyncio.gather` does it. An exception handler of the loop comes too late: the
            # coroutine may be gone by then. The tasks of tools keep their warning.
            if _is_ours(each):
                each._log_destroy_pending = False  # type: ignore[attr-defined]


async def _cancel_all() -> None:
    """Cancel all tasks, wait for them within `UNWIND`, and close the asynchronous generators."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for each in left:
        each.cancel()
    if left:
        await asyncio.wait(left, timeout=UNWIND)
    await asyncio.get_running_loop().shutdown_asyncgens()


def _is_ours(task: asyncio.Task[Any]) -> bool:
    """True if a task's coroutine is code of ours, such as the watch of a Host."""
    frame = getattr(task.get_coro(), "cr_frame", None)
    return frame is not None and frame.f_globals.get("__name__", "").startswith("agentic_kernel")
