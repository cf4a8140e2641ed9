"""Substrates with one mistake each, such as a real author might make. None of them conforms."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import threading
from typing import Any

from agentic_kernel import CannotStart, Task
from agentic_kernel_conformance import Hear, Mark, Say
from agentic_kernel_conformance.substrate_honest import from_json
from agentic_kernel_engine import Job

from .shell_substrate import BEGIN, ShellSubstrate


class BlocksTheLoop(ShellSubstrate):
    """Runs each command as a script does, and the event loop with it."""

    async def command(self, *command: str) -> None:
        subprocess.run(command, check=True)  # noqa: ASYNC221 - this is the mistake


class LeavesTheProcess(ShellSubstrate):
    """Takes it that a command ends with its run."""

    async def command(self, *command: str) -> None:
        process = await asyncio.create_subprocess_exec(*command, start_new_session=True)
        await process.wait()


class RepeatsTheLastStep(ShellSubstrate):
    """Saves the step that it has done, and not the one that comes next."""

    async def execute(self, job: Job) -> Any:
        script = from_json(job.task.instructions)
        for number in range(job.state or 0, len(script)):
            step = script[number]
            if isinstance(step, Mark):
                await self.mark(step.token)
            await job.checkpoint(number)
        return {"steps": len(script)}


class NeverListens(ShellSubstrate):
    """Has no use for extras, and says that it has."""

    async def hear(self, job: Job, state: dict[str, Any]) -> None:
        pass


class HearsAllAgain(ShellSubstrate):
    """Begins with the first extra after each pause."""

    async def hear(self, job: Job, state: dict[str, Any]) -> None:
        for extra in job.task.supplements:
            await self.mark(extra)


class LosesOutput(ShellSubstrate):
    """Collects the output of a run, and hands it over with the result."""

    async def execute(self, job: Job) -> Any:
        said: list[str] = []
        self_ = _Saying(said)
        return {**await self_.execute(job), "output": said}


class _Saying(ShellSubstrate):
    def __init__(self, said: list[str]) -> None:
        self._said = said

    def say(self, job: Job, text: str) -> None:
        self._said.append(text)


class AnnouncesNothing(ShellSubstrate):
    """Makes an effect, and a commit afterwards."""

    async def once(self, job: Job, state: dict[str, Any], token: str) -> None:
        await self.mark(token)


class CommitsFirst(ShellSubstrate):
    """Calls a step done, and then does it."""

    async def once(self, job: Job, state: dict[str, Any], token: str) -> None:
        await job.commit({**state, "step": state["step"] + 1})
        await self.mark(token)


class MixesTasks(ShellSubstrate):
    """Keeps the state of its run on the substrate, which all runs share."""

    _state: dict[str, Any]

    async def execute(self, job: Job) -> Any:
        self._state = dict(job.state or BEGIN)
        script = from_json(job.task.instructions)
        while self._state["step"] < len(script):
            step = script[self._state["step"]]
            if isinstance(step, Mark):
                await self.once(job, self._state, step.token)
            self._state["step"] += 1
            await self.done(job, self._state)
        return {"steps": self._state["step"]}


class PausesAtTheFourth(ShellSubstrate):
    """Saves work by a safe point at every fourth step only."""

    async def done(self, job: Job, state: dict[str, Any]) -> None:
        if state["step"] % 4 == 0:
            await job.checkpoint(dict(state))
        else:
            await job.commit(dict(state))


class DurableWhenAsked(ShellSubstrate):
    """Makes nothing durable until it is asked to stop."""

    async def once(self, job: Job, state: dict[str, Any], token: str) -> None:
        await self.mark(token)

    async def done(self, job: Job, state: dict[str, Any]) -> None:
        if job.stopping:
            await job.checkpoint(dict(state))


class IgnoresExitCodes(ShellSubstrate):
    """Waits for a command, and does not ask how it went."""

    async def command(self, *command: str) -> None:
        process = await asyncio.create_subprocess_exec(*command)
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


class FailsWithoutACode(ShellSubstrate):
    """Lets any exception out, and leaves its meaning to the Host."""

    async def command(self, *command: str) -> None:
        process = await asyncio.create_subprocess_exec(*command)
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if code:
            raise RuntimeError(f"{command[0]} ended with {code}")


class OutlivesItsRun(ShellSubstrate):
    """Takes a cancellation for one more error of a step, and goes on with the next."""

    async def execute(self, job: Job) -> Any:
        state = dict(job.state or BEGIN)
        for step in from_json(job.task.instructions)[state["step"] :]:
            try:
                if isinstance(step, Mark):
                    await self.mark(step.token)
                elif isinstance(step, Say):
                    self.say(job, step.text)
                state["step"] += 1
                await self.done(job, state)
            except BaseException:
                continue
        return None


class KeepsFiles(ShellSubstrate):
    """Writes a log of each step to a file of its own, and leaves it."""

    async def mark(self, token: str) -> None:
        handle, _ = tempfile.mkstemp(prefix=token)
        os.close(handle)
        await super().mark(token)


class KeepsThreads(ShellSubstrate):
    """Starts a thread for each run that waits for an end that never comes."""

    async def execute(self, job: Job) -> Any:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        return await super().execute(job)


class KeepsHistory(ShellSubstrate):
    """Keeps the names of all its steps in the state."""

    async def done(self, job: Job, state: dict[str, Any]) -> None:
        step = from_json(job.task.instructions)[max(0, state["step"] - 1)]
        state["done"] = [*state.get("done", []), repr(step)]
        await super().done(job, state)


class CountsThisRun(ShellSubstrate):
    """Has a result that tells how many steps this run did."""

    async def execute(self, job: Job) -> Any:
        begun = (job.state or BEGIN)["step"]
        return {"steps": (await super().execute(job))["steps"] - begun}


class PreparesBeforeItRefuses(ShellSubstrate):
    """Makes a folder for the Task, and then looks if it takes the Task."""

    async def accept(self, task: Task) -> None:
        tempfile.mkdtemp()
        try:
            await super().accept(task)
        except CannotStart:
            raise


class SkipsAfterATakeOver(ShellSubstrate):
    """Takes it that a run that begins with a state was stopped after its step."""

    async def execute(self, job: Job) -> Any:
        if job.state is not None and isinstance(
            from_json(job.task.instructions)[min(job.state["step"], 1)], (Mark, Hear)
        ):
            job.state = {**job.state, "step": job.state["step"] + 1}
        return await super().execute(job)


FAULTS = {
    "BlocksTheLoop": "held",
    "LeavesTheProcess": "unwind",
    "RepeatsTheLastStep": "progress",
    "NeverListens": "extras",
    "HearsAllAgain": "extras",
    "LosesOutput": "output",
    "AnnouncesNothing": "once",
    "CommitsFirst": "once",
    "MixesTasks": "clause1",
    "PausesAtTheFourth": "safe",
    "DurableWhenAsked": "progress",
    "IgnoresExitCodes": "outcome",
    "FailsWithoutACode": "outcome",
    "OutlivesItsRun": "unwind",
    "KeepsFiles": "clean",
    "KeepsThreads": "clean",
    "KeepsHistory": "small",
    "CountsThisRun": "result",
    "PreparesBeforeItRefuses": "edges",
    "SkipsAfterATakeOver": "progress",
}
"""The rule that each of them breaks."""
