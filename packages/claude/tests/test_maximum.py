"""The API requires a limit of each answer: without one of ours, it is the model's maximum."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import AsyncAnthropic

from agentic_kernel_claude import ClaudePlanner
from agentic_kernel_conformance.planner_answers import ask
from agentic_kernel_conformance.planner_contexts import QUESTION, context
from agentic_kernel_engine.loop import Remaining
from integration.peers.llama import LlamaServer
from integration.peers.paged import PagedServer

PAGE = "/v1/models/m"
INFO = {"type": "model", "id": "m", "display_name": "M", "max_tokens": 64_000}


async def limits(server: PagedServer, *steps: Any, **options: Any) -> list[int]:
    """The limits of the answers to questions with these rests of limits."""
    planner = ClaudePlanner("m", api_key="none", base_url=server.url, **options)
    for left in steps:
        await ask(planner, context(QUESTION, [], remaining=Remaining(9, **left)))
    await planner.close()
    return [request.json["max_tokens"] for request in server.requests]


async def test_the_server_is_asked_once() -> None:
    with PagedServer({PAGE: INFO}) as server:
        assert await limits(server, {}, {}) == [64_000, 64_000]
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("left", "options", "most"),
    [
        ({}, {"max_tokens": 100}, 100),
        ({"output_tokens": 9_000}, {}, 4096),
        ({"output_tokens": 50}, {}, 50),
        ({"cost": 1.0}, {"prices": None}, 4096),
        ({"total_tokens": 10_000, "output_tokens": 10_000}, {}, 4096),
    ],
)
async def test_it_is_not_asked_if_something_else_limits_the_answer(
    left: dict[str, Any], options: dict[str, Any], most: int
) -> None:
    with PagedServer({PAGE: INFO}) as server:
        assert await limits(server, left, **options) == [most]
        assert not server.asked


@pytest.mark.parametrize("page", [404, 500, {}, {**INFO, "max_tokens": "many"}, []], ids=str)
async def test_a_server_that_does_not_tell_gets_4096(page: Any) -> None:
    with PagedServer({PAGE: page}) as server:
        assert await limits(server, {}, {}) == [4096, 4096]
        assert len(server.asked) == 1


async def test_a_budget_of_thinking_fits_below_it() -> None:
    thinking = {"type": "enabled", "budget_tokens": 5_000}
    with PagedServer({PAGE: 404}) as server:
        assert await limits(server, {}, thinking=thinking) == [5_001]


async def test_a_long_answer_may_come_in_one_piece_also_with_the_users_client() -> None:
    with PagedServer({PAGE: INFO}) as server:
        async with AsyncAnthropic(api_key="none", base_url=server.url) as client:
            planner = ClaudePlanner("m", client=client, stream=False)
            assert (await ask(planner, context(QUESTION, []))).text == "All is well."
        assert server.requests[0].json["max_tokens"] == 64_000


@pytest.mark.torture
async def test_a_real_server_without_a_maximum(llama: LlamaServer) -> None:
    planner = ClaudePlanner(llama.model, api_key=llama.api_key, base_url=llama.url, stop=".")
    assert (await ask(planner, context("Say hello.", []))).text
    await planner.close()
