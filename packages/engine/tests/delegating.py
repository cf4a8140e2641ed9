"""Shared by the tests of delegation: planners by role, and children that can be held."""

from __future__ import annotations

import asyncio
from typing import Any

from agentic_kernel_engine import Host, Loop, MemoryStore
from agentic_kernel_engine.plans.action import Delegate, FinalAnswer
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import ScriptedPlanner
from agentic_kernel_engine.tools.tool import Tool, tool

from .scripting import last_turn

Answers = dict[str, list[Any]]


class Roles:
    """A planner that answers by the instructions of the Task, and then by the step."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    async def plan(self, context: Context) -> Any:
        answer = self._answers[context.task.instructions][context.step]
        return answer(context) if callable(answer) else answer


def last(context: Context) -> Any:
    """The observations of the step before."""
    return last_turn(context).observations


def spawned(context: Context) -> str:
    """The child that the first step spawned."""
    turn: Any = context.transcript[1]
    child: str = turn.observations[0].output["child"]
    return child


def join(context: Context) -> Delegate:
    return Delegate("join", child=spawned(context))


def told(context: Context) -> FinalAnswer:
    """The final answer is what came of the step before."""
    (observation,) = last(context)
    return FinalAnswer([observation.error, observation.output, observation.message])


def spawn(instructions: str, agent: str | None = None) -> Delegate:
    return Delegate("spawn", instructions=instructions, summary="part", agent=agent)


class Held:
    """A tool that says when it was reached, and waits to be let go."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    def tool(self) -> Tool:
        @tool(effect="none")
        async def hold() -> str:
            self.reached.set()
            await self.go.wait()
            return "held"

        return hold


def expert(*script: Any, store: MemoryStore | None = None, **options: Any) -> Host:
    """A Host of its own that answers by this script."""
    loop = Loop(ScriptedPlanner(*script), options.pop("tools", ()), **options)
    return Host(loop, store, runtime_kinds=["expert"], grace=0, interval=0.01)


def as_tool(host: Host, **given: Any) -> Tool:
    return host.as_tool(**{"name": "expert", "description": "Knows it all.", **given})


class Late:
    """A registry whose tools come once there is a Host to make them of."""

    def __init__(self, tools: list[Tool]) -> None:
        self._tools = tools

    def tools(self) -> list[Tool]:
        return self._tools

    def find(self, name: str) -> Tool | None:
        return next((each for each in self._tools if each.name == name), None)
