"""The server's streams: from an event to its readers, and from the death of a process to work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import postgres_server
from figure import Figure
from server_steps import SERVE_BARE, Wire, following, ids_of, process

EVENTS = 300
PAUSE = 0.013
"""Seconds between two events, so that they do not keep step with the looks of a process."""
LEASE = 3.0
"""The lease of the server processes on Postgres, in seconds."""
KILLS = 3
WORKER = ("-m", "integration.server_worker")


def measure() -> list[Figure]:
    """The figures, on the memory file system if there is one."""
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    async with AsyncExitStack() as stack:
        bare, _ = await stack.enter_async_context(process("-c", SERVE_BARE))
        url = stack.enter_context(postgres_server.server())
        folder = stack.enter_context(TemporaryDirectory(dir=postgres_server.FASTEST))
        limit = await _round_trips(bare)
        figures = []
        for what, place, far_bar in (
            ("Postgres", f"postgres:bench:{url}", 100.0),
            ("files", f"file:{Path(folder) / 'state'}", 300.0),
        ):
            words = (*WORKER, place, "30", "3600")
            async with process(*words) as (one, _), process(*words) as (two, _):
                near, far = await _lag(one, one), await _lag(one, two)
            for where, found, bar in (
                ("at the owner", near, 100.0),
                ("from another process", far, far_bar),
            ):
                figures.append(
                    Figure(
                        f"from an event to a stream {where}, on {what}, p99",
                        found * 1e3,
                        "ms",
                        limit * 1e3,
                        "a request to a bare ASGI application, p99",
                        bar,
                    )
                )
        after = max([await _killed(f"postgres:kill{n}:{url}") for n in range(KILLS)])
    return [
        *figures,
        Figure(
            f"from the SIGKILL of the owner to the next answered intent, worst of {KILLS}", after,
            "s", LEASE, "the lease", LEASE + 2.0,
        ),
    ]  # fmt: skip


def _p99(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99) - 1]


async def _round_trips(port: int) -> float:
    wire, times = await Wire.open(port), []
    for _ in range(EVENTS):
        began = time.perf_counter()
        await wire.post("/", {"n": 1})
        times.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE)
    return _p99(times)


async def _agent(port: int, name: str) -> tuple[AsyncIterator[tuple[str, Any]], Wire, Any]:
    """The stream of an agent with an execution, a connection for its intents, and its ids."""
    stream, wire = await Wire.open(port), await Wire.open(port)
    told = stream.stream(f"/v0/agents/stream?agent_id={name}&consumer_id=c")
    await wire.post("/v0/executions", {"agent_id": name, "input": 1})
    return told, wire, ids_of(await following(told, "execution.assigned"))


async def _lag(owner: int, reader: int) -> float:
    """Seconds from the answer to a step's result until a stream has its event."""
    _, wire, ids = await _agent(owner, "lag")
    seen: dict[str, float] = {}
    read = await Wire.open(reader)

    async def follow() -> None:
        async for kind, event in read.stream(f"/v0/executions/{ids['execution_id']}/stream"):
            if kind == "step.succeeded":
                seen[event["step_id"]] = time.perf_counter()

    reading = asyncio.ensure_future(follow())
    await asyncio.sleep(0.5)
    told: dict[str, float] = {}
    call = {"type": "invoke_tool", "tool_id": "add", "arguments": {}}
    for _ in range(EVENTS):
        answer = await wire.post("/v0/agents/intent", {**ids, "intent": call})
        result = {**ids, "step_id": answer["step_id"], "success": True, "data": 1}
        await wire.post("/v0/agents/step-result", result)
        told[answer["step_id"]] = time.perf_counter()
        await asyncio.sleep(PAUSE)
    while len(seen) < EVENTS:  # noqa: ASYNC110 (of another process)
        await asyncio.sleep(0.01)
    reading.cancel()
    await asyncio.wait({reading})
    await wire.post("/v0/agents/intent", {**ids, "intent": {"type": "complete"}})
    return _p99([max(0.0, seen[step] - told[step]) for step in told])


async def _killed(place: str) -> float:
    """Seconds from the death of the owner until another process has answered an intent."""
    words = (*WORKER, place, "30", "3600")
    async with process(*words) as (one, doomed), process(*words) as (two, _):
        _, _, ids = await _agent(one, "kill")
        doomed.kill()
        began = time.perf_counter()
        stream, wire = await Wire.open(two), await Wire.open(two)
        told = stream.stream("/v0/agents/stream?agent_id=kill&consumer_id=c")
        opened = asyncio.ensure_future(anext(told))
        call = {"type": "invoke_tool", "tool_id": "add", "arguments": {}}
        answer = await wire.post("/v0/agents/intent", {**ids, "intent": call})
        assert answer["accepted"], answer
        took = time.perf_counter() - began
        opened.cancel()
    return took
