"""A server's rate limits hold the next request back, before it is refused."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import pytest

from agentic_kernel import Task
from agentic_kernel_engine.loop import NOTHING_USED
from agentic_kernel_openai import OpenAIRuntime
from integration.peers.exchange import Exchange
from integration.peers.faults import Fault
from integration.peers.faulty import FaultyServer

from .asking import PLANNERS, ask, planning, without_tools


def telling(reset: str) -> Fault:
    """Good answers that tell that no request is left."""
    told = {"limit": "1", "remaining": "0", "reset": reset}
    headers = [(f"x-ratelimit-{name}-requests", value.encode()) for name, value in told.items()]
    return Fault("tells", lambda exchange: _answer(exchange, headers))


def _answer(exchange: Exchange, headers: Any) -> None:
    exchange.answer(exchange.good(), 200, None, *headers)


SHORT: Final = "400ms"


@pytest.mark.parametrize("api", PLANNERS)
@pytest.mark.parametrize("stream", [True, False])
async def test_the_next_request_waits_until_the_server_takes_one(api: str, stream: bool) -> None:
    with FaultyServer(telling(SHORT)) as server:
        async with planning(api, server.url, stream=stream) as planner:
            await ask(planner, without_tools())
            begun = time.perf_counter()
            pieces, _ = await ask(planner, without_tools())
            assert time.perf_counter() - begun >= 0.35
    if stream:
        waited = [piece for piece in pieces if piece.usage == NOTHING_USED]
        assert waited
        assert pieces[len(waited)].usage == planner.worst_case(without_tools())


async def test_a_task_that_waits_for_a_limit_can_be_paused() -> None:
    with FaultyServer(telling("30s")) as server:
        given: Any = {"api_key": "key-1", "base_url": f"{server.url}/v1"}
        async with OpenAIRuntime("gpt-4o", **given) as runtime:
            await runtime.run("Hi")
            task = Task.new(summary="", instructions="Hi", runtime_kind="openai")
            await runtime.dispatch(task)
            await asyncio.sleep(0.3)
            await runtime.pause(task.id)
            begun = time.perf_counter()
            while (await runtime.get(task.id)).status != "paused":
                await asyncio.sleep(0.02)
                assert time.perf_counter() - begun < 5
            await runtime.kill(task.id)
        assert len(server.requests) == 1
