"""A text in place of a Task: what it adds to a run."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

from figure import Figure

from agentic_kernel import Task
from agentic_kernel_engine.loop import Context, FinalAnswer
from agentic_kernel_engine.providers import ProviderRuntime

RUNS = 500
ROUNDS = 40


class Silent:
    """A planner that answers at once."""

    impl = "bench"

    async def plan(self, context: Context) -> Any:
        return FinalAnswer(None)

    async def close(self) -> None:
        pass


def measure() -> list[Figure]:
    """The figures of texts."""
    best = {True: float("inf"), False: float("inf")}
    for _ in range(ROUNDS):
        for as_text in best:
            gc.collect()  # No round pays for what an earlier one has left.
            best[as_text] = min(best[as_text], asyncio.run(_run(as_text)))
    bare = best[False] * 1e6
    return [
        Figure(
            name="a run of a text, on MemoryStore",
            ours=best[True] * 1e6, unit="µs", limit=bare, bar=bare + 5,
            limit_is="a run of `Task.new(…)`",
        )
    ]  # fmt: skip


async def _run(as_text: bool) -> float:
    """Seconds for one run, on average."""
    text = "Why is the sky blue?"
    async with ProviderRuntime(Silent(), "bench", (), None, {}) as runtime:
        started = time.perf_counter()
        if as_text:
            for _ in range(RUNS):
                await runtime.run(text)
        else:
            for _ in range(RUNS):
                await runtime.run(Task.new(summary="", instructions=text, runtime_kind="bench"))
        return (time.perf_counter() - started) / RUNS
