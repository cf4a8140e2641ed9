"""ChildTasks: children on the Host of their parent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from agentic_kernel import IllegalTransition, Task, TaskStatus

from ..plans.accounts import Account
from ..plans.budget import Amounts
from .delegation import Metering, decisions_for, refuse_cycle, settled

if TYPE_CHECKING:
    from ..host.job import Job


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
        return await settled(job.join, child)

    async def tell(self, job: Job, child: str, decisions: Sequence[Mapping[str, Any]]) -> None:
        wanted = decisions_for(await job.join(child, *TaskStatus), decisions)
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
