"""StepsWork: how a script of the kit becomes a program of `Steps`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agentic_kernel import Task
from agentic_kernel_conformance import Fail, Mark, Say, Script, SubstrateWork
from agentic_kernel_conformance.substrate_script import Step
from agentic_kernel_engine import Event


def _step(step: Step) -> list[str]:
    match step:
        case Mark(token):
            return ["mark", token]
        case Say(text):
            return ["say", f"{text}\n"]
        case Fail(code):
            return ["fail", f"steps/exit_{code}"]
        case _:
            return ["hear"]


class StepsWork(SubstrateWork):
    """Makes Tasks whose instructions are a program."""

    def task(self, script: Script) -> Task:
        return self._task(json.dumps([_step(step) for step in script]))

    def refused(self) -> Task:
        return self._task("no program")

    def indeterminate(self, task: Task, events: Sequence[Event]) -> list[str]:
        """The tokens of the effects that the record calls unknown."""
        return [str(event.data["token"]) for event in events if event.type == "steps.mark_unknown"]

    def _task(self, instructions: str) -> Task:
        return Task.new(summary="a program", instructions=instructions, runtime_kind="steps")
