"""A shipped test double: a substrate that runs each Task exactly as its instructions say.

It runs on a `Host` over any store, and passes the same contract as a real substrate. Instructions:
``succeed``, ``fail``, ``run`` (until stopped) and ``steps`` (eight safe points, then success).
"""

from __future__ import annotations

import asyncio
from typing import Any

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import Job, TaskFailed

_STEPS = {"succeed": 0, "steps": 8}
_FOR_EVER = 1 << 62


class ScriptedWork:
    """The `Work` of a `ScriptedSubstrate`, or of any substrate that follows the same script.

    Args:
        runtime_kind: The kind of the Tasks it makes.
    """

    def __init__(self, runtime_kind: str = "scripted") -> None:
        self.runtime_kind = runtime_kind
        self._produced: dict[str, asyncio.Event] = {}

    def task(self, script: str, runtime_kind: str | None = None) -> Task:
        """Return a Task that follows the script."""
        return Task.new(
            summary=f"a Task that is to {script}",
            instructions=script,
            runtime_kind=runtime_kind or self.runtime_kind,
            metadata={"acme/given": {"deep": [1, 2]}},
        )

    def succeed(self) -> Task:
        return self.task("succeed")

    def fail(self) -> Task:
        return self.task("fail")

    def run_until_stopped(self) -> Task:
        return self.task("run")

    def pass_safe_points(self) -> Task:
        return self.task("steps")

    def refused(self) -> Task:
        return self.task("succeed", "somebody-elses")

    def expected_result(self, task: Task) -> Any:
        return {"done": task.instructions}

    def produced(self, task_id: str) -> asyncio.Event:
        """Return the event that the substrate sets when the Task has produced output."""
        return self._produced.setdefault(task_id, asyncio.Event())

    async def until_output(self, task: Task) -> None:
        await self.produced(task.id).wait()

    def turns(self, task: Task) -> int:
        """Return the turns of the Task for `bench`: each safe point is one."""
        return self.steps(task)

    @staticmethod
    def steps(task: Task) -> int:
        """Return the number of safe points that the Task passes before it succeeds."""
        return _STEPS.get(task.instructions, _FOR_EVER)


class ScriptedSubstrate:
    """A substrate that follows the script; each step notes its output and makes a checkpoint.

    Args:
        work: The `Work` that made the Tasks; the substrate tells it of their output.
    """

    def __init__(self, work: ScriptedWork) -> None:
        self._work = work

    async def accept(self, task: Task) -> None:
        """Refuse Tasks of another kind."""
        if task.runtime_kind != self._work.runtime_kind:
            raise CannotStart(f"this substrate serves {self._work.runtime_kind!r} only", task.id)

    async def execute(self, job: Job) -> Any:
        """Continue after the step of the last checkpoint."""
        if job.task.instructions == "fail":
            raise TaskFailed("scripted/as_told", "as the script says")
        for step in range(job.state or 0, self._work.steps(job.task)):
            job.note("scripted/partial_output", f"{step + 1} steps")
            self._work.produced(job.task.id).set()
            await job.checkpoint(step + 1)
            await asyncio.sleep(0)
        return {"done": job.task.instructions}
