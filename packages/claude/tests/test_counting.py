"""The server counts a prompt if the bound of its bytes would pass a limit."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel_claude import ClaudePlanner, ClaudeRuntime
from agentic_kernel_conformance.planner_contexts import QUESTION, context, tools
from agentic_kernel_engine import Limits
from agentic_kernel_engine.loop import Remaining
from integration.peers.llama import LlamaServer
from integration.peers.paged import PagedServer

PAGE = "/v1/messages/count_tokens"


@pytest.mark.parametrize("limit", ["max_input_tokens", "max_total_tokens"])
async def test_a_real_server_counts_a_hi(llama: LlamaServer, limit: str) -> None:
    limits = Limits(**{limit: 500})
    given: Any = {"api_key": llama.api_key, "base_url": llama.url, "max_tokens": 8}
    async with ClaudeRuntime(llama.model, limits=limits, **given) as runtime:
        done = await runtime.run("hi")
    assert done.task.failure is None or done.task.failure.code == "claude/max_tokens"
    assert (await counted(llama.url, llama.api_key, llama.model)) in range(30, 70)


async def counted(url: str, key: str, model: str = "m", **options: Any) -> int | None:
    planner = ClaudePlanner(model, api_key=key, base_url=url, **options)
    try:
        return await planner.count(context("hi", []))
    finally:
        await planner.close()


async def test_the_count_has_all_that_the_request_has_and_a_few_tokens_more() -> None:
    with PagedServer({PAGE: {"input_tokens": 1_000}}) as server:
        given: Any = {"api_key": "none", "base_url": server.url, "system": "Be brief."}
        planner = ClaudePlanner("m", thinking={"type": "adaptive"}, temperature=0.5, **given)
        seen = context(QUESTION, tools()[:1], remaining=Remaining(9, total_tokens=2_000))
        seen.prompt_tokens = await planner.count(seen)
        assert seen.prompt_tokens == 1_050
        worst = planner.worst_case(seen)
        assert (worst.input_tokens, worst.output_tokens) == (1_050, 950)
        await planner.close()
        [request] = server.asked
    asked = request.json
    assert asked.keys() == {"model", "messages", "system", "tools", "tool_choice", "thinking"}


@pytest.mark.parametrize("page", [404, 500, {}, {"input_tokens": "many"}, {"input_tokens": 0}])
async def test_a_server_that_does_not_count_leaves_the_bound(page: Any) -> None:
    with PagedServer({PAGE: page}) as server:
        assert await counted(server.url, "none") is None
        given: Any = {"api_key": "none", "base_url": server.url}
        async with ClaudeRuntime("m", limits=Limits(max_total_tokens=500), **given) as runtime:
            failure = (await runtime.run("hi")).task.failure
        assert failure is not None
        assert failure.code == "engine/max_tokens"
        assert not server.requests
