"""OwnLoop: the event loop of `run_sync`, which works only during calls.

Threads share the loop. One thread at a time runs it, until its own call has ended; the calls of the
other threads run in it at the same time. Then one of the waiting threads goes on to run it.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, Final, Protocol, TypeVar

from ..errors import HostClosed
from .at_exit import AtExit, close_at_exit

T = TypeVar("T")

_loop_of_call: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar(
    "agentic_kernel_own_loop", default=None
)
"""The loop of the call to which this asyncio task, or this thread of a tool, belongs."""
_pipes: Final[set[Any]] = set()
"""The sockets by which threads wake the loops. A runtime that is let go refers to its loop and the
loop to it, so Python collects both at once, in any order; and a loop whose sockets were collected
first cannot be closed."""


class Closes(Protocol):
    """A runtime that is closed in its event loop."""

    async def close(self) -> None:
        """See `Host.close`."""
        ...


class OwnLoop:
    """An event loop for the calls of one runtime, from any number of threads.

    Args:
        runtime: Closed at the end of the process, if it is still there; it is held weakly.
    """

    def __init__(self, runtime: Closes) -> None:
        self._runtime = weakref.ref(runtime)
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._pipe = {getattr(self._loop, name, None) for name in ("_ssock", "_csock")}
        _pipes.update(self._pipe)
        self._process = os.getpid()
        self._at_exit: Callable[[], None] = AtExit(self.end)
        self._changed = threading.Condition()
        """Guards the next three, and tells the threads that wait of each change."""
        self._taken = False
        """True while a thread runs the loop."""
        self._calls = 0
        """The calls that have not returned."""
        self._closed = False

    @property
    def runs_here(self) -> bool:
        """True if the caller runs in this loop."""
        return asyncio.get_running_loop() is self._loop

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call to its end. While no call runs, the loop stands still with its other tasks.

        If another thread runs the loop, the call runs there. If that thread's own call ends first,
        or Ctrl-C ends it, this thread goes on to run the loop. Ctrl-C in a thread that waits
        cancels its own call alone.

        Raises:
            HostClosed: The loop was closed meanwhile; the call has not begun.
        """
        with self._changed:
            if self._closed:
                call.close()
                raise HostClosed
            self._calls += 1
        try:
            return self._shared(_alone(call, self._loop))
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()
                # The last function comes first. The call may have registered others, such as the
                # one that stops the database that the runtime uses until it is closed.
                atexit.unregister(self._at_exit)
                if not self._closed:
                    atexit.register(self._at_exit)

    def _shared(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call here if no other thread runs the loop, else in the thread that does."""
        ended: Future[T] | None = None
        mine = False
        try:
            with self._changed:
                if not self._taken:
                    self._taken = mine = True
            if mine:
                return self._runner.run(call)
            ended = asyncio.run_coroutine_threadsafe(call, self._loop)
            ended.add_done_callback(self._tell)
            with self._changed:
                self._changed.wait_for(lambda: ended.done() or not self._taken)
                if not ended.done():
                    self._taken = mine = True
            if mine:
                self._runner.run(_alone(_end_of(ended), self._loop))
            return ended.result()
        except BaseException:
            if ended is not None:
                ended.cancel()
            raise
        finally:
            if mine:
                with self._changed:
                    self._taken = False
                    self._changed.notify_all()

    def _tell(self, _: object) -> None:
        with self._changed:
            self._changed.notify_all()

    def close(self, runtime: Closes) -> None:
        """Close the runtime, and then the loop, after the calls of other threads have ended.

        Raises:
            HostClosed: Another thread closed the loop.
            RuntimeError: A tool of this runtime calls it. The call of that tool could then never
                end.
        """
        if _loop_of_call.get() is self._loop:
            raise RuntimeError("a tool cannot close the runtime that runs it; close it outside")
        try:
            self.run(runtime.close())
        finally:
            with self._changed:
                self._changed.wait_for(lambda: not self._calls)
                first, self._closed = not self._closed, True
            if first:
                atexit.unregister(self._at_exit)
                self._runner.close()
                _pipes.difference_update(self._pipe)

    def drop(self) -> None:
        """Close the loop alone, because its runtime is gone."""
        atexit.unregister(self._at_exit)
        self._loop.close()
        _pipes.difference_update(self._pipe)

    def end(self) -> None:
        """Close the runtime and the loop at the end of the process, without a new thread."""
        runtime = self._runtime()
        if runtime is None or os.getpid() != self._process or self._loop.is_closed():
            return
        with self._changed:
            if self._taken:
                return  # A daemon thread is in a call. It stands still when the interpreter ends.
            self._taken = True
        close_at_exit(self._runner, runtime.close())


async def _alone(call: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Run a call, after which the tasks that wait for the next one may be let go in silence."""
    _loop_of_call.set(loop)
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


async def _end_of(call: Future[Any]) -> None:
    """Wait for the end of a call that another thread sent; a cancellation cancels the call."""
    await asyncio.wrap_future(call)


def _is_ours(task: asyncio.Task[Any]) -> bool:
    """True if a task's coroutine is code of ours, such as the polling of a Host."""
    frame = getattr(task.get_coro(), "cr_frame", None)
    return frame is not None and frame.f_globals.get("__name__", "").startswith("agentic_kernel")
