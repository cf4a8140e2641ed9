"""Other threads on the same store: each with an event loop of its own."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
Job = Callable[[], Coroutine[Any, Any, T]]

_EAGER: Final = 1e-5
"""Seconds after which a thread yields the interpreter; it is some milliseconds by default."""
_GRACE: Final = 5.0
"""Seconds after which a thread that was told to end is left to itself."""


async def in_threads(jobs: Sequence[Job[T]], seconds: float) -> list[T]:
    """What the jobs give, each on the event loop of a thread of its own, all at the same time.

    Raises:
        TimeoutError: A job did not end in time.
        Exception: What the first job that failed raised; the others are cancelled.
    """
    workers = [_Worker(job) for job in jobs]
    ends = [asyncio.wrap_future(worker.end) for worker in workers]
    try:
        done, left = await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for worker in workers:
            worker.cancel()
        ended, _ = await asyncio.wait(ends, timeout=_GRACE)
    failed = [error for end in (*done, *ended) if (error := end.exception()) is not None]
    if done and failed:
        raise failed[0]
    if left:
        raise TimeoutError(f"{len(left)} of {len(jobs)} threads did not end within {seconds:g} s")
    return [end.result() for end in ends]


class _Worker(Generic[T]):
    """One job on a thread."""

    def __init__(self, job: Job[T]) -> None:
        self.end: Future[T] = Future()
        self._job = job
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[T] | None = None
        # A job that hangs where no cancellation reaches it must not keep the interpreter.
        threading.Thread(target=self._run, daemon=True).start()

    def cancel(self) -> None:
        """Cancel the job if it has begun and not ended."""
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # the loop is closed: it has ended
                self._loop.call_soon_threadsafe(self._task.cancel)

    def _run(self) -> None:
        self.end.set_running_or_notify_cancel()
        try:
            answer = asyncio.run(self._main())
        except asyncio.CancelledError:
            self.end.set_exception(TimeoutError("cancelled"))
        except BaseException as error:
            self.end.set_exception(error)
        else:
            self.end.set_result(answer)

    async def _main(self) -> T:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._job())
        return await self._task


@contextmanager
def taking_turns_often() -> Iterator[None]:
    """Have the threads interrupt each other as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_EAGER)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
