"""Deadline: calls of planners and tools that end when the time of their run is over.

Such a call runs in an asyncio task of its own, so that the run can leave it. At the deadline the
call is cancelled. A call that does not end within `GRACE` seconds is abandoned: it goes on
unobserved, and the log says so. The caller waits for no abandoned call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Coroutine
from typing import Any, Final, Protocol

from ..faults import Stray, contained, origin, strays

GRACE: Final = 1.0
"""Seconds that a call has to end after its cancellation at the deadline."""
LEAST: Final = 0.001
"""The shortest wait in seconds: the clock of the run may differ from that of the event loop."""
_log = logging.getLogger("agentic_kernel_engine.tools")
_abandoned: Final[set[asyncio.Task[Any]]] = set()
"""The tasks of abandoned calls: the event loop itself keeps only weak references."""


class Timed(Protocol):
    """The clock of a run that has a limit of time."""

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the run may go on working; None for no limit."""
        ...


class DeadlinePassed(Exception):
    """The time of the run was over before the call ended; the call was cancelled.

    Attributes:
        begun: False if the call was not begun.
    """

    def __init__(self, *, begun: bool = True) -> None:
        self.begun = begun
        super().__init__(begun)


async def bounded(
    work: Awaitable[Any], timed: Timed, what: str, own: asyncio.Timeout | None = None
) -> Any:
    """The result of a call, which is cancelled at the run's deadline.

    If the caller is cancelled, the call is cancelled as well, and the caller waits for its end.

    Args:
        work: The call; it begins in an asyncio task of its own.
        timed: The run's clock.
        what: Name of the called part, for the log.
        own: The call's own timeout; its time begins with the call.

    Raises:
        DeadlinePassed: The deadline came first. Its cause is the cancellation or the exception that
            ended the call.
    """
    left = timed.seconds_left
    if left is not None and left <= 0:
        if isinstance(work, Coroutine):
            work.close()
        raise DeadlinePassed(begun=False)
    task = asyncio.create_task(_in_time(work, timed, own))
    late = False
    try:
        while not task.done():
            left = timed.seconds_left
            late = left is not None and left <= 0
            if late:
                break
            await asyncio.wait((task,), timeout=None if left is None else max(left, LEAST))
    except GeneratorExit:
        task.cancel()  # The event loop destroys this coroutine, so it must not wait any more.
        raise
    except BaseException:
        await _end(task, work, what, timed)
        raise
    await _end(task, work, what, timed)
    if not late:
        return _result(task)
    raise DeadlinePassed from _end_of(task)


def _end_of(task: asyncio.Task[Any]) -> BaseException | None:
    """The cancellation or the exception that ended a task; None for a result, or if it goes on."""
    if not task.done():
        return None
    try:
        task.result()
    except BaseException as ended:
        return ended
    return None


class BoundedStream:
    """The pieces of a stream, up to the run's deadline; the whole stream runs in one asyncio task.

    The stream is asked for a piece only after the last one was taken. `aclose` ends the stream.

    Args:
        stream: The stream; it is closed in the task that reads it.
        timed: The run's clock.
        what: Name of the called part, for the log.
    """

    __slots__ = ("_late", "_piece", "_ready", "_stream", "_task", "_timed", "_timer", "_wanted",
                 "_what")  # fmt: skip

    def __init__(self, stream: AsyncIterator[Any], timed: Timed, what: str) -> None:
        self._stream = stream
        self._timed = timed
        self._what = what
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._piece: Any = None
        self._ready = asyncio.Event()
        self._wanted = asyncio.Event()
        self._late = False

    def __aiter__(self) -> BoundedStream:
        return self

    async def __anext__(self) -> Any:
        """The next piece.

        Raises:
            DeadlinePassed: The deadline came first.
        """
        self._ready.clear()
        self._wanted.set()
        task = self._task
        if task is None:
            task = self._task = asyncio.create_task(self._read())
            task.add_done_callback(self._wake)
            self._check()
        if not task.done() and not self._late:
            await self._ready.wait()
        if task.done():
            _result(task)
            raise StopAsyncIteration
        if self._late:
            raise DeadlinePassed
        return self._piece

    async def aclose(self) -> None:
        """End the stream, and wait until it has ended, up to `GRACE` seconds after the deadline."""
        if self._timer is not None:
            self._timer.cancel()
        task = self._task
        if task is None or task.done():
            return
        await _leave(task, self._what, self._timed)
        if not self._late and task.done() and not task.cancelled():
            _result(task)

    async def _read(self) -> None:
        """Hand over one piece each time that one is wanted.

        It does the work of `contained` itself: the task may be cancelled before its first step, and
        would then leave a coroutine inside it that was never awaited.
        """
        try:
            try:
                await self._wanted.wait()
                self._wanted.clear()
                async for piece in self._stream:
                    self._piece = piece
                    self._ready.set()
                    await self._wanted.wait()
                    self._wanted.clear()
            finally:
                close = getattr(self._stream, "aclose", None)
                if close is not None:
                    await close()
        except BaseException as fault:
            if strays(fault):
                raise Stray from fault
            raise

    def _wake(self, _: object) -> None:
        self._ready.set()

    def _check(self) -> None:
        """Note if the deadline has passed; otherwise look again when it is due."""
        left = self._timed.seconds_left
        if left is None:
            return
        if left <= 0:
            self._late = True
            self._ready.set()
        else:
            due = max(left, LEAST)
            self._timer = asyncio.get_running_loop().call_later(due, self._check)


def _result(task: asyncio.Task[Any]) -> Any:
    """The result of a call that ended; its exceptions are raised as they were."""
    try:
        return task.result()
    except Stray as stray:
        raise origin(stray) from None


async def _in_time(work: Awaitable[Any], timed: Timed, own: asyncio.Timeout | None) -> Any:
    left = timed.seconds_left
    if left is not None and left <= 0:
        raise DeadlinePassed(begun=False)
    if own is None:
        return await contained(work)
    async with own:
        return await contained(work)


async def _end(task: asyncio.Task[Any], work: Awaitable[Any], what: str, timed: Timed) -> None:
    await _leave(task, what, timed)
    if task.done() and isinstance(work, Coroutine):
        work.close()  # The call may have ended before its first step.


async def _leave(task: asyncio.Task[Any], what: str, timed: Timed) -> None:
    """Cancel a call and wait for its end, up to `GRACE` seconds after the deadline."""
    again = False
    while not task.done():
        task.cancel()
        left = timed.seconds_left
        try:
            patience = None if left is None else max(left, 0) + GRACE
            await asyncio.wait((task,), timeout=patience)
        except asyncio.CancelledError:
            again = True
            continue
        break
    if not task.done():
        _abandoned.add(task)
        task.add_done_callback(_forget)
        _log.warning(
            "%s did not end within %g seconds after the limit of time cancelled it, and goes on "
            "unobserved; let it end when it is cancelled",
            what, GRACE,
        )  # fmt: skip
    elif not task.cancelled():
        task.exception()  # Retrieved, so that asyncio logs no warning.
    if again:
        raise asyncio.CancelledError


def _forget(task: asyncio.Task[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()
