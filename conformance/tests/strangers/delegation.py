"""A delegation whose children run beside their parent, and ten mistakes in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from agentic_kernel import IllegalTransition, Task, TaskExists, TaskStatus
from agentic_kernel_engine import Job
from agentic_kernel_engine.seams import DelegationRefused
from agentic_kernel_engine.seams.delegation import Metering, refuse_cycle
from agentic_kernel_engine.waiting import asked


class HealthyDelegation(Metering):
    """Runs children beside their parent; no Agent gets work that came through it."""

    meters = True
    unmetered = False
    away = False

    def admit(self, parent: Task, child: Task) -> Task:
        refuse_cycle(parent, child)
        return child

    async def spawn(self, job: Job, child: Task) -> None:
        await job.spawn(child)

    async def join(self, job: Job, child: str) -> Task:
        while True:
            seen = await job.join(child, TaskStatus.PAUSED)
            if seen.status is not TaskStatus.PAUSED or asked(seen) is not None:
                return seen
            await asyncio.sleep(0.05)

    async def tell(self, job: Job, child: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        with suppress(IllegalTransition):  # it has ended
            await job.tell(child, decisions)

    async def cancel(self, job: Job, child: str) -> None:
        await job.cancel(child)

    async def account(self, job: Job, child: str) -> Any:
        return await job.account(child)

    async def fence(self, job: Job, child: str) -> None:
        await job.fence(child)

    async def regrant(self, job: Job, child: str, grant: Any, seq: int) -> None:
        await job.regrant(child, grant, seq)


class AnyoneStartedIt(HealthyDelegation):
    """Takes every Task under the child's id for the child."""

    async def spawn(self, job: Job, child: Task) -> None:
        with suppress(TaskExists):  # a crash came between the record and the start
            await super().spawn(job, child)


class InheritsMetadata(HealthyDelegation):
    """Gives the child all metadata of the parent, the depth and the lineage, too."""

    def admit(self, parent: Task, child: Task) -> Task:
        child = super().admit(parent, child)
        given = {key: value for key, value in parent.metadata.items() if key not in parent.noted}
        return Task.new(
            id=child.id,
            summary=child.summary,
            instructions=child.instructions,
            runtime_kind=child.runtime_kind,
            agent_name=child.agent_name,
            metadata={**child.metadata, **given},
            at=child.created_at,
        )


class ThreeEach(HealthyDelegation):
    """Counts what it admitted, and refuses a child that it is asked about again."""

    def __init__(self) -> None:
        self._admitted: dict[str, int] = {}

    def admit(self, parent: Task, child: Task) -> Task:
        child = super().admit(parent, child)
        self._admitted[parent.id] = self._admitted.get(parent.id, 0) + 1
        if self._admitted[parent.id] > 3:
            raise DelegationRefused("three children are enough; join one first")
        return child


class AnyPause(HealthyDelegation):
    """Comes back from `join` at every pause."""

    async def join(self, job: Job, child: str) -> Task:
        return await job.join(child, TaskStatus.PAUSED)


class JoinedBefore(HealthyDelegation):
    """Keeps the snapshot of a join and gives it again."""

    def __init__(self) -> None:
        self._joined: dict[str, Task] = {}

    async def join(self, job: Job, child: str) -> Task:
        if child not in self._joined:
            self._joined[child] = await super().join(job, child)
        return self._joined[child]


class TakesItDown(HealthyDelegation):
    """Kills the child at each cancellation of `join`."""

    async def join(self, job: Job, child: str) -> Task:
        try:
            return await super().join(job, child)
        except asyncio.CancelledError:
            with suppress(Exception):
                await asyncio.shield(job.cancel(child))
            raise


class OneByOne(HealthyDelegation):
    """Tells one decision after the other, so the first one lets the child go on."""

    async def tell(self, job: Job, child: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        for decision in decisions:
            await super().tell(job, child, [decision])


class TooLate(HealthyDelegation):
    """Lets the exception for an ended child out of `tell`."""

    async def tell(self, job: Job, child: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        await job.tell(child, decisions)


class NotAllowed(HealthyDelegation):
    """Refuses by a PermissionError."""

    def admit(self, parent: Task, child: Task) -> Task:
        try:
            return super().admit(parent, child)
        except DelegationRefused as refused:
            raise PermissionError(str(refused)) from None


class LastJob(HealthyDelegation):
    """Keeps the job of the latest spawn or tell for the calls that follow."""

    def __init__(self) -> None:
        self._job: Job | None = None

    async def spawn(self, job: Job, child: Task) -> None:
        self._job = job
        await super().spawn(job, child)

    async def tell(self, job: Job, child: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        self._job = job
        await super().tell(job, child, decisions)

    async def join(self, job: Job, child: str) -> Task:
        return await super().join(self._job or job, child)

    async def cancel(self, job: Job, child: str) -> None:
        await super().cancel(self._job or job, child)


FAULTS = {
    "AnyoneStartedIt": "children",
    "InheritsMetadata": "admit",
    "ThreeEach": "admit",
    "AnyPause": "join",
    "JoinedBefore": "tell",
    "TakesItDown": "join",
    "OneByOne": "tell",
    "TooLate": "tell",
    "NotAllowed": "admit",
    "LastJob": "children",
}
"""The rule that each of them breaks."""
