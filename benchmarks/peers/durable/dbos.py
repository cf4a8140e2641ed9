"""DBOS: a workflow that calls a step in a loop, both asynchronous."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dbos import DBOS

from peers.durable.contest import Run, text


@DBOS.step()
async def step() -> str:
    """One step; what it returns is kept."""
    return text()


@DBOS.workflow()
async def stepping(steps: int) -> int:
    """So many steps."""
    for _ in range(steps):
        await step()
    return steps


@asynccontextmanager
async def opened(place: str, way: str) -> AsyncIterator[Run]:
    """Runs, each a workflow, with the pool and the threads that it has unless told otherwise."""
    DBOS(config={"name": "bench", "system_database_url": place, "log_level": "ERROR"})
    DBOS.launch()

    async def run(steps: int) -> None:
        assert await stepping(steps) == steps

    try:
        yield run
    finally:
        DBOS.destroy()
