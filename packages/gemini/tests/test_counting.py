"""The server counts a prompt if the bound of its bytes would pass a limit."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel_conformance.planner_contexts import QUESTION, context, tools
from agentic_kernel_engine import Limits
from agentic_kernel_gemini import GeminiPlanner, GeminiRuntime
from integration.peers.paged import PagedServer

PAGE = "/v1/models/m:countTokens"
KEY = "AIza-0123456789"


async def test_a_hi_under_a_small_limit_is_counted_and_sent() -> None:
    with PagedServer({PAGE: {"totalTokens": 53}}) as server:
        limits = Limits(max_total_tokens=500)
        async with GeminiRuntime("m", api_key=KEY, base_url=server.url, limits=limits) as runtime:
            assert (await runtime.run("hi")).unwrap() == "All is well."
        assert len(server.asked) == 1
        sent = server.requests[0].json["generationConfig"]
    assert sent == {"maxOutputTokens": 500 - 53 - 16}


async def test_the_count_has_the_instructions_the_functions_and_the_schema_as_a_text() -> None:
    with PagedServer({PAGE: {"totalTokens": 1_000}}) as server:
        planner = GeminiPlanner("m", api_key=KEY, base_url=server.url, system="Be brief.")
        schema = {"type": "object", "title": "The answer"}
        assert await planner.count(context(QUESTION, tools()[:1], output_schema=schema)) == 1_050
        await planner.close()
        [request] = server.asked
    assert request.json.keys() == {"contents"}
    question, beside = request.json["contents"]
    assert question["parts"] == [{"text": QUESTION}]
    for part in ("Be brief.", "Add two numbers.", "The answer"):
        assert part in beside["parts"][0]["text"]


@pytest.mark.parametrize("page", [404, {}, {"totalTokens": 0}], ids=str)
async def test_a_server_that_does_not_count_leaves_the_bound(page: Any) -> None:
    with PagedServer({PAGE: page}) as server:
        planner = GeminiPlanner("m", api_key=KEY, base_url=server.url)
        assert await planner.count(context("hi", [])) is None
        await planner.close()
