"""AgenticKernel: a Loop on a Host, with the store that keeps everything in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agentic_kernel import Task
from agentic_kernel_engine import Host, Limits, Loop, tool
from agentic_kernel_engine.loop import Context, FinalAnswer, ToolCall
from peers.contest import Model, Run


@tool(effect="none")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@dataclass
class Counting:
    """A planner that counts up with the tool, then answers."""

    turns: int
    model: Model

    async def plan(self, context: Context) -> ToolCall | FinalAnswer:
        await self.model()
        if context.step == self.turns:
            return FinalAnswer("done")
        return ToolCall("add", {"a": context.step, "b": 1})


@asynccontextmanager
async def opened(turns: int, model: Model, keeping: bool) -> AsyncIterator[Run]:
    """Runs; every step is a commit to the store, which cannot be left out."""
    loop = Loop(Counting(turns, model), [add], limits=Limits(max_iterations=turns + 1))
    async with Host(loop) as host:

        async def run() -> None:
            task = Task.new(summary="Count", instructions="Count.", runtime_kind="bench")
            done = await host.run(task)
            assert (done.status, done.result) == ("success", "done"), done.failure

        yield run
