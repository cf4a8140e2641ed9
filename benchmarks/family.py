"""A family under one budget: the cost of a child's grant, beside the same child without one."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

from figure import Figure

from agentic_kernel import Task
from agentic_kernel_engine import Host, Limits, Loop
from agentic_kernel_engine.loop import Context, Delegate, FinalAnswer, Usage
from agentic_kernel_engine.seams import Forecast, Planner

CHILDREN = 400
ROUNDS = 12
WORST = Usage(10, 10, cost=0.001)


class Spawning(Planner, Forecast):
    """A parent that spawns a child and joins it, again and again; a child answers at once."""

    def __init__(self) -> None:
        self.began: list[float] = []

    def worst_case(self, context: Context) -> Usage:
        return WORST

    async def plan(self, context: Context) -> Any:
        if context.task.metadata.get("engine/depth", 0):
            return FinalAnswer(None)
        if context.step == 2 * CHILDREN:
            return FinalAnswer(None)
        if context.step % 2:
            turn: Any = context.transcript[-1]
            return Delegate("join", child=turn.observations[0].output["child"])
        self.began.append(time.perf_counter())
        return Delegate("spawn", instructions="part", summary="part")


def measure() -> list[Figure]:
    """The figures of a child with a grant."""
    bounded = {"max_cost": 1e6, "max_total_tokens": 10**9}
    free = shared = float("inf")
    for _ in range(ROUNDS):
        gc.collect()  # No round pays for what an earlier one has left.
        free = min(free, asyncio.run(_child({})))
        gc.collect()
        shared = min(shared, asyncio.run(_child(bounded)))
    return [
        Figure(
            name="a child under a shared budget, spawned, joined and settled on MemoryStore",
            ours=shared * 1e6, unit="µs", limit=free * 1e6, bar=free * 1e6 + 60,
            limit_is="the same child without shared limits",
        )
    ]  # fmt: skip


async def _child(bounded: dict[str, Any]) -> float:
    """Seconds for one child, on average."""
    planner = Spawning()
    limits = Limits(max_iterations=1_000, max_non_progress=5_000, max_repeats=5_000, **bounded)
    async with Host(Loop(planner, limits=limits)) as host:
        task = Task.new(summary="", instructions="", runtime_kind="bench")
        done = await host.run(task)
        assert done.status == "success", done.failure
    return (planner.began[-1] - planner.began[0]) / (len(planner.began) - 1)
