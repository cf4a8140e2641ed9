"""Ten mistakes in `Steps`. Each runs a program to its right end if nothing interrupts it."""

from __future__ import annotations

import asyncio
from typing import Any

from agentic_kernel_engine import Job

from .effect import Effect
from .program import Machine
from .steps import Steps


class AnnounceByEmit(Steps):
    """Announces an effect by `job.emit`, which is durable with the next write only."""

    async def announce(self, job: Job, machine: Machine) -> None:
        job.emit({"type": "steps.mark_begun", **(machine.doing or {})})


class AnnounceByCheckpoint(Steps):
    """Announces an effect by `checkpoint`, so a pause can come before the effect."""

    async def announce(self, job: Job, machine: Machine) -> None:
        events = [{"type": "steps.mark_begun", **(machine.doing or {})}]
        await job.checkpoint(machine.freeze(), events, progress=False)


class SharedMachine(Steps):
    """Keeps one machine for each program, so two Tasks with equal instructions share it."""

    def __init__(self) -> None:
        super().__init__()
        self._machines: dict[str, Machine] = {}

    def enter(self, job: Job) -> Machine:
        text = job.task.instructions
        machine = self._machines.get(text)
        if machine is None:
            machine = self._machines[text] = Machine(job.task, self.program(job.task), job.state)
        else:
            machine.load(job.task, job.state)
        return machine


class WarmMachine(Steps):
    """Keeps the machine of a paused Task, and goes on with it instead of with `job.state`."""

    def __init__(self) -> None:
        super().__init__()
        self._warm: dict[str, Machine] = {}

    def enter(self, job: Job) -> Machine:
        machine = self._warm.get(job.task.id)
        if machine is None:
            machine = self._warm[job.task.id] = super().enter(job)
        machine.task = job.task  # The extras are new.
        return machine

    async def execute(self, job: Job) -> Any:
        result = await super().execute(job)
        self._warm.pop(job.task.id, None)
        return result


class HearByText(Steps):
    """Tells new extras from old ones by their text, so an extra that comes twice is heard once."""

    async def do_hear(self, job: Job, machine: Machine) -> None:
        extras = job.task.supplements
        while machine.waiting() and extras[machine.heard] in extras[: machine.heard]:
            machine.heard += 1
        await super().do_hear(job, machine)


class RetryAnything(Steps):
    """Takes the cancellation of its run for a flaky connection, and makes the request again."""

    async def send(self, task_id: str, effect: Effect) -> int:
        for _ in range(2):
            try:
                return await super().send(task_id, effect)
            except (OSError, asyncio.CancelledError):
                effect = Effect(effect.token, effect.key)
                await asyncio.sleep(0.05)
        return await super().send(task_id, effect)


class OrphanedBatch(Steps):
    """Takes up all extras in a shielded asyncio task, which goes on after the run is unwound."""

    def __init__(self) -> None:
        super().__init__()
        self._background: set[asyncio.Task[None]] = set()

    async def do_hear(self, job: Job, machine: Machine) -> None:
        extras = list(job.task.supplements[machine.heard :])
        if not extras:
            await super().do_hear(job, machine)
            return
        first = f"{job.task.id}:{machine.pc}"
        batch = [
            {"token": each, "key": f"{first}:{place}"}
            for place, each in enumerate(extras, machine.heard)
        ]
        machine.doing = {**batch[0], "batch": len(batch)}
        begun = [{"type": "steps.mark_begun", **each} for each in batch]
        await job.commit(machine.freeze(), begun, progress=False)
        job.check()

        async def work() -> None:
            for each in batch:
                await self.perform(job, each)

        working = asyncio.create_task(work())
        self._background.add(working)
        working.add_done_callback(self._background.discard)
        await asyncio.shield(working)
        self._pass(machine, len(batch))
        done = [{"type": "steps.mark_done", **each} for each in batch]
        await job.checkpoint(machine.freeze(), done)

    async def reconcile(self, job: Job, machine: Machine) -> None:
        if machine.doing is None or "batch" not in machine.doing:
            await super().reconcile(job, machine)
            return
        count = machine.doing["batch"]
        extras = job.task.supplements[machine.heard :][:count]
        events = [
            {"type": "steps.mark_unknown", "token": each, "key": f"{job.task.id}:{machine.pc}:{at}"}
            for at, each in enumerate(extras, machine.heard)
        ]
        machine.unknown += extras
        self._pass(machine, count)
        await job.checkpoint(machine.freeze(), events)

    def _pass(self, machine: Machine, count: int) -> None:
        machine.doing = None
        machine.heard += count
        if not machine.waiting():
            machine.pc += 1


class SettleThenAdvance(Steps):
    """Settles an effect by one write, and goes to the next step by another."""

    async def settle(self, job: Job, machine: Machine, outcome: str) -> None:
        done, machine.doing = machine.doing or {}, None
        if outcome == "unknown":
            machine.unknown.append(done["token"])
        await job.commit(machine.freeze(), [{"type": f"steps.mark_{outcome}", **done}])
        machine.advance()
        await job.checkpoint(machine.freeze(), [{"type": "steps.moved", "to": machine.pc}])


class HeardTooEarly(Steps):
    """Counts all extras as heard, and then takes them up from a list in memory."""

    async def do_hear(self, job: Job, machine: Machine) -> None:
        if not machine.waiting():
            await super().do_hear(job, machine)
            return
        first = machine.heard
        extras = job.task.supplements[first:]
        machine.heard = len(job.task.supplements)
        for place, extra in enumerate(extras, first):
            machine.begin(extra, place)
            await self.announce(job, machine)
            job.check()
            outcome = await self.perform(job, machine.doing or {})
            done, machine.doing = machine.doing or {}, None
            if outcome == "unknown":
                machine.unknown.append(extra)
            if place == machine.heard - 1:
                machine.pc += 1
            await job.checkpoint(machine.freeze(), [{"type": f"steps.mark_{outcome}", **done}])


class _Diary(Machine):
    """A machine that writes down each step that it did."""

    def load(self, task: Any, state: Any) -> None:
        super().load(task, state)
        self.diary: list[Any] = list(state["diary"]) if state else []

    def advance(self) -> None:
        heard = list(self.task.supplements)
        self.diary.append({"step": self.pc, "did": list(self.step), "heard": heard})
        super().advance()

    def freeze(self) -> dict[str, Any]:
        return {**super().freeze(), "diary": list(self.diary)}


class DiaryInState(Steps):
    """Keeps a diary of all its steps in the state, which grows with each of them."""

    def enter(self, job: Job) -> Machine:
        return _Diary(job.task, self.program(job.task), job.state)


FAULTS = {
    "AnnounceByEmit": "once",
    "AnnounceByCheckpoint": "progress",
    "SharedMachine": "clause1",
    "WarmMachine": "progress",
    "HearByText": "extras",
    "RetryAnything": "unwind",
    "OrphanedBatch": "unwind",
    "SettleThenAdvance": "progress",
    "HeardTooEarly": "extras",
    "DiaryInState": "small",
}
"""The rule that each of them breaks."""
