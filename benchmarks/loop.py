"""The Loop: one tool turn with a model that answers at once, and very many runs side by side."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from typing import Any

from figure import Figure

from agentic_kernel import Task
from agentic_kernel_engine import Host, Limits, Loop, tool
from agentic_kernel_engine.loop import Context, FinalAnswer, ToolCall

TURNS = 2_000
ROUNDS = 30
RUNS = 10_000
TIMES = 10
"""How often all of them are run, in a process of their own each time; the quickest counts, for
whatever else goes on in the machine only ever adds."""
LATENCY = 0.05
"""Seconds that each model call takes where very many runs wait for theirs."""


def measure() -> list[Figure]:
    """The figures of the Loop."""
    turn, growth = _turn()
    return [turn, growth, *_side_by_side()]


@tool(effect="none")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Turning:
    """A planner that calls the tool again and again, and notes when a turn began."""

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.began: list[float] = []

    async def plan(self, context: Context) -> Any:
        self.began.append(time.perf_counter())
        if context.step == self.turns:
            return FinalAnswer(None)
        return ToolCall("add", {"a": context.step, "b": 1})


async def _turns() -> list[float]:
    """When each turn began."""
    planner = Turning(TURNS)
    limits = Limits(max_iterations=TURNS + 1)
    async with Host(Loop(planner, [add], limits=limits)) as host:
        done = await host.run(Task.new(summary="", instructions="", runtime_kind="bench"))
        assert done.status == "success", done.failure
    return planner.began


async def _bare_turns() -> float:
    """The same without any of it: the call, its arguments and its result as JSON."""
    planner = Turning(TURNS)
    log: list[str] = []
    began = time.perf_counter()
    for n in range(TURNS):
        call = ToolCall("add", {"a": n, "b": 1})
        result = await add.handler(**call.arguments)
        log.append(json.dumps({"tool": call.tool, "arguments": call.arguments, "output": result}))
    assert planner.turns == len(log)
    return (time.perf_counter() - began) / TURNS


def _turn() -> tuple[Figure, Figure]:
    ours = limit = early = late = float("inf")
    for _ in range(ROUNDS):
        began = asyncio.run(_turns())
        ours = min(ours, (began[-1] - began[0]) / TURNS)
        early = min(early, began[110] - began[10])
        late = min(late, began[1_100] - began[1_000])
        limit = min(limit, asyncio.run(_bare_turns()))
    return Figure(
        name="Loop, one tool turn on MemoryStore, a planner that answers at once",
        ours=ours * 1e6, unit="µs", limit=limit * 1e6, bar=25,
        limit_is="the bare call, and its arguments and result as JSON",
    ), Figure(
        name="turns 1,000–1,100 against turns 10–110",
        ours=late / early, unit="×", limit=1, limit_is="the same", bar=1.1,
    )  # fmt: skip


def _side_by_side() -> list[Figure]:
    ours, limit = (min(_said(each) for _ in range(TIMES)) for each in (THROUGH, BARE_THROUGH))
    held, bare = _said(WAITING), _said(BARE_WAITING)
    return [
        Figure(
            name=f"{RUNS:,} runs at once of two model calls of {LATENCY * 1000:g} ms",
            ours=ours, unit="s", limit=limit, bar=1.5,
            limit_is="bare asyncio tasks that sleep twice",
        ),
        Figure(
            name="resident memory of each of them while it waits",
            ours=held, unit="KiB", limit=bare, bar=8,
            limit_is="a bare asyncio task that sleeps",
        ),
    ]  # fmt: skip


def _said(program: str) -> float:
    """The number that a program says: in a process of its own, which has nothing left over."""
    command = [sys.executable, "-c", _SETUP + program]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(said.stdout)


_SETUP = f"""
import asyncio, gc, time
from agentic_kernel import Task
from agentic_kernel_engine import Host, Loop
from agentic_kernel_engine.loop import FinalAnswer, Thought

RUNS, LATENCY = {RUNS}, {LATENCY}

def resident():
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4

class Model:
    def __init__(self, latency):
        self.latency = latency
    async def plan(self, context):
        await asyncio.sleep(self.latency)
        return Thought("hm") if context.step == 0 else FinalAnswer("done")

def task():
    return Task.new(summary="s", instructions="do", runtime_kind="bench")
"""

THROUGH = """
async def main():
    async with Host(Loop(Model(LATENCY))) as host:
        await host.run(task())
        began = time.perf_counter()
        done = await asyncio.gather(*(host.run(task()) for _ in range(RUNS)))
        assert all(each.status == "success" for each in done)
        return time.perf_counter() - began

print(asyncio.run(main()))
"""

WAITING = """
async def main():
    async with Host(Loop(Model(3600)), grace=0) as host:
        await host.dispatch(task())
        before = resident()
        for n in range(RUNS):
            await host.dispatch(task())
        await asyncio.sleep(2)
        return (resident() - before) / RUNS

print(asyncio.run(main()))
"""

BARE_THROUGH = """
async def call():
    await asyncio.sleep(LATENCY)
    await asyncio.sleep(LATENCY)

async def main():
    began = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(RUNS)))
    return time.perf_counter() - began

print(asyncio.run(main()))
"""

BARE_WAITING = """
async def main():
    before = resident()
    held = [asyncio.create_task(asyncio.sleep(3600)) for _ in range(RUNS)]
    await asyncio.sleep(0.5)
    kib = (resident() - before) / RUNS
    for each in held:
        each.cancel()
    return kib

print(asyncio.run(main()))
"""
