"""The server counts a prompt if the bound of its bytes would pass a limit."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel_engine import Limits
from agentic_kernel_engine.loop import Remaining
from agentic_kernel_openai import OpenAIRuntime
from integration.peers.paged import PagedServer

from .asking import PLANNERS, planning, seen, without_tools

PAGES = {
    "responses": "/v1/responses/input_tokens",
    "chat": "/v1/chat/completions/input_tokens",
}


@pytest.mark.parametrize("api", PLANNERS)
async def test_a_real_server_counts_a_hi(llama: Any, api: Any) -> None:
    given: Any = {"api_key": llama.api_key, "base_url": f"{llama.url}/v1", "max_tokens": 16}
    limits = Limits(max_total_tokens=500)
    async with OpenAIRuntime(llama.model, api=api, limits=limits, **given) as runtime:
        task = (await runtime.run("hi")).task
    assert task.failure is None or task.failure.code == "openai/max_tokens"


@pytest.mark.parametrize("api", PLANNERS)
async def test_the_count_has_what_the_request_has_and_a_few_tokens_more(api: str) -> None:
    with PagedServer({PAGES[api]: {"input_tokens": 1_000}}) as server:
        async with planning(api, server.url, system="Be brief.", temperature=0.5) as planner:
            context = seen(remaining=Remaining(9, total_tokens=2_000))
            context.prompt_tokens = await planner.count(context)
            assert context.prompt_tokens == 1_050
            worst = planner.worst_case(context)
            assert (worst.input_tokens, worst.output_tokens) == (1_050, 950)
        [request] = server.asked
    said = {"responses": "input instructions parallel_tool_calls", "chat": "messages"}[api]
    assert request.json.keys() == {"model", "tools", "tool_choice", *said.split()}


@pytest.mark.parametrize("api", PLANNERS)
@pytest.mark.parametrize("page", [404, {}, {"input_tokens": "many"}, []], ids=str)
async def test_a_server_that_does_not_count_leaves_the_bound(api: str, page: Any) -> None:
    with PagedServer({PAGES[api]: page}) as server:
        async with planning(api, server.url) as planner:
            assert await planner.count(without_tools()) is None
        assert not server.requests


async def test_openai_is_not_asked_for_a_counter_that_it_does_not_have() -> None:
    async with planning("chat", "", base_url="https://api.openai.com/v1") as planner:
        assert await planner.count(without_tools()) is None
