"""Workbench: one test's access to a system; it dispatches, reads and cleans up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from agentic_kernel import (
    CannotStart,
    Complete,
    Dispatch,
    Fail,
    Failure,
    IllegalTransition,
    Kill,
    Mutation,
    Pause,
    Task,
    TaskNotFound,
    TaskStatus,
    apply,
)

from .reading import CANCELLED, FAILURE, PAUSED, RUNNING, SUCCESS, TERMINAL, Reader
from .rules import accepted, in_time
from .work import HearingWork, System, Work, extra_of

FAULT = Failure("conformance/fault", "reported from outside", {"retry_after_ms": 7})
"""The failure that the contracts report from outside."""

Verb = Callable[[System, str], Awaitable[object]]

VERBS: dict[str, Verb] = {
    "pause": lambda system, task_id: system.pause(task_id),
    "resume": lambda system, task_id: system.resume(task_id, "an extra"),
    "kill": lambda system, task_id: system.kill(task_id),
    "complete": lambda system, task_id: system.complete(task_id, {"late": True}),
    "fail": lambda system, task_id: system.fail(task_id, FAULT),
}
"""The verbs on a stored Task; each has a payload that a read would show if it took effect."""


class Workbench:
    """The access of one test to a system; reads go through a `Reader`.

    Args:
        system: The Runtime and Query under test.
        work: Makes the Tasks of the test.
        patience: Seconds to wait for an event that must happen; after that the test fails.
    """

    def __init__(self, system: System, work: Work, patience: float) -> None:
        self.system = system
        self.work = work
        self.patience = patience
        self.reader = Reader(system, patience)
        self._dispatched: list[str] = []

    def another_reader(self) -> Reader:
        """Return a new observer, which has seen no Task yet."""
        return Reader(self.system, self.patience)

    def extra(self, token: str) -> str:
        """Return the extra of the work for a token, or the token if the work names no extras."""
        return extra_of(self.work, token)

    @property
    def hears(self) -> bool:
        """True if the work says with which extras its Tasks are resumed."""
        return isinstance(self.work, HearingWork)

    async def dispatch(self, task: Task) -> str:
        """Dispatch a Task and return its id; `close` kills the Task when the test ends."""
        self._dispatched.append(task.id)
        self.reader.expects(task)
        try:
            await self.within(self.system.dispatch(task))
        except CannotStart:
            self.reader.forgets(task)
            raise
        return task.id

    async def dispatch_running(self) -> str:
        """Dispatch a Task that runs until it is stopped, and return its id."""
        task_id = await self.dispatch(self.work.run_until_stopped())
        await self.reader.until(task_id, RUNNING)
        return task_id

    async def dispatch_paused(self) -> str:
        """Dispatch a Task, pause it while it runs, and return its id."""
        task_id = await self.dispatch_running()
        await self.pause(task_id)
        return task_id

    async def dispatch_ended(self, status: TaskStatus) -> str:
        """Dispatch a Task, end it from outside in the given status, and return its id."""
        task_id = await self.dispatch_running()
        if status is SUCCESS:
            await self.system.complete(task_id, {"answer": 42})
        elif status is FAILURE:
            await self.system.fail(task_id, FAULT)
        else:
            await self.system.kill(task_id)
        await self.reader.until(task_id, status)
        return task_id

    async def pause(self, task_id: str) -> Task:
        """Ask for a pause and wait until the Task is paused."""
        await self.within(self.system.pause(task_id))
        return await self.reader.until(task_id, PAUSED)

    async def kill(self, task_id: str, rule: str = "edges") -> Task:
        """Kill a Task and wait for its end, which must be ``cancelled``."""
        await self.within(self.system.kill(task_id))
        return await self.reader.until(task_id, CANCELLED, rule=rule)

    async def within(self, call: Awaitable[Any]) -> Any:
        """Return the result of the call; report ``edges`` if it exceeds the patience."""
        async with in_time("edges", self.patience, "a call"):
            return await call

    async def close(self) -> None:
        """Kill every Task of this test, and check that each one has ended."""
        for task_id in self._dispatched:
            try:
                await self.system.get(task_id)
            except TaskNotFound:
                continue  # the dispatch was refused, as the test expected
            with accepted("edges", "kill at the end of a test"):
                await self.within(self.system.kill(task_id))
            await self.reader.until(task_id, *TERMINAL)


def started(task: Task, status: TaskStatus) -> Task:
    """Return the Task moved to a status that no ``dispatch`` accepts."""
    paths: dict[TaskStatus, tuple[Mutation, ...]] = {
        RUNNING: (Dispatch(),),
        PAUSED: (Dispatch(), Pause()),
        SUCCESS: (Dispatch(), Complete(None)),
        FAILURE: (Dispatch(), Fail(FAULT)),
        CANCELLED: (Kill(),),
    }
    for mutation in paths[status]:
        task = apply(task, mutation, datetime.now(UTC))
    return task


async def tolerating_paused(call: Awaitable[object]) -> bool:
    """True if the call was accepted, False if the Task was paused and refused it.

    Raises:
        IllegalTransition: The Task refused the call and was not paused.
    """
    try:
        await call
    except IllegalTransition as error:
        if TaskStatus(error.status) is not PAUSED:
            raise
        return False
    return True
