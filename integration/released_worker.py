"""The jobs of release 0.1.0 on a state: ``python -I released_worker.py PLACE JOB``.

The release's interpreter runs this file, and this version imports it, so it uses only names that
both versions have, and no other module of the repository. It prints only acknowledged facts.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Loop, tool
from agentic_kernel_engine.loop import (
    ALLOW,
    Action,
    Context,
    Decision,
    FinalAnswer,
    ToolCall,
    require_approval,
)
from agentic_kernel_engine.seams import ScriptedPlanner

KIND = "loop"
ANSWER = "the end of the work"
LEFT = {
    "asked": "paused", "crashed": "running", "done": "success", "failed": "failure",
    "killed": "cancelled",
}  # fmt: skip
"""The Tasks that the job ``write`` leaves, and their statuses."""
LEASE = 2.0
"""Seconds after which a dead host's Tasks in Postgres can be claimed."""
CRASHED = 9
"""The exit code of a process that ends itself in the middle of its work."""


class AskBeforePaying:
    """A policy: a person looks at every payment."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        if isinstance(action, ToolCall) and action.tool == "pay":
            return require_approval("money leaves the house")
        return ALLOW


@tool(effect="read")
def look(what: str) -> dict[str, Any]:
    """Look something up."""
    return {"what": what, "kept": [True, 1, 1.5, None, "ä"]}


@tool(effect="write", idempotent=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


@tool(effect="read")
def die() -> str:
    """End this process as a power cut would, if its environment says so."""
    if "RELEASED_WORKER_DIES" in os.environ:
        os._exit(CRASHED)
    return "lived"


SECOND = {
    "pay": ToolCall("pay", {"amount": 40}),
    "die": ToolCall("die", {}),
    "fail": RuntimeError("as the Task asked"),
    "look": ToolCall("look", {"what": "again"}),
}
"""The second step of a Task with these instructions."""


def second(context: Context) -> Any:
    return SECOND[context.task.instructions]


def host(store: Any) -> Host:
    """A Host of the Loop that all these Tasks are for."""
    planner = ScriptedPlanner(ToolCall("look", {"what": "sea"}), second, FinalAnswer(ANSWER))
    loop = Loop(planner, [look, pay, die], AskBeforePaying())
    return Host(loop, store, runtime_kinds=[KIND], interval=0.02)


def task(name: str, asks: str) -> Task:
    """A Task of that name and these instructions."""
    return Task.new(id=name, summary=f"to {asks}", instructions=asks, runtime_kind=KIND)


@asynccontextmanager
async def opened(place: str) -> AsyncIterator[Any]:
    """The store in this folder; or at this URL, whose end after ``|`` names the schema."""
    if "://" in place:
        from agentic_kernel_postgres import PostgresStore

        url, _, schema = place.rpartition("|")
        async with PostgresStore(url, schema=schema, lease=LEASE) as store:
            yield store
        return
    from agentic_kernel_file import FileStore

    files = FileStore(place)
    try:
        yield files
    finally:
        files.close()


async def write(store: Any) -> None:
    """Leave the Tasks of `LEFT`; the process ends in the middle of the one that crashes."""
    async with host(store) as ours:
        for name in ("killed", "asked"):
            await ours.dispatch(task(name, "pay"))
            await ours.wait(name, TaskStatus.PAUSED)
        await ours.kill("killed")
        await ours.run(task("done", "look"))
        await ours.run(task("failed", "fail"))
        os.environ["RELEASED_WORKER_DIES"] = "yes"
        await ours.run(task("crashed", "die"))


async def read(store: Any) -> None:
    """Say every Task's status and result, by its id."""
    async with Host(store=store) as control:
        found = await control.find()
        print(json.dumps({each.id: [each.status.value, each.result] for each in found}))


async def share(store: Any) -> None:
    """Take one order a line: run a Task of that name to its end, or show one; say its result."""
    async with host(store) as ours:
        while order := (await asyncio.to_thread(sys.stdin.readline)).split():
            verb, name = order
            done = await (ours.run(task(name, "look")) if verb == "run" else ours.get(name))
            print(json.dumps([done.status.value, done.result]), flush=True)


JOBS = {"write": write, "read": read, "share": share}


async def main(place: str, job: str) -> None:
    async with opened(place) as store:
        await JOBS[job](store)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
