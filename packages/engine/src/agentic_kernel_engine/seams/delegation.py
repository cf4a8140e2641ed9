"""Delegation: which Task may give work to which child, and where the child runs."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from agentic_kernel import InvalidValue, KernelError, Task, TaskStatus

from ..plans.accounts import Account
from ..plans.budget import Amounts
from ..plans.lineage import DEPTH, LINEAGE, PARENT, depth, lineage
from ..waiting import asked, digests

if TYPE_CHECKING:
    from ..host.job import Job

SELDOM: Final = 2.0
"""Seconds between later polls of a child, and between two of a child that is paused and asks for
nothing."""


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


class EndsChildren(Protocol):
    """A Delegation that ends a child that a killed parent did not join. Name it as a base class."""

    @abstractmethod
    async def on_killed(self, parent: Task, child: str) -> None:
        """Kill a child that was spawned and has not been joined to its end."""
        ...


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


def decisions_for(child: Task, decisions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The decisions that a child may still need, those that it asks for now last; [] if it ended.

    A child may ask later for something that it does not ask for now, because it waits for its own
    children one at a time.
    """
    if child.status.terminal:
        return []
    open_ = digests(asked(child) or {})
    return sorted(decisions, key=lambda decision: decision.get("digest") in open_)


async def settled(wait: Callable[..., Awaitable[Task]], child: str) -> Task:
    """Wait until a child has ended or asks for something."""
    while True:
        task = await wait(child, TaskStatus.PAUSED)
        if task.status.terminal or asked(task) is not None:
            return task
        with suppress(TimeoutError):  # The child may run too briefly to be seen running.
            async with asyncio.timeout(SELDOM):
                await wait(child, TaskStatus.RUNNING)
