"""Runs each line of a Task's instructions as a shell command, and never one of them twice."""

import asyncio
from typing import Any

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import Accepting, Event, Job, Substrate, TaskFailed


class Shell(Accepting, Substrate):
    """A substrate whose step is one command."""

    def __init__(self, program: str, seconds: float) -> None:
        self.program = program
        self.seconds = seconds

    async def accept(self, task: Task) -> None:
        if not task.instructions.strip():
            raise CannotStart("there is no command; write one a line", task.id)

    async def execute(self, job: Job) -> Any:
        task = job.task
        commands = "\n".join((task.instructions, *task.supplements)).splitlines()
        done, begun = job.state or (0, False)
        if begun:  # The last run died in the middle of a command, so its effect is unknown.
            raise TaskFailed("shell/unknown_outcome", f"command {done + 1} may have run; look")
        for number in range(done, len(commands)):
            await job.commit((number, True))
            job.check()
            said = await self._run(commands[number])
            job.emit(Event("run.delta", {"text": said}))
            await job.checkpoint((number + 1, False))
        return {"commands": len(commands)}

    async def _run(self, command: str) -> str:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            self.program, "-c", command, stdout=pipe, stderr=asyncio.subprocess.STDOUT
        )
        try:
            async with asyncio.timeout(self.seconds):
                said, _ = await process.communicate()
        except TimeoutError:
            raise TaskFailed("shell/timeout", f"took longer than {self.seconds:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        text = said.decode(errors="replace")
        if process.returncode:
            raise TaskFailed("shell/exit", f"ended with {process.returncode}: {text[-500:]}")
        return text
