"""Another process on a `PostgresStore`: ``python -m integration.postgres_worker PLACE SCHEMA …``.

It does a job of `sqlite_worker`, which asks of its store no more than the port has, or runs a Task
on a Host until it is killed.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from agentic_kernel import Task
from agentic_kernel_engine import Host, Job
from agentic_kernel_postgres import PostgresStore

from .sqlite_worker import resume, say, work


class Endless:
    """A substrate whose runs never end."""

    async def execute(self, job: Job) -> Any:
        """Pass one safe point, and wait."""
        await job.checkpoint(1)
        await asyncio.Event().wait()


async def run(store: Any, name: str, hours: str) -> None:
    """Dispatch a Task of this name, say so, and run it; the clock is some hours off."""
    off = timedelta(hours=float(hours))
    async with Host(Endless(), store, claims=False, clock=lambda: datetime.now(UTC) + off) as host:
        task = Task.new(id=name, summary="", instructions="", runtime_kind="endless")
        await host.dispatch(task)
        say(host.name)
        await asyncio.Event().wait()


JOBS: dict[str, Any] = {"work": work, "resume": resume, "run": run}


async def main(place: str, schema: str, lease: str, job: str, *told: str) -> None:
    """Do the job on the store."""
    async with asyncio.timeout(120):  # should nobody be left who kills it
        async with PostgresStore(place, schema=schema, lease=float(lease)) as store:
            await JOBS[job](cast("Any", store), *told)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
