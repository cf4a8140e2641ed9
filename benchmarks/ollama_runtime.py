"""OllamaRuntime: a turn over the bare SDK call, a kill, many Tasks at once, the import.

The server is aimock, in a process of its own; for the kills it is one of ours, which stalls. This
module has not the name of the vendor's package, which it would hide.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from figure import Figure
from imports import imported
from interrupted import Pieces, slowest
from ollama import AsyncClient

from agentic_kernel import Task
from agentic_kernel_engine import Limits, tool
from agentic_kernel_engine.providers import http_options
from agentic_kernel_ollama import OllamaRuntime

sys.path.append(str(Path(__file__).parents[1]))
from integration.peers.aimock import Aimock
from integration.peers.faulty import FaultyServer

TURNS = 20
"""Calls of the tool in one Task."""
ROUNDS = 25
KILLS = 100
TASKS = 200
LATENCY = 0.05
"""Seconds before each of the two pieces of an answer where many Tasks wait for theirs."""
MODEL = "qwen3:8b"
CALL = {"name": "count", "arguments": {}}
STEPS = [
    {"match": {"turnIndex": 0}, "response": {"toolCalls": [CALL]}},
    {"match": {"turnIndex": TURNS}, "response": {"content": "Yes."}},
]
"""The first answer holds until the second one's turn comes."""
TOOL = {
    "type": "function",
    "function": {
        "name": "count", "description": "Count.", "parameters": {"type": "object", "properties": {}}
    },
}  # fmt: skip
COUNTED = itertools.count()
LIMITS = Limits(max_non_progress=1_000, max_repeats=1_000)
SLOW = [{"match": {}, "response": {"content": "Yes."}, "latency": int(LATENCY * 1000)}]


def measure() -> list[Figure]:
    """The figures of the Ollama runtime."""
    with Aimock(STEPS) as peer:
        turn = asyncio.run(_turn(peer))
        peer.load(SLOW)
        together = asyncio.run(_together(peer))
    with FaultyServer("stall") as server:
        ended, closed = asyncio.run(_kills(server))
    return [
        turn,
        slowest(f"kill to terminal, p99 of {KILLS}", ended, 20),
        slowest(f"kill to closed connection, p99 of {KILLS}", closed, 100),
        together,
        imported("ollama", "agentic_kernel_ollama"),
    ]  # fmt: skip


def _task() -> Task:
    return Task.new(summary="", instructions="Hi", runtime_kind="ollama")


async def _bare(client: Any, turns: int) -> None:
    """The same conversation without any of ours."""
    messages: list[Any] = [{"role": "user", "content": "Hi"}]
    said: list[str] = []
    for turn in range(turns + 1):
        parts = await client.chat(
            model=MODEL,
            messages=messages,
            tools=[TOOL] if turns else [],
            options={"num_predict": 4096},
            stream=True,
        )
        calls: list[Any] = []
        said.clear()
        async for part in parts:
            said.append(part.message.content or "")
            calls += part.message.tool_calls or ()
        if turn < turns:
            messages.append({"role": "assistant", "tool_calls": calls})
            messages.append({"role": "tool", "tool_name": "count", "content": str(turn)})
    assert "".join(said) == "Yes."


@tool(effect="none", inline=True)
def count() -> int:
    """Count."""
    return next(COUNTED)


@asynccontextmanager
async def _client(peer: Aimock) -> AsyncIterator[Any]:
    client: Any = AsyncClient(peer.url, **http_options(httpx, 120.0))
    yield client
    await client.close()


async def _turn(peer: Aimock) -> Figure:
    """In turns, so that a busy moment falls on both."""
    ours, bare = [], []
    async with (
        _client(peer) as client,
        OllamaRuntime(MODEL, host=peer.url, tools=[count], limits=LIMITS) as runtime,
    ):
        for _ in range(ROUNDS):
            began = time.perf_counter()
            await _bare(client, TURNS)
            between = time.perf_counter()
            done = await runtime.run(_task())
            ended = time.perf_counter()
            assert done.result == "Yes.", done.failure
            bare.append((between - began) / (TURNS + 1))
            ours.append((ended - between) / (TURNS + 1))
    over = statistics.median(ours) - statistics.median(bare)
    return Figure(
        name=f"one of {TURNS} tool turns, over the bare SDK calls, median",
        ours=over * 1000, unit="ms", limit=statistics.median(bare) * 1000,
        limit_is="the bare SDK call itself", bar=0.5,
    )  # fmt: skip


async def _kills(server: FaultyServer) -> tuple[list[float], list[float]]:
    """Seconds from a kill to the terminal Task, and to the closed connection."""
    ended, closed = [], []
    for _ in range(KILLS):
        pieces = Pieces()
        async with OllamaRuntime(MODEL, host=server.url, observer=pieces) as runtime:
            task = _task()
            await pieces.begun(runtime, task)
            began = time.perf_counter()
            await runtime.kill(task.id)
            assert (await runtime.get(task.id)).status.terminal
            ended.append(time.perf_counter() - began)
            await asyncio.to_thread(server.wait_closed)
            closed.append(server.closed_at[-1] - began)
    return ended, closed


async def _together(peer: Aimock) -> Figure:
    async with _client(peer) as client, OllamaRuntime(MODEL, host=peer.url) as runtime:
        await runtime.run(_task())
        await _bare(client, 0)
        began = time.perf_counter()
        await asyncio.gather(*(_bare(client, 0) for _ in range(TASKS)))
        limit = time.perf_counter() - began
        began = time.perf_counter()
        done = await asyncio.gather(*(runtime.run(_task()) for _ in range(TASKS)))
        ours = time.perf_counter() - began
    assert all(each.result == "Yes." for each in done)
    return Figure(
        name=f"{TASKS} Tasks at once on one pool",
        ours=ours, unit="s", limit=limit, limit_is="as many bare SDK calls at once",
        bar=limit * 1.5,
    )  # fmt: skip
