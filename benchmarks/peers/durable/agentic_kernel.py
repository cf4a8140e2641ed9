"""AgenticKernel: a Host on a PostgresStore, and a substrate that checkpoints every step."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agentic_kernel import Task
from agentic_kernel_engine import Event, Host, Job
from agentic_kernel_postgres import PostgresStore
from peers.durable.contest import Run, text


class Stepping:
    """A substrate that makes as many steps as its Task says."""

    async def execute(self, job: Job) -> Any:
        steps = int(job.task.instructions)
        for done in range(1, steps + 1):
            await job.checkpoint({"done": done}, [Event("bench.text", {"text": text()})])
        return steps


@asynccontextmanager
async def opened(place: str, way: str) -> AsyncIterator[Run]:
    """Runs; all share the store, whose commits find together by themselves."""
    async with PostgresStore(place) as store, Host(Stepping(), store) as host:

        async def run(steps: int) -> None:
            task = Task.new(summary="", instructions=str(steps), runtime_kind="bench")
            done = await host.run(task)
            assert done.result == steps, done.failure

        yield run
