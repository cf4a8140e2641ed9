"""Steps: the substrate. It announces an effect by a commit, makes it, and settles it.

An effect that was announced and is not settled when a run begins may have happened. The record
reports it as `steps.mark_unknown`, and no run makes it again.
"""

from __future__ import annotations

import asyncio
import http.client
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import Accepting, Job, TaskFailed
from agentic_kernel_engine.substrate import Cleaning

from .effect import Effect
from .program import BadProgram, Machine, Program, parse

PROGRAMS: Final = 64
"""The most parsed programs that are kept."""
PIECE: Final = 200
"""The most characters of one piece of text."""


class Steps(Accepting, Cleaning):
    """Runs programs of steps, any number of Tasks at once."""

    def __init__(self) -> None:
        self._programs: OrderedDict[str, Program] = OrderedDict()
        self._live: dict[str, set[Effect]] = {}

    async def accept(self, task: Task) -> None:
        """Refuse instructions that are no program."""
        try:
            self.program(task)
        except BadProgram as error:
            raise CannotStart(str(error)) from None

    async def execute(self, job: Job) -> Any:
        """Go on from the state of the last commit."""
        job.announce()
        try:
            machine = self.enter(job)
        except BadProgram as error:
            raise TaskFailed("steps/bad_program", str(error)) from None
        await self.reconcile(job, machine)
        while machine.pc < len(machine.program):
            await getattr(self, f"do_{machine.step[0]}")(job, machine)
        return machine.result()

    async def on_killed(self, task: Task, state: Any, events: Any) -> None:
        """End the requests of a Task that was killed."""
        for effect in list(self._live.get(task.id, ())):
            effect.abort()

    # One run

    def program(self, task: Task) -> Program:
        """Return the Task's program; the last `PROGRAMS` of them are kept."""
        text = task.instructions
        program = self._programs.get(text)
        if program is None:
            program = self._programs[text] = parse(text)
            while len(self._programs) > PROGRAMS:
                self._programs.popitem(last=False)
        else:
            self._programs.move_to_end(text)
        return program

    def enter(self, job: Job) -> Machine:
        """Return the machine at the place of the last commit."""
        return Machine(job.task, self.program(job.task), job.state)

    async def reconcile(self, job: Job, machine: Machine) -> None:
        """Report an effect that was announced and never settled."""
        if machine.doing is not None:
            event = machine.settle("unknown")
            await job.checkpoint(machine.freeze(), [event])

    async def do_mark(self, job: Job, machine: Machine) -> None:
        machine.begin(machine.step[1])
        await self.make(job, machine)

    async def do_hear(self, job: Job, machine: Machine) -> None:
        """Take up one extra; after each extra there is a safe point."""
        if machine.waiting():
            machine.begin(job.task.supplements[machine.heard], machine.heard)
            await self.make(job, machine)
        else:
            machine.advance()
            await job.checkpoint(machine.freeze(), [{"type": "steps.heard", "all": machine.heard}])

    async def do_say(self, job: Job, machine: Machine) -> None:
        text = machine.step[1]
        for start in range(0, len(text), PIECE):
            job.emit({"type": "run.delta", "text": text[start : start + PIECE]})
        job.emit({"type": "run.turn"})
        event = {"type": "steps.said", "step": machine.pc}
        machine.advance()
        await job.checkpoint(machine.freeze(), [event])

    async def do_fail(self, job: Job, machine: Machine) -> None:
        raise TaskFailed(machine.step[1], f"step {machine.pc} failed")

    # Effects

    async def make(self, job: Job, machine: Machine) -> None:
        """Announce the effect that `Machine.begin` has chosen, make it, settle it."""
        await self.announce(job, machine)
        job.check()
        outcome = await self.perform(job, machine.doing or {})
        await self.settle(job, machine, outcome)

    async def announce(self, job: Job, machine: Machine) -> None:
        events = [{"type": "steps.mark_begun", **(machine.doing or {})}]
        await job.commit(machine.freeze(), events, progress=False)

    async def settle(self, job: Job, machine: Machine, outcome: str) -> None:
        event = machine.settle(outcome)
        await job.checkpoint(machine.freeze(), [event])

    async def perform(self, job: Job, doing: Mapping[str, Any]) -> str:
        """Make an effect; return "done", or "unknown" if nothing tells that it was made.

        Raises:
            TaskFailed: It was not made.
        """
        effect = Effect(doing["token"], doing["key"])
        try:
            status = await self.send(job.task.id, effect)
        except (OSError, http.client.HTTPException) as error:
            if effect.sent:
                return "unknown"
            job.emit({"type": "steps.mark_failed", **doing})
            raise TaskFailed("steps/mark_not_made", f"no connection: {error}") from error
        if status != 200:
            job.emit({"type": "steps.mark_failed", **doing, "status": status})
            raise TaskFailed("steps/mark_refused", f"the answer was {status}")
        return "done"

    async def send(self, task_id: str, effect: Effect) -> int:
        """Make the request in a thread. If the run is unwound, end the request first."""
        thread = asyncio.create_task(asyncio.to_thread(effect.perform))
        thread.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._live.setdefault(task_id, set()).add(effect)
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            effect.abort()
            if not effect.begun:
                thread.cancel()
            await asyncio.wait({thread}, timeout=2)
            raise
        finally:
            live = self._live.get(task_id, set())
            live.discard(effect)
            if not live:
                self._live.pop(task_id, None)
