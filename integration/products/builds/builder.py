"""Builder: makes the wanted targets in order, each by one process at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from agentic_kernel import CannotStart, Task, TaskExists, TaskStatus
from agentic_kernel_engine import Host, Record

from .shelf import MistakeError, Shelf, aside, changed, inputs_digest
from .targets import BuildFileError, Plan, Target
from .workshop import INPUTS_CHANGED, KIND, UNKNOWN, task_of

FRESH, MADE, RESTORED = "fresh", "made", "restored"
FAILED, STOPPED, SKIPPED, STALE = "failed", "stopped", "skipped", "stale"
GOOD = (FRESH, MADE, RESTORED)
WAITING = "waiting"
_ENDS = {
    TaskStatus.SUCCESS: MADE,
    TaskStatus.FAILURE: FAILED,
    TaskStatus.CANCELLED: STOPPED,
}
_WAS = {FAILED: "failed", STOPPED: "was stopped", SKIPPED: "was skipped"}
_ROUND = 0.5
"""Seconds between two looks if the process that makes a target still lives."""
_TRIES = 3
"""How often a target is begun whose inputs change all the time."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one target, or the progress on the way to it."""

    target: str
    outcome: str
    """One of `GOOD`, ``failed``, ``stopped``, ``skipped``; ``waiting`` and ``stale`` are none."""
    why: str = ""


class Builder:
    """Makes targets by the Tasks of a Host.

    The Tasks of a target are numbered, and a number is used once in a store. A new Task begins
    only after the one before has ended. So one process at a time makes a target.

    Args:
        plan: The targets.
        host: Runs the Tasks; its slots are the number of targets that are made at once.
        shelf: Has the outputs of earlier Tasks.
        tell: Is told of progress and of each verdict as it comes.
    """

    def __init__(
        self, plan: Plan, host: Host, shelf: Shelf, tell: Callable[[Verdict], None]
    ) -> None:
        self._plan = plan
        self._host = host
        self._shelf = shelf
        self._tell = tell

    async def build(self, wanted: Iterable[str] = ()) -> list[Verdict]:
        """Make the wanted targets and what they need; all targets if none is named.

        Raises:
            BuildFileError: A target or an input is missing.
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

    async def status(self, wanted: Iterable[str] = ()) -> dict[str, tuple[Verdict, Task | None]]:
        """For each wanted target how it is, and its latest Task; nothing is made.

        Raises:
            BuildFileError: A target is missing.
        """
        prints: dict[str, str] = {}
        found = {}
        for target in self._plan.order(wanted):
            _, task = await latest_of(self._host, target.name)
            try:
                inputs = await self._inputs(target)
            except BuildFileError as error:
                prints[target.name], verdict = "", Verdict(target.name, STALE, str(error))
            else:
                prints[target.name] = self._plan.fingerprint(target, prints, inputs)
                verdict = await self._look(target, prints[target.name], task)
            found[target.name] = verdict, task
        return found

    async def _look(self, target: Target, print_: str, latest: Task | None) -> Verdict:
        if (record := await made_before(self._host, target.name, print_)) is not None:
            if away := await aside(changed, self._plan.root, record.task.result["outputs"]):
                return Verdict(target.name, STALE, f"{', '.join(away)} is missing or changed")
            return Verdict(target.name, FRESH)
        if latest is None:
            return Verdict(target.name, STALE, "it was never made here")
        if latest.metadata["label/fingerprint"] == print_ and latest.status.terminal:
            return verdict_of(latest)
        return Verdict(target.name, STALE, "its inputs, its recipe or a target it needs changed")

    async def _make(
        self, target: Target, needed: Mapping[str, asyncio.Task[tuple[Verdict, str]]]
    ) -> tuple[Verdict, str]:
        """The verdict about a target, and its fingerprint."""
        results = {name: await each for name, each in needed.items()}
        for verdict, _ in results.values():
            if verdict.outcome not in GOOD:
                why = f"it needs {verdict.target}, which {_WAS[verdict.outcome]}"
                return self._said(Verdict(target.name, SKIPPED, why)), ""
        needs = {name: print_ for name, (_, print_) in results.items()}
        tries = 0
        while True:
            inputs = await self._inputs(target)
            print_ = self._plan.fingerprint(target, needs, inputs)
            verdict, code = await self._made(target, print_, inputs)
            tries += 1
            if code != INPUTS_CHANGED or tries == _TRIES:
                return self._said(verdict), print_

    async def _inputs(self, target: Target) -> str:
        try:
            return await aside(inputs_digest, self._plan.root, target.inputs)
        except MistakeError as error:
            raise BuildFileError(f"target {target.name!r}: {error}") from error

    async def _made(self, target: Target, print_: str, inputs: str) -> tuple[Verdict, str]:
        """The verdict about a target with this fingerprint, and the code of its failure or ""."""
        while True:
            number, latest = await latest_of(self._host, target.name)
            if latest is not None and not latest.status.terminal:
                ended = await end_of(self._host, latest, self._tell)
                if ended.metadata["label/fingerprint"] == print_:
                    return verdict_of(ended), _code(ended)
                continue
            if (verdict := await self._known(target, print_)) is not None:
                return verdict, ""
            task = task_of(
                target.name, target.run, self._plan.root, task_id=id_of(target.name, number + 1),
                inputs=target.inputs, inputs_digest=inputs, outputs=target.outputs,
                once=target.once, fingerprint=print_,
            )  # fmt: skip
            try:
                ended = await self._host.run(task)
            except TaskExists:
                continue  # Another process began it at the same moment.
            return verdict_of(ended), _code(ended)

    async def _known(self, target: Target, print_: str) -> Verdict | None:
        """The verdict if an earlier Task made the target of the same things."""
        record = await made_before(self._host, target.name, print_)
        if record is None:
            return None
        outputs = record.task.result["outputs"]
        if not await aside(changed, self._plan.root, outputs):
            return Verdict(target.name, FRESH)
        if await aside(self._shelf.restore, self._plan.root, outputs):
            return Verdict(target.name, RESTORED)
        return None

    def _said(self, verdict: Verdict) -> Verdict:
        self._tell(verdict)
        return verdict


def id_of(target: str, number: int) -> str:
    """The id of a target's Task with this number, from 1 on."""
    return f"{target}-{number}"


