"""One process of a service for several users: `python -m integration.users_worker PLACE LOG ...`.

Its one Host serves every user that it may act for. Each call of the tool writes a line to the log:
the Task, and for whom it was called.

    PLACE    a folder, or ``URL#SCHEMA`` of a Postgres server
    LOG      a file that all processes append to
    USERS    the users that this process acts for, by commas
    TASKS    Tasks to dispatch for each user; 0 to take over only
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from agentic_kernel import Task
from agentic_kernel_engine import Host, Loop, Principal, Store
from agentic_kernel_engine.loop import Action, Context, FinalAnswer, ToolCall
from agentic_kernel_engine.seams import Tool, tool
from agentic_kernel_engine.tools.tool import ToolContext
from agentic_kernel_file import FileStore
from agentic_kernel_postgres import PostgresStore

STEPS = 12
"""The calls of the tool that each Task makes, one in each step."""


class Steps:
    """Calls the tool a fixed number of times, then ends."""

    async def plan(self, context: Context) -> Action:
        if context.step < STEPS:
            return ToolCall("act", {"step": context.step})
        return FinalAnswer(context.principal.name)


def acting(log: int) -> Tool:
    """The tool; a line is written by one call, so lines of several processes do not mix."""

    @tool(effect="write", idempotent=True)
    async def act(step: int, context: ToolContext) -> None:
        """Write down who acts."""
        await asyncio.sleep(0.1)
        who = context.principal
        scopes = ",".join(sorted(who.scopes))
        os.write(log, f"{context.task_id} {step} {who.name}@{who.tenant} {scopes}\n".encode())

    return act


async def main(place: str, log: str, users: str, tasks: str) -> None:
    """Dispatch, run and take over, until the process is killed."""
    known = users.split(",")

    async def acts_for(name: str, tenant: str) -> Principal | None:
        mine = name in known and tenant == f"{name}-inc"
        return Principal(name, tenant, frozenset({f"{name}'s"})) if mine else None

    async with AsyncExitStack() as stack:
        store: Store
        if "#" in place:
            url, schema = place.split("#")
            store = await stack.enter_async_context(PostgresStore(url, schema=schema, lease=1.0))
        else:
            store = FileStore(Path(place))
        tool = acting(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
        options: dict[str, Any] = {"runtime_kinds": ["service"], "acts_for": acts_for}
        host = await stack.enter_async_context(Host(Loop(Steps(), [tool]), store, **options))
        for number in range(int(tasks)):
            for name in known:
                task = Task.new(
                    summary="", instructions="", runtime_kind="service", id=f"{name}-{number}"
                )
                user = Principal(name, f"{name}-inc", frozenset({f"{name}'s"}))
                await host.dispatch(task, principal=user)
        print("ready", flush=True)
        await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
