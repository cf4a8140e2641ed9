"""Builder: makes the wanted targets in order, each once, whoever else builds in the same place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from agentic_kernel import Task, TaskExists, TaskStatus
from agentic_kernel_engine import Host

from .targets import Plan, Target
from .workshop import task_of

FRESH, MADE, FAILED, STOPPED, SKIPPED = "fresh", "made", "failed", "stopped", "skipped"
_ENDS = {
    TaskStatus.SUCCESS: MADE,
    TaskStatus.FAILURE: FAILED,
    TaskStatus.CANCELLED: STOPPED,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one target."""

    target: str
    outcome: str
    """``fresh``, ``made``, ``failed``, ``stopped`` or ``skipped``."""
    why: str = ""


class Builder:
    """Makes targets by the Tasks of a Host.

    The id of a Task follows from the target and from all that it is made of. So a target is made
    once by all processes on one store, and a target that nothing has changed is fresh.

    Args:
        plan: The targets.
        host: Runs the Tasks.
        jobs: The most targets that are made at the same time.
        tell: Is told of each verdict as it comes.
    """

    def __init__(self, plan: Plan, host: Host, jobs: int, tell: Callable[[Verdict], None]) -> None:
        self._plan = plan
        self._host = host
        self._room = asyncio.Semaphore(jobs)
        self._tell = tell

    async def build(self, wanted: Iterable[str] = ()) -> list[Verdict]:
        """Make the wanted targets and what they need; all targets if none is named.

        Raises:
            BuildFileError: A target or an input is not there.
        """
        order = self._plan.order(wanted)
        made: dict[str, asyncio.Task[tuple[Verdict, str]]] = {}
        try:
            async with asyncio.TaskGroup() as group:
                for target in order:
                    needed = {name: made[name] for name in target.needs}
                    made[target.name] = group.create_task(self._make(target, needed))
        except ExceptionGroup as faults:
            raise faults.exceptions[0] from None  # The others only followed from it.
        return [made[target.name].result()[0] for target in order]

    async def _make(
        self, target: Target, needed: Mapping[str, asyncio.Task[tuple[Verdict, str]]]
    ) -> tuple[Verdict, str]:
        """The verdict about a target, and its fingerprint."""
        results = {name: await each for name, each in needed.items()}
        for verdict, _ in results.values():
            if verdict.outcome not in (FRESH, MADE):
                why = f"{verdict.target} was {verdict.outcome}"
                return self._said(Verdict(target.name, SKIPPED, why)), ""
        async with self._room:
            digest = self._plan.fingerprint(target, {name: d for name, (_, d) in results.items()})
            return self._said(await self._made(target, digest)), digest

    async def _made(self, target: Target, digest: str) -> Verdict:
        number = 0
        while True:
            task_id = f"{target.name}-{digest[:20]}-{number}"
            known = (await self._host.get_many([task_id])).get(task_id)
            if known is None:
                try:
                    await self._host.dispatch(
                        task_of(target.name, target.run, self._plan.root, task_id)
                    )
                except TaskExists:
                    continue  # Another process began it at the same moment.
            elif known.status is TaskStatus.SUCCESS and not self._plan.missing(target):
                return Verdict(target.name, FRESH)
            elif known.status.terminal:
                number += 1
                continue
            elif known.status is TaskStatus.PAUSED:
                await self._host.resume(task_id)
            return self._verdict(target, await self._host.wait(task_id))

    def _verdict(self, target: Target, task: Task) -> Verdict:
        outcome, why = _ENDS[task.status], ""
        if task.failure is not None:
            why = task.failure.message
        elif outcome == MADE and (missing := self._plan.missing(target)):
            outcome, why = FAILED, f"the recipe did not make {', '.join(missing)}"
        return Verdict(target.name, outcome, why)

    def _said(self, verdict: Verdict) -> Verdict:
        self._tell(verdict)
        return verdict
