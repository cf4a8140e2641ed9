"""ClaudeRuntime beside the bare SDK on the same server: what a turn, a kill and an import add."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from figure import Figure
from imports import imported
from interrupted import Pieces, p99

from agentic_kernel import Task
from agentic_kernel_claude import ClaudePlanner, ClaudeRuntime
from agentic_kernel_conformance.planner_answers import ask
from agentic_kernel_conformance.planner_contexts import QUESTION, context

sys.path.insert(0, str(Path(__file__).parents[1]))

from integration.peers.aimock import Aimock
from integration.peers.faulty import FaultyServer

MODEL = "claude-opus-5-5"
TURNS = 400
KILLS = 100
ANSWER = {"match": {}, "response": {"content": "It is 42, as far as anybody knows."}}


def measure() -> list[Figure]:
    """The figures of Claude's sibling."""
    with Aimock([ANSWER]) as peer:
        turn = asyncio.run(_turns(peer.url))
    return [turn, *asyncio.run(_kills()), imported("anthropic", "agentic_kernel_claude")]


def _task() -> Task:
    return Task.new(summary="", instructions=QUESTION, runtime_kind="claude")


async def _turns(url: str) -> Figure:
    """One model turn of a planner, and the same call of the bare SDK, by turns."""
    from anthropic import AsyncAnthropic

    planner = ClaudePlanner(MODEL, api_key="none", base_url=url)
    seen = context(QUESTION, ())
    ours: list[float] = []
    bare: list[float] = []
    async with AsyncAnthropic(api_key="none", base_url=url, max_retries=0) as client:
        for _ in range(TURNS):
            began = time.perf_counter()
            await ask(planner, seen)
            ours.append(time.perf_counter() - began)
            began = time.perf_counter()
            await _bare(client)
            bare.append(time.perf_counter() - began)
    await planner.close()
    median, limit = statistics.median(ours), statistics.median(bare)
    return Figure(
        name="what ClaudePlanner adds to the bare SDK's streamed call at each turn (median)",
        ours=(median - limit) * 1e3, unit="ms", limit=limit * 1e3, bar=0.5,
        limit_is="that call, to the same server",
    )  # fmt: skip


async def _bare(client: Any) -> str:
    said = []
    messages: Any = [{"role": "user", "content": QUESTION}]
    async with await client.messages.create(
        model=MODEL, max_tokens=4096, messages=messages, stream=True
    ) as stream:
        async for event in stream:
            if event.type == "content_block_delta":
                said.append(event.delta.text)
    return "".join(said)


async def _kills() -> list[Figure]:
    """Kills in the middle of an answer: until the Task is over, and until its connection is."""
    ended: list[float] = []
    closed: list[float] = []
    with FaultyServer("stall") as server:
        for _ in range(KILLS):
            task, pieces = _task(), Pieces()
            url = server.url
            async with ClaudeRuntime(
                MODEL, api_key="none", base_url=url, observer=pieces
            ) as runtime:
                await pieces.begun(runtime, task)
                began = time.perf_counter()
                await runtime.kill(task.id)
                ended.append(time.perf_counter() - began)
                await asyncio.to_thread(server.wait_closed)
                closed.append(server.closed_at[-1] - began)
    return [
        Figure(
            name=f"a kill in the middle of an answer, until {what} (p99 of {KILLS})",
            ours=p99(times) * 1e3, unit="ms", limit=statistics.median(times) * 1e3, bar=bar,
            limit_is="the median of the same",
        )
        for what, times, bar in (
            ("the Task is over", ended, 20), ("its connection is closed", closed, 100),
        )
    ]  # fmt: skip


if __name__ == "__main__":
    ArgumentParser(description=__doc__).parse_args()
    for figure in measure():
        print(figure.record())
