"""The Host: one checkpointed step, and what a waiting Task costs in memory."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from typing import Any

from figure import Figure

from agentic_kernel import Task
from agentic_kernel_engine import Host, Job

STEPS = 5_000
ROUNDS = 7
WAITING = 10_000


def measure() -> list[Figure]:
    """Both figures of the Host."""
    return [_step(), _waiting()]


class Stepping:
    """A substrate that only checkpoints."""

    async def execute(self, job: Job) -> Any:
        for n in range(STEPS):
            await job.checkpoint({"n": n, "cursor": [n, 0]})
        return "done"


def _step() -> Figure:
    best = {"ours": float("inf"), "limit": float("inf")}
    for _ in range(ROUNDS):
        best["ours"] = min(best["ours"], asyncio.run(_steps()))
        best["limit"] = min(best["limit"], _bare_steps())
    return Figure(
        name="Host, one checkpointed step on MemoryStore",
        ours=best["ours"] * 1e6,
        unit="µs",
        limit=best["limit"] * 1e6,
        limit_is="json.dumps of the state and a checked write into a dict",
        bar=20,
    )


async def _steps() -> float:
    async with Host(Stepping()) as host:
        started = time.perf_counter()
        await host.run(Task.new(summary="", instructions="", runtime_kind="bench"))
        return (time.perf_counter() - started) / STEPS


def _bare_steps() -> float:
    stored: dict[str, tuple[int, str]] = {"task": (0, "")}
    started = time.perf_counter()
    for n in range(STEPS):
        text = json.dumps({"n": n, "cursor": [n, 0]})
        version = stored["task"][0]
        if version == n:
            stored["task"] = (version + 1, text)
    return (time.perf_counter() - started) / STEPS


def _waiting() -> Figure:
    ours, limit = (_resident(program) for program in (WAITING_TASKS, BARE_TASKS))
    return Figure(
        name=f"resident memory of each of {WAITING:,} Tasks that wait in one process",
        ours=ours / 1024,
        unit="KiB",
        limit=limit / 1024,
        limit_is="a bare asyncio task that sleeps",
        bar=8,
    )


def _resident(program: str) -> float:
    """What one of the program's waiting things keeps resident, in bytes."""
    said = subprocess.run(
        [sys.executable, "-c", _SETUP + program + _REPORT],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return float(json.loads(said.stdout)) / WAITING


_SETUP = f"""
import asyncio, gc
from agentic_kernel import Task
from agentic_kernel_engine import Host

WAITING = {WAITING}

def resident():
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096

class Sleeping:
    async def execute(self, job):
        await asyncio.sleep(3600)
"""

WAITING_TASKS = """
async def main():
    async with Host(Sleeping(), grace=0) as host:
        await host.dispatch(Task.new(summary="", instructions="warm", runtime_kind="bench"))
        before = resident()
        for n in range(WAITING):
            await host.dispatch(Task.new(summary="s", instructions="do", runtime_kind="bench"))
        await asyncio.sleep(0.5)
        print(resident() - before)
"""

BARE_TASKS = """
async def main():
    before = resident()
    held = [asyncio.create_task(asyncio.sleep(3600)) for _ in range(WAITING)]
    await asyncio.sleep(0.5)
    print(resident() - before)
    for task in held:
        task.cancel()
"""

_REPORT = """
asyncio.run(main())
"""
