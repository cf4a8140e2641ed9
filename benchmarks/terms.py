"""A Task's terms: what a principal and limits of its own add to a dispatch."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

from figure import Figure

from agentic_kernel import Task
from agentic_kernel_engine import Host, Limits, Loop, Principal
from agentic_kernel_engine.loop import Context, FinalAnswer
from agentic_kernel_engine.seams import Planner

TASKS = 500
ROUNDS = 40
ANN = Principal("ann", tenant="acme")


class Silent(Planner):
    """A planner that answers at once, after the dispatches were timed."""

    async def plan(self, context: Context) -> Any:
        return FinalAnswer(None)


def measure() -> list[Figure]:
    """The figures of terms."""
    limits = Limits(max_cost=1.0, max_tool_calls=20)
    contestants: dict[str, dict[str, Any]] = {
        "bare": {},
        "principal": {"principal": ANN},
        "both": {"principal": ANN, "limits": limits},
    }
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(ROUNDS):
        for name, terms in contestants.items():
            gc.collect()  # No round pays for what an earlier one has left.
            best[name] = min(best[name], asyncio.run(_dispatch(terms)))
    bare = best["bare"] * 1e6
    rows = {"a principal": best["principal"], "a principal and limits": best["both"]}
    return [
        Figure(
            name=f"a dispatch with {name}, on MemoryStore",
            ours=seconds * 1e6, unit="µs", limit=bare, bar=bare + 3,
            limit_is="a dispatch without terms",
        )
        for name, seconds in rows.items()
    ]  # fmt: skip


async def _dispatch(terms: dict[str, Any]) -> float:
    """Seconds for one dispatch, on average."""
    tasks = [Task.new(summary="", instructions="", runtime_kind="bench") for _ in range(TASKS)]
    async with Host(Loop(Silent()), acts_for=lambda name, tenant: ANN) as host:
        started = time.perf_counter()
        for task in tasks:
            await host.dispatch(task, **terms)
        return (time.perf_counter() - started) / TASKS
