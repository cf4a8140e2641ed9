"""Threads on the same store, each with its own event loop."""

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
"""The interpreter's switch interval in seconds; the default is some milliseconds."""
_GRACE: Final = 5.0
"""Seconds to wait for the threads that were cancelled; after that they are abandoned."""


async def in_threads(jobs: Sequence[Job[T]], seconds: float) -> list[T]:
    """Run the jobs at the same time, each on the event loop of its own thread; return the results.

    Raises:
        TimeoutError: A job did not end in time.
        Exception: The exception of a job that failed; the other jobs are cancelled.
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
        # A daemon: a job that no cancellation reaches must not keep the process from ending.
        threading.Thread(target=self._run, daemon=True).start()

    def cancel(self) -> None:
        """Cancel the job if it has begun and not ended."""
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # the loop is closed: the job has ended
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
    """Make the interpreter switch between threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_EAGER)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
