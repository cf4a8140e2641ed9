"""GeminiRuntime: a turn over the bare SDK call, a kill, many Tasks at once, the import.

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

import httpx2
from figure import Figure
from google import genai
from imports import imported
from interrupted import Pieces, slowest

from agentic_kernel import Task
from agentic_kernel_engine import Limits, tool
from agentic_kernel_engine.providers import http_client
from agentic_kernel_gemini import GeminiRuntime

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
KEY = "none"
MODEL = "gemini-3.8-flash"
CALL = {"name": "count", "arguments": {}}
STEPS = [
    {"match": {"turnIndex": 0}, "response": {"toolCalls": [CALL]}},
    {"match": {"turnIndex": TURNS}, "response": {"content": "Yes."}},
]
"""The first answer holds until the second one's turn comes."""
TOOL = {
    "function_declarations": [
        {
            "name": "count",
            "description": "Count.",
            "parameters_json_schema": {"type": "object", "properties": {}},
        }
    ]
}
COUNTED = itertools.count()
LIMITS = Limits(max_non_progress=1_000, max_repeats=1_000)
SLOW = [{"match": {}, "response": {"content": "Yes."}, "latency": int(LATENCY * 1000)}]


def measure() -> list[Figure]:
    """The figures of the Gemini runtime."""
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
        imported("google.genai", "agentic_kernel_gemini"),
    ]  # fmt: skip


def _at(peer: Aimock) -> Any:
    return {"api_key": KEY, "base_url": f"{peer.url}/v1beta"}


def _task() -> Task:
    return Task.new(summary="", instructions="Hi", runtime_kind="gemini")


async def _bare(client: Any, turns: int) -> None:
    """The same conversation without any of ours."""
    contents: list[Any] = [{"role": "user", "parts": [{"text": "Hi"}]}]
    said: list[str] = []
    config: Any = {
        "tools": [TOOL],
        "max_output_tokens": 4096,
        "automatic_function_calling": {"disable": True},
    }
    for turn in range(turns + 1):
        events = await client.aio.models.generate_content_stream(
            model=MODEL, contents=contents, config=config
        )
        parts: list[Any] = []
        said.clear()
        async for event in events:
            for part in event.candidates[0].content.parts:
                parts.append(part)
                said.append(part.text or "")
        if turn < turns:
            contents.append({"role": "model", "parts": parts})
            result = {"name": "count", "response": {"output": str(turn)}}
            contents.append({"role": "user", "parts": [{"function_response": result}]})
    assert "".join(said) == "Yes."


@tool(effect="none", inline=True)
def count() -> int:
    """Count."""
    return next(COUNTED)


@asynccontextmanager
async def _client(peer: Aimock) -> AsyncIterator[Any]:
    http: Any = http_client(httpx2, 120.0)
    options: Any = {"base_url": peer.url, "api_version": "v1beta", "httpx_async_client": http}
    yield genai.Client(api_key=KEY, http_options=options)
    await http.aclose()


async def _turn(peer: Aimock) -> Figure:
    """In turns, so that a busy moment falls on both."""
    ours, bare = [], []
    async with (
        _client(peer) as client,
        GeminiRuntime(MODEL, **_at(peer), tools=[count], limits=LIMITS) as runtime,
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
        async with GeminiRuntime(
            MODEL, api_key=KEY, base_url=server.url, observer=pieces
        ) as runtime:
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
    async with _client(peer) as client, GeminiRuntime(MODEL, **_at(peer)) as runtime:
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
