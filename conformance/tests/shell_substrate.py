"""A substrate whose work is done by real processes, one for each step that acts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from agentic_kernel import CannotStart, Task
from agentic_kernel_conformance import Fail, Hear, Mark, Say
from agentic_kernel_conformance.substrate_honest import HonestWork, from_json
from agentic_kernel_engine import Accepting, Event, Job, Substrate, TaskFailed

BEGIN: Mapping[str, Any] = {"step": 0, "heard": 0, "begun": None}


class ShellWork(HonestWork):
    """Scripts for the shell substrates."""

    def __init__(self) -> None:
        super().__init__("shell")


class ShellSubstrate(Substrate, Accepting):
    """Announces each command by a commit, runs it, and makes a checkpoint after it.

    The methods are small, so that a mistake can replace one of them.
    """

    async def accept(self, task: Task) -> None:
        try:
            from_json(task.instructions)
        except (ValueError, TypeError, LookupError) as error:
            raise CannotStart("the instructions are no script", task.id) from error

    async def execute(self, job: Job) -> Any:
        state = dict(job.state or BEGIN)
        script = from_json(job.task.instructions)
        while state["step"] < len(script):
            step = script[state["step"]]
            if isinstance(step, Mark):
                await self.once(job, state, step.token)
            elif isinstance(step, Say):
                self.say(job, step.text)
            elif isinstance(step, Fail):
                await self.command("sh", "-c", f"exit {step.code}")
            elif isinstance(step, Hear):
                await self.hear(job, state)
            state["step"] += 1
            await self.done(job, state)
        return {"steps": state["step"]}

    def say(self, job: Job, text: str) -> None:
        job.emit({"type": "run.delta", "text": f"{text}\n"})

    async def hear(self, job: Job, state: dict[str, Any]) -> None:
        for extra in job.task.supplements[state["heard"] :]:
            await self.once(job, state, extra)
            state["heard"] += 1
            await self.done(job, state)

    async def once(self, job: Job, state: dict[str, Any], token: str) -> None:
        """Announce the mark and make it; or report it, if an earlier run announced it."""
        if state["begun"] == token:
            job.emit(Event("shell/indeterminate", {"token": token}))
        else:
            state["begun"] = token
            await job.commit(dict(state), progress=False)
            await self.mark(token)
        state["begun"] = None

    async def done(self, job: Job, state: dict[str, Any]) -> None:
        await job.checkpoint(dict(state))

    async def mark(self, token: str) -> None:
        await self.command(sys.executable, "-m", "agentic_kernel_conformance.mark", token)

    async def command(self, *command: str) -> None:
        """Run a command; end its whole group if the run is unwound."""
        process = await asyncio.create_subprocess_exec(*command, start_new_session=True)
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if code:
            raise TaskFailed("shell/exit", f"{command[0]} ended with {code}", {"code": code})
