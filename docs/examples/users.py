"""One Host serves two users: each Task acts for its own user, also after a pause."""

from __future__ import annotations

import asyncio

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Limits, Loop, Principal
from agentic_kernel_engine.loop import Action, Context, FinalAnswer, Schedule, ToolCall
from agentic_kernel_engine.seams import ToolContext, tool

SCOPES = {"ann": frozenset({"notes"}), "bob": frozenset[str]()}
"""The permissions of the users, as a service keeps them."""


# --8<-- [start:users]
def acts_for(name: str, tenant: str) -> Principal | None:
    """The user as it is now, or None for a user that this Host may not act for."""
    return Principal(name, tenant, SCOPES[name]) if name in SCOPES else None


@tool
async def whoami(context: ToolContext) -> str:
    """The acting users, with their scopes."""
    return f"{context.principal.name} {sorted(context.principal.scopes)}"


async def serve(host: Host, name: str) -> Task:
    """Dispatch a Task for a user, within limits of its own."""
    task = Task.new(summary="", instructions="Who am I?", runtime_kind="service")
    user = Principal(name, tenant="acme", scopes=SCOPES[name])
    await host.dispatch(task, principal=user, limits=Limits(max_tool_calls=5))
    return await host.wait(task.id, TaskStatus.PAUSED)


# --8<-- [end:users]


class Twice:
    """Asks who acts, sleeps, and asks again."""

    async def plan(self, context: Context) -> Action:
        if context.step == 1:
            return Schedule("2999-01-01T00:00:00+00:00", "wait for a resume")
        if context.step < 3:
            return ToolCall("whoami", {})
        return FinalAnswer(context.principal.name)


async def main() -> None:
    """Serve both users; take a scope away from one of them while their Tasks are paused."""
    async with Host(Loop(Twice(), [whoami]), acts_for=acts_for) as host:
        tasks = [await serve(host, name) for name in SCOPES]
        SCOPES["ann"] = frozenset()
        for task in tasks:
            await host.resume(task.id)
            ended = await host.wait(task.id)
            # --8<-- [start:watch]
            async for event in host.watch(task.id):
                if event.type == "step.observed":
                    print(ended.result, event.id, event.data["observations"][0].get("output"))
            # --8<-- [end:watch]


if __name__ == "__main__":
    asyncio.run(main())
