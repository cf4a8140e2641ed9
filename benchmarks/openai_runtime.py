"""OpenAI: what a turn, a kill and very many Tasks cost beside the vendor's SDK alone."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import time
from pathlib import Path
from typing import Any

from figure import Figure
from imports import imported
from interrupted import Pieces, slowest

sys.path.insert(0, str(Path(__file__).parents[1]))

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Limits, tool
from agentic_kernel_openai import OpenAIRuntime
from integration.peers.aimock import Aimock

TURNS = 60
ROUNDS = 3
KILLS = 100
TASKS = 200
GAP = 5
"""Milliseconds between two pieces of a long answer."""
KEY = "sk-none"
SCRIPT: list[dict[str, Any]] = [
    {
        "match": {"systemMessage": "turns"},
        "response": {"toolCalls": [{"name": "add", "arguments": '{"a": 1, "b": 2}'}]},
    },
    {
        "match": {"systemMessage": "long"},
        "response": {"content": "and so on " * 10_000},
        "latency": GAP,
        "chunkSize": 4,
    },
    {
        "match": {},
        "response": {"content": "and so on " * 20},
        "latency": 20,
        "chunkSize": 20,
    },
]


def measure() -> list[Figure]:
    """The figures of the OpenAI runtime."""
    with Aimock(SCRIPT) as peer:
        url = f"{peer.url}/v1"
        turn = _turn(url)
        kills = asyncio.run(_kills(peer, url))
        pauses = asyncio.run(_pauses(url))
        return [
            turn,
            *kills,
            pauses,
            asyncio.run(_side_by_side(url)),
            imported("openai, openai.resources.responses", "agentic_kernel_openai"),
        ]


@tool(effect="none", inline=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def _runtime(url: str, **options: Any) -> OpenAIRuntime:
    return OpenAIRuntime("gpt-4o", api_key=KEY, base_url=url, **options)


def _task(instructions: str = "Go on.") -> Task:
    return Task.new(summary="", instructions=instructions, runtime_kind="openai")


class Turns:
    """An observer that notes when each turn ended, and what the model was asked."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def observe(self, task_id: str, event: Any) -> None:
        if event.type == "step.observed":
            self.at.append(time.perf_counter())


async def _ours(url: str) -> float:
    turns = Turns()
    limits = Limits(max_iterations=TURNS, max_repeats=TURNS + 1, max_non_progress=TURNS + 1)
    options: dict[str, Any] = {"system": "turns", "limits": limits, "observer": turns}
    async with _runtime(url, tools=[add], **options) as runtime:
        await runtime.run(_task())
    assert len(turns.at) == TURNS
    return (turns.at[-1] - turns.at[0]) / (TURNS - 1)


async def _bare(url: str) -> float:
    """The same conversation by the SDK alone, on the same kind of client."""
    import httpx2
    from openai import AsyncOpenAI

    from agentic_kernel_engine.providers import http_client

    http = http_client(httpx2, 120)
    client = AsyncOpenAI(api_key=KEY, base_url=url, max_retries=0, http_client=http)
    tools: Any = [
        {
            "type": "function",
            "name": "add",
            "description": "Add two numbers.",
            "parameters": dict(add.input_schema),
            "strict": False,
        }
    ]
    said: list[Any] = [{"role": "user", "content": "Go on."}]
    began = 0.0
    call: Any = None
    for number in range(TURNS):
        stream = await client.responses.create(
            model="gpt-4o", instructions="turns", input=said, tools=tools, stream=True,
            max_output_tokens=4096, store=False, tool_choice="auto", parallel_tool_calls=True,
        )  # fmt: skip
        async for event in stream:
            if event.type == "response.completed":
                call = event.response.output[0]
        said.append(
            {
                "type": "function_call",
                "call_id": call.call_id,
                "name": call.name,
                "arguments": call.arguments,
            }
        )
        said.append({"type": "function_call_output", "call_id": call.call_id, "output": "3"})
        if number == 0:
            began = time.perf_counter()
    took = (time.perf_counter() - began) / (TURNS - 1)
    await client.close()
    return took


def _turn(url: str) -> Figure:
    ours = bare = math.inf
    for _ in range(ROUNDS):
        ours = min(ours, asyncio.run(_ours(url)))
        bare = min(bare, asyncio.run(_bare(url)))
    return Figure(
        name=f"one tool turn over Responses, {TURNS} in a conversation",
        ours=ours * 1e3, unit="ms", limit=bare * 1e3, bar=bare * 1e3 + 0.5,
        limit_is="the SDK's call on the same server, and the bar 0.5 ms above it",
    )  # fmt: skip


async def _kills(peer: Aimock, url: str) -> list[Figure]:
    pieces = Pieces()
    ended: list[float] = []
    closed: list[float] = []
    async with _runtime(url, system="long", observer=pieces) as runtime:
        for _ in range(KILLS):
            task = _task()
            await pieces.begun(runtime, task)
            began = time.perf_counter()
            await runtime.kill(task.id)
            await runtime.wait(task.id)
            ended.append(time.perf_counter() - began)
            while peer.connections():
                await asyncio.sleep(0.001)
                assert time.perf_counter() - began < 10
            closed.append(time.perf_counter() - began)
    return [
        slowest("from the kill of a Task in the middle of an answer to terminal, p99", ended, 20),
        slowest("and until its connection is closed, p99", closed, 100),
    ]


async def _pauses(url: str) -> Figure:
    pieces = Pieces()
    paused: list[float] = []
    async with _runtime(url, system="long", observer=pieces) as runtime:
        for _ in range(KILLS):
            task = _task()
            await pieces.begun(runtime, task)
            began = time.perf_counter()
            await runtime.pause(task.id)
            await runtime.wait(task.id, TaskStatus.PAUSED)
            paused.append(time.perf_counter() - began)
            await runtime.kill(task.id)
    return slowest(
        f"from the pause of such a Task to paused, p99; a piece comes every {GAP} ms",
        paused, GAP + 50, "the fastest of them, and the bar 50 ms behind the next piece",
    )  # fmt: skip


async def _side_by_side(url: str) -> Figure:
    """Seconds, and that no Task had a thread of its own."""
    import httpx2
    from openai import AsyncOpenAI

    from agentic_kernel_engine.providers import http_client

    async with _runtime(url) as runtime:
        await runtime.run(_task())
        before = threading.active_count()
        began = time.perf_counter()
        runs = [asyncio.create_task(runtime.run(_task())) for _ in range(TASKS)]
        most = 0
        while not all(run.done() for run in runs):
            most = max(most, threading.active_count())
            await asyncio.sleep(0.01)
        ours = time.perf_counter() - began
        assert all(run.result().status == "success" for run in runs)
        assert most == before, f"{most - before} threads more"
    http = http_client(httpx2, 120)
    client = AsyncOpenAI(api_key=KEY, base_url=url, max_retries=0, http_client=http)

    async def call() -> None:
        stream = await client.responses.create(model="gpt-4o", input="Go on.", stream=True)
        async for _ in stream:
            pass

    await call()
    began = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(TASKS)))
    bare = time.perf_counter() - began
    await client.close()
    return Figure(
        name=f"{TASKS} Tasks at once on one pool of connections, without a thread each",
        ours=ours, unit="s", limit=bare, bar=bare * 2,
        limit_is="as many calls of the SDK at once, and the bar twice that",
    )  # fmt: skip
