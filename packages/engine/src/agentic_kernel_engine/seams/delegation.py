"""Delegation: which Task may give work to which child, and where the child runs."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

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

from .. import edges
from ..plans.accounts import Account
from ..plans.budget import Amounts
from ..plans.lineage import DEPTH, LINEAGE, PARENT, depth, lineage
from ..principal import Principal
from ..waiting import asked, digests

if TYPE_CHECKING:
    from ..host.job import Job
    from ..router import Served

LOOK: Final = 0.1
"""Seconds between the first two polls of a child on a Runtime without ``wait``."""
SELDOM: Final = 2.0
"""Seconds between later polls, and between two of a child that is paused and asks for nothing."""


class DelegationRefused(KernelError):
    """The parent may not give work to this child; the planner is told why, and the run goes on.

    Attributes:
        reason: The reason, and what to do instead.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Delegation(Protocol):
    """Gives work of a run to children.

    The Loop bounds the depth, makes the child's Task, and puts its id on record before `spawn`. So
    every method may be called again for the same child after a crash, and must then find what it
    did before. ``job`` is the parent's hold on its own Task.

    A kill of the parent ends its children. The Host kills those in the parent's own store. An
    implementation that runs children elsewhere kills a child when `join` is cancelled while
    ``job.killed``. Any other cancellation leaves the child alone, because the parent will be back.
    For a parent that did not wait, an implementation may also be an `EndsChildren`.
    """

    def admit(self, parent: Task, child: Task) -> Task:
        """The child as it is to be started; its id, parent, depth and lineage stay as they are.

        The decision depends only on the two Tasks, and is the same again for the same two. Nothing
        is written before it. It is also asked for about calls of an `AgentTool`.

        Raises:
            DelegationRefused: This parent may not give work to this child.
        """
        ...

    async def spawn(self, job: Job, child: Task) -> None:
        """Start the child; a child that this parent started before counts as started.

        R13: the child's id is on record before its start, so a start may be repeated.

        Raises:
            CannotStart: The child cannot be started, and was not.
            TaskExists: The id belongs to a Task that is not a child of this parent.
        """
        ...

    async def join(self, job: Job, child: str) -> Task:
        """Wait until the child has ended or asks people for something; return that snapshot.

        A child asks if it is ``paused`` and `asked` of it is not None. A child that is paused for
        another reason is waited for.

        Raises:
            TaskNotFound: There is no such child of this parent.
        """
        ...

    async def tell(self, job: Job, child: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        """Put all the decisions into the child's inbox, and then let the child go on.

        Each decision has the ``digest`` of a request of the child. They may be delivered more than
        once: a child uses a decision once, and ignores it from then on. For a child that has ended,
        nothing is done.

        Raises:
            TaskNotFound: There is no such child of this parent.
        """
        ...

    async def cancel(self, job: Job, child: str) -> None:
        """Kill the child; a no-op if it has ended.

        Raises:
            TaskNotFound: There is no such child of this parent.
        """
        ...


class Metering(Protocol):
    """A Delegation that can share a budget with its children (R18). Name it as a base class.

    Under limits that a family shares, the Loop refuses work to a child of a Delegation that is not
    Metering or does not meter. `Job.grants` has the grant of a child that is to be spawned: store
    it with the child, as `Job.spawn` and `Host.spawn` do.
    """

    @property
    @abstractmethod
    def meters(self) -> bool:
        """True if the children keep within their grants, and their records say what they used."""
        ...

    @property
    @abstractmethod
    def unmetered(self) -> bool:
        """True if the children are declared to be outside the budget: they get no grant."""
        ...

    @property
    @abstractmethod
    def away(self) -> bool:
        """True if the children may be in another store than their parent."""
        ...

    @abstractmethod
    async def account(self, job: Job, child: str) -> Account:
        """Return the use of the child's grant, as the child's record says.

        Raises:
            TaskNotFound: No such Task is stored there.
        """
        ...

    @abstractmethod
    async def fence(self, job: Job, child: str) -> None:
        """Make sure that a child that is not stored never begins; nothing is done if it is stored.

        A process that lost the parent may be about to start the child.
        """
        ...

    @abstractmethod
    async def regrant(self, job: Job, child: str, grant: Amounts, seq: int) -> None:
        """Tell a child its new grant, under the number of the change; a child that ended hears
        nothing.
        """
        ...


class ChildTasks(Metering):
    """Runs children on the Host of their parent, in its store and its slot.

    Args:
        cycles: True if an Agent may give work to itself, or to one that the work came through.
    """

    meters = True
    unmetered = False
    away = False

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

    async def account(self, job: Job, child: str) -> Account:
        return await job.account(child)

    async def fence(self, job: Job, child: str) -> None:
        await job.fence(child)

    async def regrant(self, job: Job, child: str, grant: Amounts, seq: int) -> None:
        await job.regrant(child, msgspec.to_builtins(grant), seq)


class EndsChildren(Protocol):
    """A Delegation that ends a child that a killed parent did not join. Name it as a base class."""

    @abstractmethod
    async def on_killed(self, parent: Task, child: str) -> None:
        """Kill a child that was spawned and has not been joined to its end."""
        ...


class Spawning(Protocol):
    """A Runtime whose Tasks know the Task that gave them the work, as a Host's do."""

    @abstractmethod
    async def spawn(self, task: Task, parent: str, *, principal: Principal | None = None) -> object:
        """Dispatch a Task as the child of another one; it acts for the given principal."""
        ...


class Granting(Protocol):
    """A Runtime whose Tasks can have a part of a budget, as a Host's can (R18)."""

    @property
    @abstractmethod
    def meters(self) -> bool:
        """True if its Tasks keep within their grants, and their records say what they used."""
        ...

    @abstractmethod
    async def spawn(
        self,
        task: Task,
        parent: str,
        *,
        principal: Principal | None = None,
        grant: Mapping[str, Any] | None = None,
    ) -> object:
        """Dispatch a Task as the child of another one, with a part of its budget."""
        ...

    @abstractmethod
    async def account(self, task_id: str) -> Account:
        """Return the use of a Task's grant, as the Task's record says."""
        ...

    @abstractmethod
    async def fence(self, task_id: str, parent: Task) -> None:
        """Store a Task that is not stored as ended, so that it never begins."""
        ...

    @abstractmethod
    async def regrant(self, task_id: str, grant: Mapping[str, Any], seq: int) -> None:
        """Change the grant of a Task that has not ended."""
        ...


class Waiting(Protocol):
    """A Runtime that a caller can wait on, as on a Host."""

    @abstractmethod
    async def wait(self, task_id: str, *statuses: TaskStatus) -> Task:
        """Wait until the Task is in one of these statuses, or terminal; return that snapshot."""
        ...


class Deciding(Protocol):
    """A Runtime that takes decisions for a Task, as a Host does."""

    @abstractmethod
    async def post(self, task_id: str, decision: Mapping[str, Any]) -> object:
        """Leave a decision in the Task's inbox."""
        ...

    @abstractmethod
    async def decide(self, task_id: str, decision: Mapping[str, Any]) -> object:
        """Leave a decision in the Task's inbox, and resume the Task if it is paused."""
        ...


class OnRuntime(Metering, EndsChildren):
    """Runs children on another Runtime than the parent's.

    On a Host the children know their parent. If that Host has the parent's store, a kill of the
    parent always ends them; if it has another store, a kill ends them while the parent runs.
    Decisions reach a child if the Runtime has the Host's `decide`; otherwise they are refused.

    Args:
        runtime: The Runtime of the children.
        runtime_kind: The children's runtime kind; None for the parent's.
        cycles: As for `ChildTasks`.
        unmetered: True if what the children use does not count for the parent's limits, and does
            not keep within them. Otherwise a parent with limits that a family shares gives work
            only to a Runtime that meters, such as a Host with a Loop (R18).
    """

    away = True
    unmetered = False

    def __init__(
        self,
        runtime: Served,
        *,
        runtime_kind: str | None = None,
        cycles: bool = False,
        unmetered: bool = False,
    ) -> None:
        self._runtime = runtime
        self._granting: Granting | None = edges.optional(runtime, "runtime", Granting)
        self.unmetered = edges.flag(unmetered, "unmetered")
        self._spawning: Spawning | None = edges.optional(runtime, "runtime", Spawning)
        self._waiting: Waiting | None = edges.optional(runtime, "runtime", Waiting)
        self._deciding: Deciding | None = edges.optional(runtime, "runtime", Deciding)
        self._kind = runtime_kind
        self.cycles = cycles

    def admit(self, parent: Task, child: Task) -> Task:
        if not self.cycles:
            refuse_cycle(parent, child)
        return child if self._kind is None else replace(child, runtime_kind=self._kind)

    @property
    def meters(self) -> bool:
        """True if the Runtime meters and the children are not declared unmetered."""
        return self._granting is not None and self._granting.meters and not self.unmetered

    async def spawn(self, job: Job, child: Task) -> None:
        grant = job.grants.get(child.id)
        principal = job.principal if job.principal.named else None
        try:
            if grant is not None and self._granting is not None:
                await self._granting.spawn(child, job.task.id, principal=principal, grant=grant)
            elif self._spawning is not None:
                await self._spawning.spawn(child, job.task.id, principal=principal)
            else:
                await self._runtime.dispatch(child)
        except (TaskExists, CannotStart):
            # A child that exists already needs neither a slot nor consent.
            with suppress(TaskNotFound):
                await self._own(job, child.id)
                return
            raise

    async def join(self, job: Job, child: str) -> Task:
        await self._own(job, child)
        wait = self._look if self._waiting is None else self._waiting.wait
        try:
            return await _settled(wait, child)
        except asyncio.CancelledError:
            if job.killed:
                await self._runtime.kill(child)
            raise

    async def tell(self, job: Job, child: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        wanted = _wanted(await self._own(job, child), decisions)
        if not wanted:
            return
        runtime = self._deciding
        if runtime is None:
            raise DelegationRefused(
                f"child {child} waits for a decision, but a {type(self._runtime).__name__} has no "
                "decide(); run the child on a Host"
            )
        *others, last = wanted
        with suppress(IllegalTransition):
            for decision in others:
                await runtime.post(child, decision)
            await runtime.decide(child, last)

    async def cancel(self, job: Job, child: str) -> None:
        await self._own(job, child)
        await self._runtime.kill(child)

    async def account(self, job: Job, child: str) -> Account:
        return await self._grants().account(child)

    async def fence(self, job: Job, child: str) -> None:
        await self._grants().fence(child, job.task)

    async def regrant(self, job: Job, child: str, grant: Amounts, seq: int) -> None:
        await self._grants().regrant(child, msgspec.to_builtins(grant), seq)

    def _grants(self) -> Granting:
        if self._granting is None:
            raise DelegationRefused(
                f"a {type(self._runtime).__name__} does not say what its Tasks use"
            )
        return self._granting

    async def on_killed(self, parent: Task, child: str) -> None:
        """Kill a child of the parent; called after the parent was killed."""
        with suppress(TaskNotFound):
            if (await self._runtime.get(child)).metadata.get(PARENT) == parent.id:
                await self._runtime.kill(child)

    async def _own(self, job: Job, child: str) -> Task:
        task = await self._runtime.get(child)
        if task.metadata.get(PARENT) != job.task.id:
            raise TaskNotFound(child)
        return task

    async def _look(self, child: str, *statuses: TaskStatus) -> Task:
        """Poll a child until it has one of the statuses; for a Runtime without ``wait``."""
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
    """The Task of a child, with its parent, depth and lineage.

    It gets no other metadata of the parent: a child has a session of its own.

    Raises:
        DelegationRefused: A value is not valid for a Task, e.g. the name of the Agent.
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


def refuse_cycle(parent: Task, child: Task) -> None:
    """Refuse a child whose Agent the work came through already.

    Raises:
        DelegationRefused: The work came through that Agent.
    """
    above = lineage(parent)
    for name in lineage(child)[len(above) :]:
        if name in above:
            raise DelegationRefused(
                f"the work came from {name!r} already ({' > '.join(above)}); do it here, or give "
                "it to another Agent"
            )


def _wanted(child: Task, decisions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The decisions that a child may still need, those that it asks for now last; [] if it ended.

    A child may ask later for something that it does not ask for now, because it waits for its own
    children one at a time.
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
        with suppress(TimeoutError):  # The child may run too briefly to be seen running.
            async with asyncio.timeout(SELDOM):
                await wait(child, TaskStatus.RUNNING)
