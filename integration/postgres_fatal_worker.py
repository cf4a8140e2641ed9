"""A worker whose Task kills it: ``python -m integration.postgres_fatal_worker PLACE SCHEMA WHERE``.

It dispatches the Task if nobody has, or takes it up, and runs it: in a substrate of its own that is
fatal, or in a Loop whose model asks for a tool that is. It says who it is, and what begins; if it
lives, how the Task ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NoReturn

from agentic_kernel import Task, TaskExists
from agentic_kernel_engine import Host, Job, Loop, Substrate, tool
from agentic_kernel_engine.loop import FinalAnswer, ToolCall
from agentic_kernel_engine.seams import ScriptedPlanner
from agentic_kernel_postgres import PostgresStore

from .sqlite_worker import say

TASK: Final = "fatal"
ATTEMPTS: Final = 3


SUBSTRATE: Final = "substrate"
TOOL: Final = "tool"


def die() -> NoReturn:
    """Say so, and end at once."""
    say("begun")
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives this")


class Fatal:
    """A substrate that no process survives."""

    async def execute(self, job: Job) -> None:
        """Die before anything is committed."""
        die()


@tool(effect="read")
def look(at: str) -> str:
    """Look at something that no process survives."""
    die()


def fatal_loop() -> Loop:
    """A Loop whose first step is to look."""
    return Loop(ScriptedPlanner(ToolCall("look", {"at": "it"}), FinalAnswer("seen")), [look])


async def main(place: str, schema: str, where: str) -> None:
    """Run the Task for as long as that lets this process live."""
    substrates: Mapping[str, Substrate] = {SUBSTRATE: Fatal(), TOOL: fatal_loop()}
    async with (
        asyncio.timeout(60),
        PostgresStore(place, schema=schema, lease=60) as store,
        Host(substrates[where], store, max_attempts=ATTEMPTS) as host,
    ):
        say(host.name)
        task = Task.new(id=TASK, summary="", instructions="look at it", runtime_kind="fatal")
        with suppress(TaskExists):  # then one before this died of it
            await host.dispatch(task)
        failure = (await host.wait(TASK)).failure
        say(None if failure is None else [failure.code, failure.metadata["attempts"]])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
