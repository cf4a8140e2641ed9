"""Workshop: the substrate that makes one target by running the lines of its recipe."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import Accepting, Cleaning, Event, Job, Substrate, TaskFailed

KIND = "build"
MARK = "BUILDS_TASK"
"""The environment variable that every process of a target inherits: the id of its Task."""
_TAIL = 2_000
"""Characters of the output of a failed line in the failure."""


class Workshop(Substrate, Accepting, Cleaning):
    """Runs the lines of a recipe one after the other, each in a session of its own.

    A line that a crash cut off is run again: the state says which line is next, and what is left of
    the earlier process is ended first. So a line must be fit to be run again, as in any build.
    """

    async def accept(self, task: Task) -> None:
        """Refuse instructions that are no recipe."""
        try:
            _recipe(task)
        except (ValueError, TypeError, LookupError) as error:
            raise CannotStart(f"the instructions are no recipe: {error}", task.id) from error

    async def execute(self, job: Job) -> dict[str, int]:
        """Go on with the line after the last one that is done."""
        folder, lines = _recipe(job.task)
        if job.state is not None:
            end_processes(job.task.id)
        for number in range(job.state or 0, len(lines)):
            await self._line(job, folder, number, lines[number])
            await job.checkpoint(number + 1)
        return {"lines": len(lines)}

    async def on_killed(self, task: Task, state: Any, events: Sequence[Event]) -> None:
        """End what the target has running."""
        end_processes(task.id)

    async def _line(self, job: Job, folder: Path, number: int, line: str) -> None:
        process = await asyncio.create_subprocess_exec(
            "sh", "-e", "-c", line, cwd=folder, start_new_session=True,
            env={**os.environ, MARK: job.task.id}, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        assert process.stdout is not None
        tail = ""
        try:
            while piece := await process.stdout.read(65_536):
                text = piece.decode(errors="replace").replace("\0", "�")
                job.emit({"type": "run.delta", "text": text})
                tail = (tail + text)[-_TAIL:]
            status = await process.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if status:
            raise TaskFailed(
                "build/line_failed",
                f"line {number + 1} ended with {status}: {line}",
                {"line": number + 1, "status": status, "output": tail},
            )


def task_of(target: str, lines: Sequence[str], folder: Path, task_id: str | None = None) -> Task:
    """The Task that makes a target."""
    return Task.new(
        id=task_id,
        summary=target,
        instructions=json.dumps({"folder": str(folder), "run": list(lines)}),
        runtime_kind=KIND,
        metadata={"label/target": target},
    )


def end_processes(task_id: str) -> None:
    """End every process that a Task has left behind on this machine, by its environment."""
    mark = f"{MARK}={task_id}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)


def _recipe(task: Task) -> tuple[Path, list[str]]:
    given = json.loads(task.instructions)
    lines = given["run"]
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise ValueError("`run` must be a list of texts")
    return Path(given["folder"]), lines
