"""In flight: slots of running Tasks, and calls that no caller or stray can cut short (R4)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from types import coroutine
from typing import Any, TypeVar

from agentic_kernel import CannotStart

from ..errors import UnknownOutcome
from ..faults import kind_of, reraise_run_end, said

T = TypeVar("T")


class Slots:
    """A FIFO semaphore: a caller takes a slot before its write is durable, or is refused (R9).

    A caller waits only while no slot is free, because `give_back` passes a slot directly to the
    longest waiting caller. So `take` never overtakes a caller in `wait`.

    Args:
        limit: The number of slots; None for no limit.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._taken = 0
        self.closed = False
        """True while the Host drains and after."""
        self._queue: deque[asyncio.Future[None]] = deque()
        """One future for each waiting caller, oldest first."""

    @property
    def free(self) -> bool:
        """True if a slot could be taken now."""
        return not self.closed and (self._limit is None or self._taken < self._limit)

    def take(self, task_id: str) -> None:
        """Take a slot.

        Raises:
            CannotStart: All are taken, or the Host is draining.
        """
        self.check_open(task_id)
        if not self.free:
            raise CannotStart(
                f"{self._taken} Tasks are in flight and max_in_flight is {self._limit}; "
                "wait with run(), or allow more",
                task_id,
            )
        self._taken += 1

    def check_open(self, task_id: str) -> None:
        """Refuse a Task while the Host drains.

        Raises:
            CannotStart: The Host is draining.
        """
        if self.closed:
            raise CannotStart(
                "this Host is draining and starts nothing more; dispatch it on another Host",
                task_id,
            )

    async def wait(self, task_id: str) -> None:
        """Take a slot as soon as one is free, first come first served.

        Raises:
            CannotStart: The Host is draining, or begins to while this waits.
        """
        if self.closed or (self.free and not self._queue):
            self.take(task_id)
            return
        await turn(self._queue, self.give_back)
        if self.closed:
            self.give_back()
            self.check_open(task_id)

    def give_back(self) -> None:
        """Return a slot; the longest waiting caller gets it."""
        self._taken -= 1
        while self._queue and self.free:
            self._grant(self._queue.popleft())

    def close(self) -> None:
        """Refuse from now on, and wake the waiting callers to be refused.

        Each of them counts as a slot until it runs and gives the slot back, so for a moment more
        slots than the limit are taken.
        """
        self.closed = True
        while self._queue:
            self._grant(self._queue.popleft())

    def _grant(self, given: asyncio.Future[None]) -> None:
        """Take a slot for a waiting caller; a caller that was cancelled is passed over."""
        if not given.done():
            self._taken += 1
            given.set_result(None)


async def turn(queue: deque[asyncio.Future[None]], pass_on: Callable[[], None]) -> None:
    """Wait in a queue, oldest first, until another caller sets the future of this one.

    A caller that is cancelled leaves the queue.

    Args:
        pass_on: Called if this caller got its turn and was cancelled before it ran again.
    """
    given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    queue.append(given)
    try:
        await given
    except asyncio.CancelledError:
        if given.done() and not given.cancelled():
            pass_on()
        elif given in queue:
            queue.remove(given)
        raise


class Shielded:
    """A set of asyncio tasks that run to their end, even if their callers stop waiting."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], asyncio.Future[Any] | None] = {}
        """Each task, with the future that its caller waits for, if it has one."""
        # Made once, because there may be very many tasks (memory in benchmarks/host.py). With the
        # callback, asyncio would keep the caller's context alive, so it gets an empty one.
        self._ended = self._done
        self._around = Context()

    def start(
        self, work: Coroutine[Any, Any, T], result: asyncio.Future[T] | None = None
    ) -> asyncio.Task[T]:
        """Begin the work and keep hold of it until it is done.

        The work reports its own faults: an exception that it raises is not logged here.

        Args:
            result: A future that gets the result or the exception of the work.
        """
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = result
        task.add_done_callback(self._ended, context=self._around)
        return task

    def at_once(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the work synchronously; start a task for the rest of it only if it suspends.

        An exception that the work raises before it suspends is raised here.
        """
        try:
            waits_for = work.send(None)
        except StopIteration:
            return
        self.start(_rest(work, waits_for))

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """The work's result; if the caller is cancelled, the work goes on without it.

        A stray of the store that the work meets is raised as an `UnknownOutcome`.
        Like `asyncio.shield`, but one turn of the event loop less (the step in benchmarks/host.py).
        """
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.start(answered(work), result)
        return result

    async def settle(self, work: Coroutine[Any, Any, T]) -> tuple[T, asyncio.CancelledError | None]:
        """The work's result; the wait goes on even while the caller is being cancelled.

        Use it for a result that must be known before a cancellation may go on. The work itself is
        bounded.

        Returns:
            The result, and the last cancellation that came meanwhile. The caller raises it, unless
            it is already handling one.
        """
        task, cancelled = self.start(work), None
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError as fault:
                if task.cancelled():
                    raise
                cancelled = fault
            except Exception:
                break
        return task.result(), cancelled

    async def idle(self, timeout: float) -> bool:
        """Wait until only the caller's own task is left; False after ``timeout`` seconds."""
        others = self._tasks.keys() - {asyncio.current_task()}
        if not others:
            return True
        _, left = await asyncio.wait(others, timeout=timeout)
        return not left

    def _done(self, task: asyncio.Task[Any]) -> None:
        result = self._tasks.pop(task)
        if result is not None and result.done():  # The caller has stopped waiting.
            result = None
        if task.cancelled():
            if result is not None:
                result.cancel()
            return
        fault = task.exception()  # Retrieved here, because the caller may have stopped waiting.
        if result is None:
            return
        if fault is None:
            result.set_result(task.result())
        else:
            result.set_exception(fault)


async def _rest(work: Coroutine[Any, Any, None], waits_for: Any) -> None:
    """The rest of work that has begun and has suspended."""
    await _driven(work, waits_for)


@coroutine
def _driven(work: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    try:
        while True:
            try:
                yield waits_for
            except BaseException as fault:
                waits_for = work.throw(fault)
            else:
                waits_for = work.send(None)
    except StopIteration:
        return


async def answered(call: Awaitable[T]) -> T:
    """Await a call of the store; a stray that it raises becomes an `UnknownOutcome` (R4, R5).

    A stray is a cancellation that is not aimed at the current asyncio task, a ``SystemExit``, or
    any other fault of the store that is no `Exception`. It says nothing about the outcome, and it
    would end the caller, or the event loop.

    Raises:
        KeyboardInterrupt, asyncio.CancelledError, GeneratorExit: As `reraise_run_end`.
    """
    try:
        return await call
    except Exception:
        raise
    except BaseException as fault:
        reraise_run_end(fault)
        raise UnknownOutcome(
            f"the store raised {kind_of(fault)} instead of an answer: {said(fault)}; look at the "
            "Task again"
        ) from fault
