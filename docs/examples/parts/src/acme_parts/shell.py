"""Runs each line of a Task's instructions as a shell command, and never one of them twice."""

import asyncio
import os
import signal
from contextlib import suppress
from typing import Any

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import Accepting, Event, Job, Substrate, TaskFailed


class Shell(Accepting, Substrate):
    """A substrate whose step is one command."""

    def __init__(self, program: str = "sh", seconds: float = 60.0) -> None:
        self.program = program
        self.seconds = seconds

    async def accept(self, task: Task) -> None:
        if not task.instructions.strip():
            raise CannotStart("there is no command; write one a line", task.id)

    async def execute(self, job: Job) -> Any:
        done, begun = job.state or (0, False)
        # A resume may bring further commands while the others run.
        while done < len(commands := _commands(job.task)):
            if begun:  # The last run died in the middle of this command: it may have run.
                job.emit(Event("shell/indeterminate", {"command": commands[done]}))
            else:
                await job.commit((done, True), progress=False)
                await self._run(job, commands[done])
            done, begun = done + 1, False
            await job.checkpoint((done, False))
        return {"commands": done}

    async def _run(self, job: Job, command: str) -> None:
        process = await asyncio.create_subprocess_exec(
            self.program,
            "-c",
            command,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self.seconds):
                said, _ = await process.communicate()
        except TimeoutError:
            raise TaskFailed("shell/timeout", f"took longer than {self.seconds:g} s") from None
        finally:
            if process.returncode is None:  # The run is unwound: end the command's whole group.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        text = said.decode(errors="replace")
        job.emit(Event("run.delta", {"text": text}))
        if process.returncode:
            raise TaskFailed("shell/exit", f"{command[:80]} ended with {process.returncode}")


def _commands(task: Task) -> list[str]:
    return "\n".join((task.instructions, *task.supplements)).splitlines()
