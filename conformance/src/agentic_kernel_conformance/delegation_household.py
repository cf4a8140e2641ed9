"""Household: the parents of one test, their children, and the Runtime of the children."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from agentic_kernel import Task, TaskStatus
from agentic_kernel.ids import new_id
from agentic_kernel_engine import Host
from agentic_kernel_engine.seams import Delegation, child_of

from .delegation_family import KIND, Family, Parent
from .rules import RuleError, broken, expect, in_time
from .work import System

T = TypeVar("T")
Make = Callable[[], Delegation]
"""Makes a `Delegation`, as each process makes its own."""
Agents = tuple[str | None, str | None]
"""The agent of a parent, and the agent of the child to which it gives work."""

_LOOK: Final = 0.001
"""Seconds between two polls of a Task's status."""
_TURNS: Final = 50


@dataclass(slots=True)
class Household:
    """The Host of the parents, and the Delegation that starts their children.

    Attributes:
        home: The Runtime and Query of the children.
        errand: Instructions of a child that runs until it is stopped.
        patience: Seconds that one call may take.
        delegation: The first Delegation that ``make`` made.
    """

    make: Make
    host: Host
    home: System
    family: Family
    errand: str
    agents: Agents
    patience: float
    delegation: Delegation = field(init=False)

    def __post_init__(self) -> None:
        self.delegation = self.make()

    async def parent(self) -> Parent:
        """Dispatch one more parent, and return it when it runs."""
        parent = Parent(self.agents[0])
        self.family.parents[parent.task.id] = parent
        await self.host.dispatch(parent.task)
        await parent.runs.wait()
        return parent

    def admitted(self, parent: Parent, errand: str | None = None) -> Task:
        """Return a child that the Delegation admits; it is not started yet."""
        wanted = child_of(
            parent.job.task, id=new_id(), summary="a part of it",
            instructions=self.errand if errand is None else errand, kind=KIND,
            agent=self.agents[1],
        )  # fmt: skip
        who = f"a child of {self.agents[0]} that is {self.agents[1]}"
        try:
            return self.delegation.admit(parent.job.task, wanted)
        except Exception as error:
            raise broken("admit", f"{who}: {error!r:.200}") from error

    async def started(self, parent: Parent, errand: str | None = None) -> Task:
        """Return a child that the Delegation has started."""
        child = self.admitted(parent, errand)
        await self.done("children", self.delegation.spawn(parent.job, child), "starting a child")
        return child

    async def stranger(self, whose: str) -> Task:
        """Return a running Task of ``another`` parent or of ``nobody``, at the children's home."""
        other = await self.parent()
        if whose == "another":
            child = await self.started(other)
        else:
            kind = self.admitted(other).runtime_kind
            child = Task.new(summary="", instructions=self.errand, runtime_kind=kind)
            await self.home.dispatch(child)
        return await self.until("children", child.id, TaskStatus.RUNNING)

    async def done(self, rule: str, call: Awaitable[T], doing: str) -> T:
        """Return the result of a call that must succeed within the patience."""
        async with in_time(rule, self.patience, doing):
            try:
                return await call
            except RuleError:
                raise
            except Exception as error:
                raise broken(rule, f"{doing} raised {error!r:.200}") from error

    async def until(self, rule: str, child: str, status: TaskStatus) -> Task:
        """Wait until the child has this status, and return its snapshot."""
        async with in_time(rule, self.patience, f"a child's way to {status}"):
            while (task := await self.home.get(child)).status is not status:
                gone = task.status.terminal
                expect(not gone, rule, f"a child that was to be {status} is {task.status}")
                await asyncio.sleep(_LOOK)
        return task

    async def expect_same(self, rule: str, before: Task) -> None:
        """Report ``rule`` as broken if the child has changed since ``before``."""
        after = await self.home.get(before.id)
        was, now = [(t.status, t.result, t.started_at, t.supplements) for t in (before, after)]
        expect(was == now, rule, f"it was {before!a:.300}, and is {after!a:.300}")


async def turns() -> None:
    """Give every asyncio task some turns of the event loop."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


@asynccontextmanager
async def beside(call: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Run a call while the block runs; cancel the call when the block ends."""
    task = asyncio.create_task(call)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
