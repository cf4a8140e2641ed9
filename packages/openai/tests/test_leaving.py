"""Leaving an answer in the middle: the connection is closed at once, and nothing is left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Event
from agentic_kernel_engine.events import RUN_DELTA
from agentic_kernel_engine.loop import FinalAnswer, PlannerError
from agentic_kernel_openai import OpenAIRuntime
from integration.peers.aimock import Aimock
from integration.peers.faulty import FaultyServer
from integration.peers.lapsing import LapsingServer

from .asking import KEY, PLANNERS, ask, failure, planning, without_tools

every_api = pytest.mark.parametrize("api", PLANNERS)

WELL = (FinalAnswer("All is well."),)


class Piece:
    """An observer that notices the first piece of an answer."""

    def __init__(self) -> None:
        self.seen = asyncio.Event()

    def observe(self, task_id: str, event: Event) -> None:
        if event.type == RUN_DELTA:
            self.seen.set()


def task() -> Task:
    return Task.new(summary="", instructions="Hi", runtime_kind="openai")


@every_api
async def test_a_kill_closes_the_connection_and_keeps_what_was_said(api: Any) -> None:
    piece = Piece()
    asked = task()
    with FaultyServer("stall") as peer:
        async with OpenAIRuntime(
            "gpt-4o",
            api=api,
            api_key=KEY,
            base_url=f"{peer.url}/v1",
            observer=piece,
        ) as runtime:
            await runtime.dispatch(asked)
            await asyncio.wait_for(piece.seen.wait(), 10)
            await asyncio.to_thread(peer.wait_held)
            await runtime.kill(asked.id)
            await asyncio.to_thread(peer.wait_closed)
            killed = await runtime.get(asked.id)
    assert killed.status == "cancelled"
    assert "All is well.".startswith(killed.metadata["openai/partial_output"])
    assert len(peer.requests) == 1


@every_api
async def test_a_kill_before_the_answer_closes_the_connection(api: Any) -> None:
    asked = task()
    with FaultyServer("hang") as peer:
        async with OpenAIRuntime(
            "gpt-4o",
            api=api,
            api_key=KEY,
            base_url=f"{peer.url}/v1",
        ) as runtime:
            await runtime.dispatch(asked)
            await asyncio.to_thread(peer.wait_held)
            await runtime.kill(asked.id)
            await asyncio.to_thread(peer.wait_closed)
            assert (await runtime.get(asked.id)).status == "cancelled"


@every_api
async def test_a_pause_takes_effect_at_the_next_piece_and_another_answer_follows(
    aimock: Aimock, api: Any
) -> None:
    piece = Piece()
    asked = task()
    aimock.load(
        [
            {
                "match": {"sequenceIndex": 0},
                "response": {"content": "and so on " * 1_000},
                "latency": 10,
                "chunkSize": 2,
            },
            {"match": {}, "response": {"content": "Another."}},
        ]
    )
    async with OpenAIRuntime(
        "gpt-4o",
        api=api,
        api_key=KEY,
        base_url=f"{aimock.url}/v1",
        observer=piece,
    ) as runtime:
        await runtime.dispatch(asked)
        await asyncio.wait_for(piece.seen.wait(), 10)
        await runtime.pause(asked.id)
        await asyncio.wait_for(runtime.wait(asked.id, TaskStatus.PAUSED), 10)
        await runtime.resume(asked.id, "Shorter, please.")
        done = await asyncio.wait_for(runtime.wait(asked.id), 10)
    assert done.result == "Another."
    last = aimock.requests()[1].body["messages"][-1]
    assert "Shorter, please." in str(last["content"])


@every_api
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_a_request_that_the_server_has_read_is_not_sent_again(api: str, stream: bool) -> None:
    """It may be a whole generation, and only the Loop reserves the cost of another."""
    with LapsingServer() as server:
        async with planning(api, server.url, stream=stream) as planner:
            assert (await ask(planner, without_tools()))[1].actions == WELL
            error = await failure(planner, without_tools())
            assert (error.code, error.usage) == ("openai/connection", None)
            assert (await ask(planner, without_tools()))[1].actions == WELL
    assert (server.accepted, len(server.requests)) == (2, 3)


@every_api
async def test_a_connection_that_llama_cpp_would_close_is_not_used_again(api: str) -> None:
    """Its server closes each connection after a stream, and says that it keeps it."""
    with LapsingServer(name="llama.cpp") as server:
        async with planning(api, server.url) as planner:
            for _ in range(3):
                assert (await ask(planner, without_tools()))[1].actions == WELL
    assert (server.accepted, len(server.requests)) == (3, 3)


@every_api
async def test_a_request_on_a_new_connection_is_sent_once(api: str) -> None:
    with LapsingServer(answers=0) as server:
        async with planning(api, server.url) as planner:
            with pytest.raises(PlannerError) as caught:
                async for _ in planner.plan(without_tools()):
                    pass
        assert caught.value.code == "openai/connection"
    assert (server.accepted, len(server.requests)) == (1, 1)


@every_api
async def test_one_connection_serves_answer_after_answer(aimock: Aimock, api: str) -> None:
    aimock.load([{"match": {}, "response": {"content": "Three."}}])
    before = aimock.connections()
    async with planning(api, aimock.url) as planner:
        for _ in range(5):
            async for _piece in planner.plan(without_tools()):
                pass
            assert aimock.connections() == before + 1