async def latest_of(host: Host, target: str) -> tuple[int, Task | None]:
    """The Task of a target with the highest number, and that number; 0 and None without one."""
    found = await host.store.find(kinds=[KIND], labels={"target": target}, newest=True, limit=1)
    latest = found[0].task if found else None
    number = int(latest.id.rpartition("-")[2]) if latest is not None else 0
    # The clock may have been set back since, so the newest may not have the highest number.
    while next_one := await host.get_many([id_of(target, number + 1)]):
        number += 1
        latest = next_one[id_of(target, number)]
    return number, latest


async def made_before(host: Host, target: str, print_: str) -> Record | None:
    """The newest Task that made a target with this fingerprint."""
    found = await host.store.find(
        kinds=[KIND],
        status=TaskStatus.SUCCESS,
        labels={"target": target, "fingerprint": print_},
        newest=True,
        limit=1,
    )
    return found[0] if found else None


async def end_of(host: Host, task: Task, tell: Callable[[Verdict], None]) -> Task:
    """Wait until a Task has ended; go on with it here if no living process has it."""
    end, told = asyncio.ensure_future(host.wait(task.id)), False
    try:
        while not end.done():
            if not await _living(host, task.id):
                # Without a free slot it is asked again in the next round.
                with suppress(CannotStart):
                    await host.resume(task.id)
                    await host.claim(task.id)
                told = True
            elif not (told or end.done()):
                tell(Verdict(task.summary, WAITING, "another build of it has not ended"))
                told = True
            await asyncio.wait({end}, timeout=_ROUND)
        return end.result()
    finally:
        end.cancel()


async def _living(host: Host, task_id: str) -> bool:
    """True if a Task has ended, or if a living process has it."""
    record = await host.store.load(task_id)
    if record.task.status.terminal:
        return True
    return record.owner is not None and await host.store.alive(record.owner)


def verdict_of(task: Task) -> Verdict:
    """The verdict about the target of a Task that has ended."""
    why = "" if task.failure is None else task.failure.message
    if task.status is TaskStatus.SUCCESS and (lines := task.metadata.get(UNKNOWN)):
        numbers = ", ".join(map(str, lines))
        why = f"the outcome of line {numbers} was unknown after a crash, so it was run again"
    return Verdict(task.summary, _ENDS[task.status], why)


def _code(task: Task) -> str:
    return "" if task.failure is None else task.failure.code
