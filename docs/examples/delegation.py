"""Delegation: who may give work to whom; and another Host as a tool."""

import asyncio
from collections.abc import Mapping
from typing import Any

from agentic_kernel import Task
from agentic_kernel_engine import Host, Loop
from agentic_kernel_engine.loop import Action, Context, Delegate, FinalAnswer, ToolCall, Turn
from agentic_kernel_engine.seams import ChildTasks, DelegationRefused, ScriptedPlanner


class Catalogue(ChildTasks):
    """A Delegation: an Agent may give work to those that are listed for it."""

    def __init__(self, allowed: Mapping[str | None, set[str]]) -> None:
        super().__init__()
        self._allowed = allowed

    def admit(self, parent: Task, child: Task) -> Task:
        if child.agent_name not in self._allowed.get(parent.agent_name, set()):
            raise DelegationRefused(f"{parent.agent_name} may not ask {child.agent_name}")
        return super().admit(parent, child)


class Newsroom:
    """A planner: an editor asks a writer, then a spy; the writer writes."""

    async def plan(self, context: Context) -> Action:
        if context.task.agent_name == "news/writer":
            return FinalAnswer("Sunny, with some wind.")
        turns = [entry for entry in context.transcript if isinstance(entry, Turn)]
        match turns:
            case []:
                return Delegate("spawn", instructions="Write about today.", agent="news/writer")
            case [spawned]:
                child: Any = spawned.observations[0].output
                return Delegate("join", child=child["child"])
            case [_, _]:
                return Delegate("spawn", instructions="Find out more.", agent="news/spy")
        return FinalAnswer([turns[1].observations[0].output, turns[2].observations[0].message])


def new_task(agent: str | None = None) -> Task:
    return Task.new(
        summary="News", instructions="Make today's page.", runtime_kind="loop", agent_name=agent
    )


async def in_one_host() -> None:
    delegation = Catalogue({"news/editor": {"news/writer"}})
    async with Host(Loop(Newsroom(), delegation=delegation)) as host:
        print((await host.run(new_task("news/editor"))).result)


async def as_a_tool() -> None:
    """The same writer on a Host of its own, called like any other tool."""
    writer = Host(Loop(ScriptedPlanner(FinalAnswer("Rain at last."))), runtime_kinds=["writer"])
    ask = ToolCall("writer", {"instructions": "Write about today."})

    def pass_on(context: Context) -> FinalAnswer:
        last = context.transcript[-1]
        assert isinstance(last, Turn)
        return FinalAnswer(last.observations[0].output)

    tools = [writer.as_tool(name="writer", description="Writes a few lines about anything.")]
    async with writer, Host(Loop(ScriptedPlanner(ask, pass_on), tools)) as editor:
        print((await editor.run(new_task())).result)


asyncio.run(in_one_host())
asyncio.run(as_a_tool())
