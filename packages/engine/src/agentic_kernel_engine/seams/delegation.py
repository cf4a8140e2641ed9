"""Delegation: who may give work to whom, and where a child Task runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from agentic_kernel import (
    CannotStart,
    IllegalTransition,
    InvalidValue,
    KernelError,
    Task,
    TaskExists,
    TaskNotFound,
    TaskStatus,
)

from ..waiting import asked as asked
from ..waiting import digests as digests

if TYPE_CHECKING:
    from ..host.job import Job
    from ..router import Served

DEPTH: Final = "engine/depth"
"""Metadata of a child: how many Tasks above it delegated to it."""
LINEAGE: Final = "engine/lineage"
"""Metadata of a child: the Agents that the work went through, the outermost first."""
PARENT: Final = "engine/parent"
"""Metadata of a child: the id of the Task that gave the work to it."""
LOOK: Final = 0.1
"""Seconds between the first two looks at a child on a Runtime that cannot be waited on."""
SELDOM: Final = 2.0
"""Seconds between later looks, and between two at a child that is paused and asks for nothing."""


class DelegationRefused(KernelError):
    """Work may not be given to this child; the planner is told why, and the run goes on.

    Attributes:
        reason: Why, and what to do instead.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return self.reason


class Delegation(Protocol):
    """How a run gives work to children.

    The Loop bounds the depth, makes the child's Task, and has its id on record before `spawn`. So
    every method may be called again for the same child after a crash, and must then find what it
    did before. ``job`` is the parent's hold on its own Task.

    A kill of the parent ends its children. Those in the parent's own store are swept by the Host;
    an implementation that runs them elsewhere kills them when `join` is cancelled while
    ``job.killed``. Any other cancellation leaves the child alone: the parent will be back. For a
    parent that did not wait, an implementation may have ``async def on_killed(self, parent: Task,
    child: str) -> None``: kill a child that was spawned and has not been joined to its end.
    """

    def admit(self, parent: Task, child: Task) -> Task:
        """The child as it is to be started, with the id, parent, depth and lineage that it has.

        Decides by the two Tasks alone, and the same again for the same two; nothing is written
        before it. It is asked about calls of an `AgentTool` as well.

        Raises:
            DelegationRefused: This parent may not give work to this child.
        """
        ...

    async def spawn(self, job: Job, child: Task) -> None:
        """Start the child; one that was started before by this parent counts as started (R13).

        Raises:
            CannotStart: It cannot be started, and was not.
            TaskExists: The id belongs to somebody else's Task.
        """
        ...

    async def join(self, job: Job, child: str) -> Task:
        """Wait until the child has ended or asks people for something; return that snapshot.

        It asks where it is ``paused`` and `asked` of it is not None. A child that is paused for
        anything else is waited for.

        Raises:
            TaskNotFound: There is no such child of this parent.
        """
        ...

    async def tell(self, job: Job, child: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        """Leave decisions in the child's inbox, all of them before it goes on, and let it go on.

        Each has a ``digest`` of something that the child asked for. At least once: a child uses a
        decision once and ignores it from then on. Nothing is done for a child that has ended.

        Raises:
            TaskNotFound: There is no such child of this parent.
        """
        ...

    async def cancel(self, job: Job, child: str) -> None:
        """Kill the child; a no-op where it has ended.

        Raises:
            TaskNotFound: There is no such child of this parent.
        """
        ...


class ChildTasks:
    """Children on the Host of their parent, in its store and its slot.

    Args:
        cycles: Whether an Agent may give work to itself, or to one that the work came through.
    """

    def __init__(self, *, cycles: bool = False) -> None:
        self.cycles = cycles

    def admit(self, parent: Task, child: Task) -> Task:
        if not self.cycles:
            refuse_cycle(parent, child)
        return child

    async def spawn(self, job: Job, child: Task) -> None:
        await job.spawn(child)

    async def join(self, job: Job, child: str) -> Task:
        return await _settled(job.join, child)

    async def tell(self, job: Job, child: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        wanted = _wanted(await job.join(child, *TaskStatus), decisions)
        if wanted:
            with suppress(IllegalTransition):
                await job.tell(child, wanted)

    async def cancel(self, job: Job, child: str) -> None:
        await job.cancel(child)


class OnRuntime:
    """Children on a Runtime of their own, wherever it runs them.

    On a Host the children know their parent: over the parent's store a kill of the parent ends
    them in every case, over another one while the parent runs. Decisions reach a child where the
    Runtime has the Host's `decide`; without it they are refused.

    Args:
        runtime: Where the children run.
        runtime_kind: Of the children; None for the parent's.
        cycles: As for `ChildTasks`.
    """

    def __init__(
        self, runtime: Served, *, runtime_kind: str | None = None, cycles: bool = False
    ) -> None:
        self._runtime = runtime
        self._kind = runtime_kind
        self.cycles = cycles

    def admit(self, parent: Task, child: Task) -> Task:
        if not self.cycles:
            refuse_cycle(parent, child)
        return child if self._kind is None else replace(child, runtime_kind=self._kind)

    async def spawn(self, job: Job, child: Task) -> None:
        spawn = getattr(self._runtime, "spawn", None)
        try:
            if spawn is not None:
                await spawn(child, job.task.id)
            else:
                await self._runtime.dispatch(child)
        except (TaskExists, CannotStart):
            # One that is there already needs no slot and no consent any more.
            with suppress(TaskNotFound):
                await self._own(job, child.id)
                return
            raise

    async def join(self, job: Job, child: str) -> Task:
        await self._own(job, child)
        wait = getattr(self._runtime, "wait", None)
        try:
            return await _settled(self._look if wait is None else wait, child)
        except asyncio.CancelledError:
            if job.killed:
                await self._runtime.kill(child)
            raise

    async def tell(self, job: Job, child: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        wanted = _wanted(await self._own(job, child), decisions)
        if not wanted:
            return
        runtime: Any = self._runtime
        if not hasattr(runtime, "decide"):
            raise DelegationRefused(
                f"child {child} waits for a decision, and a {type(runtime).__name__} takes none"
            )
        *others, last = wanted
        with suppress(IllegalTransition):
            for decision in others:
                await runtime.post(child, decision)
            await runtime.decide(child, last)

    async def cancel(self, job: Job, child: str) -> None:
        await self._own(job, child)
        await self._runtime.kill(child)

    async def on_killed(self, parent: Task, child: str) -> None:
        """Kill a child, if it is one, after its parent was killed."""
        with suppress(TaskNotFound):
            if (await self._runtime.get(child)).metadata.get(PARENT) == parent.id:
                await self._runtime.kill(child)

    async def _own(self, job: Job, child: str) -> Task:
        task = await self._runtime.get(child)
        if task.metadata.get(PARENT) != job.task.id:
            raise TaskNotFound(child)
        return task

    async def _look(self, child: str, *statuses: TaskStatus) -> Task:
        """`Host.wait` for a Runtime that cannot be waited on."""
        pause = LOOK
        while True:
            task = await self._runtime.get(child)
            if task.status in statuses or task.status.terminal:
                return task
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, SELDOM)


def child_of(
    parent: Task, *, id: str, summary: str, instructions: str, kind: str, agent: str | None
) -> Task:
    """The Task of a child, with its depth and its lineage.

    Nothing else of the parent's metadata goes with it: a child has a session of its own.

    Raises:
        DelegationRefused: There can be no such Task; the name of its Agent is none.
    """
    try:
        return Task.new(
            summary=summary, instructions=instructions, runtime_kind=kind, agent_name=agent, id=id,
            metadata={
                DEPTH: depth(parent) + 1,
                PARENT: parent.id,
                LINEAGE: [*lineage(parent), *([agent] if agent else ())],
            },
        )  # fmt: skip
    except InvalidValue as invalid:
        raise DelegationRefused(str(invalid)) from invalid


def depth(task: Task) -> int:
    """How many Tasks above this one delegated to it; 0 where its metadata says no such thing."""
    found = task.metadata.get(DEPTH, 0)
    return max(found, 0) if type(found) is int else 0


def lineage(task: Task) -> list[str]:
    """Whom the work went through, this Task's own Agent included, whatever its metadata says."""
    found = task.metadata.get(LINEAGE)
    names = [name for name in found if isinstance(name, str)] if isinstance(found, list) else []
    if task.agent_name and task.agent_name not in names[-1:]:
        names.append(task.agent_name)
    return names


def refuse_cycle(parent: Task, child: Task) -> None:
    """Refuse a child that the work came through already.

    Raises:
        DelegationRefused: It did.
    """
    above = lineage(parent)
    for name in lineage(child)[len(above) :]:
        if name in above:
            raise DelegationRefused(
                f"the work came from {name!r} already ({' > '.join(above)}); do it here, or give "
                "it to another"
            )


def _wanted(child: Task, decisions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What a child may still need, none of it if it has ended; last what lets it go on.

    A child that does not ask for something just now may ask again: it waits for its own children
    one at a time.
    """
    if child.status.terminal:
        return []
    open_ = digests(asked(child) or {})
    return sorted(decisions, key=lambda decision: decision.get("digest") in open_)


async def _settled(wait: Callable[..., Awaitable[Task]], child: str) -> Task:
    """Wait until a child has ended or asks for something."""
    while True:
        task = await wait(child, TaskStatus.PAUSED)
        if task.status.terminal or asked(task) is not None:
            return task
        with suppress(TimeoutError):  # It may run for so short a time that no news of it comes.
            async with asyncio.timeout(SELDOM):
                await wait(child, TaskStatus.RUNNING)
