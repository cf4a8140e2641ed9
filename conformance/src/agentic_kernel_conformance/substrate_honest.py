"""A shipped test double: a substrate that does each step of a script once, and says so in time.

`SubstrateContract` runs a failed plan again with this substrate. If it fails too, the fault is the
kit's or the Host's, and the message says so. It is also an example of a substrate that conforms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import Accepting, Event, Job, Substrate, TaskFailed

from .mark import MarkFailed, marked
from .substrate_script import Fail, Hear, Mark, Say, Script, Step
from .substrate_work import SubstrateWork

KIND = "honest"
_STEPS = {kind.__name__: kind for kind in (Mark, Say, Hear, Fail)}


class HonestWork(SubstrateWork):
    """Makes Tasks whose instructions are the script, as JSON.

    Args:
        runtime_kind: The kind of the Tasks.
    """

    def __init__(self, runtime_kind: str = KIND) -> None:
        self.runtime_kind = runtime_kind

    def task(self, script: Script) -> Task:
        return Task.new(
            summary="a script of the conformance kit",
            instructions=to_json(script),
            runtime_kind=self.runtime_kind,
        )

    def refused(self) -> Task:
        return Task.new(
            summary="no script", instructions="no script", runtime_kind=self.runtime_kind
        )


class HonestSubstrate(Substrate, Accepting):
    """Follows a script: announce, mark, checkpoint, and so on with the next step."""

    async def accept(self, task: Task) -> None:
        """Refuse instructions that are no script."""
        try:
            from_json(task.instructions)
        except (ValueError, TypeError, LookupError) as error:
            raise CannotStart(f"the instructions are no script: {error}", task.id) from error

    async def execute(self, job: Job) -> Any:
        """Continue with the step of the last commit; report a mark that was announced only."""
        state: Mapping[str, Any] = job.state or {"step": 0, "heard": 0, "begun": None}
        step, heard, begun = state["step"], state["heard"], state["begun"]
        for at, each in list(enumerate(from_json(job.task.instructions)))[step:]:
            events = []
            if isinstance(each, Say):
                job.emit({"type": "run.delta", "text": f"{each.text}\n"})
            elif isinstance(each, Fail):
                raise TaskFailed("honest/exit", f"the script fails with {each.code}")
            else:
                wanted = [each.token] if isinstance(each, Mark) else []
                if isinstance(each, Hear):
                    wanted = list(job.task.supplements[heard:])
                for token in wanted:
                    if begun == token:
                        events.append(Event("honest/indeterminate", {"token": token}))
                    else:
                        state = {"step": at, "heard": heard, "begun": token}
                        await job.commit(state, events, progress=False)
                        events = []
                        await _mark(token)
                    begun = None
                    if isinstance(each, Hear):
                        heard += 1
                        state = {"step": at, "heard": heard, "begun": None}
                        await job.checkpoint(state, events)
                        events = []
            await job.checkpoint({"step": at + 1, "heard": heard, "begun": None}, events)
        return {"heard": heard}


async def _mark(token: str) -> None:
    try:
        await marked(token)
    except MarkFailed as error:
        raise TaskFailed("honest/mark", str(error)) from error


def make() -> HonestSubstrate:
    """The factory."""
    return HonestSubstrate()


def to_json(script: Script) -> str:
    """Return a script as JSON text."""
    return json.dumps([{"step": type(step).__name__, **asdict(step)} for step in script])


def from_json(text: str) -> Script:
    """Return the script that `to_json` wrote.

    Raises:
        ValueError, TypeError, LookupError: It is no such text.
    """
    return tuple(_step(**fields) for fields in json.loads(text))


def _step(step: str, **fields: Any) -> Step:
    made: Step = _STEPS[step](**fields)
    return made
