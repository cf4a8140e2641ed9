"""OnRuntime: children on another Runtime than their parent's, by the methods that it has."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from agentic_kernel import (
    CannotStart,
    IllegalTransition,
    Task,
    TaskExists,
    TaskNotFound,
    TaskStatus,
)

from .. import edges
from ..plans.accounts import Account
from ..plans.budget import Amounts
from ..plans.lineage import PARENT
from ..principal import Principal
from .delegation import (
    SELDOM,
    DelegationRefused,
    EndsChildren,
    Metering,
    decisions_for,
    refuse_cycle,
    settled,
)

if TYPE_CHECKING:
    from ..host.job import Job
    from ..router import Served

LOOK: Final = 0.1
"""Seconds between the first two polls of a child on a Runtime without ``wait``."""


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
            return await settled(wait, child)
        except asyncio.CancelledError:
            if job.killed:
                await self._runtime.kill(child)
            raise

    async def tell(self, job: Job, child: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        wanted = decisions_for(await self._own(job, child), decisions)
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
