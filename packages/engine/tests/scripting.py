"""Shared by tests of runs: tools that leave a trace, and runs of a script on a Host."""

from __future__ import annotations

from typing import Any

from agentic_kernel import Task
from agentic_kernel_engine import Event, Host, MemoryStore, Store
from agentic_kernel_engine.loop.loop import Loop
from agentic_kernel_engine.plans.transcript import Turn
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import ScriptedPlanner
from agentic_kernel_engine.tools.tool import Tool, tool

from .crashing import Line


class World:
    """The world that tools can change, and a list of their changes."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def tools(self) -> list[Tool]:
        @tool(effect="none")
        async def add(a: int, b: int) -> int:
            """Add two numbers."""
            self.done.append(f"add {a} {b}")
            return a + b

        @tool(effect="write")
        async def write(text: str) -> str:
            """Write a text."""
            self.done.append(f"write {text}")
            return "written"

        @tool(effect="write", idempotent=True)
        async def put(text: str) -> str:
            """Write a text, as often as you like."""
            self.done.append(f"put {text}")
            return "put"

        @tool(effect="none")
        async def fail(text: str = "") -> str:
            """Fail."""
            self.done.append("fail")
            raise ValueError(text or "on purpose")

        return [add, write, put, fail]


class Runner:
    """Runs scripts on a Host of their own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = MemoryStore()
        self.loop: Loop

    def host(self, *script: Any, **options: Any) -> Host:
        return self._host(self.store, *script, **options)

    def mortal(self, *script: Any, **options: Any) -> Host:
        """The same, as a Host that can crash."""
        return self._host(Line(self.store), *script, **options)

    def _host(self, store: Store, *script: Any, **options: Any) -> Host:
        planner = options.pop("planner", None) or ScriptedPlanner(*script)
        tools = options.pop("tools", None)
        self.loop = Loop(planner, self.world.tools() if tools is None else tools, **options)
        return Host(self.loop, store, grace=0, interval=0.01)

    async def run(self, *script: Any, **options: Any) -> Task:
        async with self.host(*script, **options) as host:
            return await host.run(new_task())

    async def events(self, task: Task) -> list[Event]:
        """The events of a Task so far."""
        async with Host(store=self.store) as host:
            return list((await host.outcome(task.id)).events)


def new_task(**fields: Any) -> Task:
    given = {"summary": "", "instructions": "do it", "runtime_kind": "loop", **fields}
    return Task.new(**given)


def last_turn(context: Context) -> Turn:
    """The step before, as a planner sees it."""
    turn = context.transcript[-1]
    assert isinstance(turn, Turn)
    return turn
