"""Programs: the work of a Task as a JSON list of steps, and the machine that is inside one."""

from __future__ import annotations

import json
from typing import Any, Final

from agentic_kernel import Task
from agentic_kernel_engine import StateUnreadable

FORM: Final = 1
"""The form of the states; a state of another form is not read."""
Program = tuple[tuple[str, ...], ...]
_LENGTHS: Final = {"mark": 2, "say": 2, "hear": 1, "fail": 2}


class BadProgram(ValueError):
    """The instructions are not a list of steps."""


def parse(instructions: str) -> Program:
    """Read a program.

    Raises:
        BadProgram: The instructions are something else.
    """
    try:
        steps = json.loads(instructions)
    except ValueError as error:
        raise BadProgram(f"the instructions are not JSON: {error}") from None
    if not isinstance(steps, list):
        raise BadProgram("the instructions are not a JSON list of steps")
    for number, step in enumerate(steps):
        if not (isinstance(step, list) and step and all(isinstance(part, str) for part in step)):
            raise BadProgram(f"step {number} is not a list of texts")
        if _LENGTHS.get(step[0]) != len(step):
            raise BadProgram(f"step {number} is not a known step: {step[0]!r}")
    return tuple(tuple(step) for step in steps)


class Machine:
    """The place of one run in its program; all of it is in the state.

    Args:
        task: The Task of the run.
        program: The Task's program.
        state: A state that `freeze` returned, or None at the beginning.
    """

    pc: int
    """The number of the step that comes next."""
    heard: int
    """The number of extras that were taken up, counted from the first."""
    doing: dict[str, Any] | None
    """The token and the key of the effect that was announced and is not settled."""
    unknown: list[str]
    """The tokens of effects that were announced and never settled."""

    def __init__(self, task: Task, program: Program, state: Any) -> None:
        self.program = program
        self.load(task, state)

    def load(self, task: Task, state: Any) -> None:
        """Go to the place that a state names.

        Raises:
            StateUnreadable: The state has another form.
        """
        self.task = task
        if state is None:
            state = {"form": FORM, "pc": 0, "heard": 0, "doing": None, "unknown": []}
        try:
            if state["form"] != FORM or not 0 <= state["pc"] <= len(self.program):
                raise ValueError
            self.pc, self.heard = state["pc"], state["heard"]
            self.doing = dict(state["doing"]) if state["doing"] else None
            self.unknown = list(state["unknown"])
        except (KeyError, TypeError, ValueError):
            raise StateUnreadable(f"the state is not one of `steps` of form {FORM}") from None

    def freeze(self) -> dict[str, Any]:
        """Return the state."""
        place = {"form": FORM, "pc": self.pc, "heard": self.heard}
        return {**place, "doing": self.doing, "unknown": list(self.unknown)}

    @property
    def step(self) -> tuple[str, ...]:
        """The step that comes next."""
        return self.program[self.pc]

    def begin(self, token: str, number: int = 0) -> None:
        """Choose the effect that comes next."""
        self.doing = {"token": token, "key": f"{self.task.id}:{self.pc}:{number}"}

    def settle(self, outcome: str) -> dict[str, Any]:
        """Close the effect and go to the next place; returns the event that tells of it."""
        assert self.doing is not None
        done, self.doing = self.doing, None
        if outcome == "unknown":
            self.unknown.append(done["token"])
        self.advance()
        return {"type": f"steps.mark_{outcome}", **done}

    def advance(self) -> None:
        """Go to the next extra, or to the next step."""
        if self.step[0] == "hear" and self.waiting():
            self.heard += 1
            if self.waiting():
                return
        self.pc += 1

    def waiting(self) -> bool:
        """True if an extra was not taken up yet."""
        return self.heard < len(self.task.supplements)

    def result(self) -> dict[str, Any]:
        """Return the result; it follows from the place, so the state does not grow with it."""
        said = [step[1] for step in self.program[: self.pc] if step[0] == "say"]
        result: dict[str, Any] = {"said": said, "heard": list(self.task.supplements[: self.heard])}
        if self.unknown:
            result["unknown"] = list(self.unknown)
        return result
