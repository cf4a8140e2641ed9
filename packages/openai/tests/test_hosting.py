"""Tools that OpenAI runs, and the sources of an answer."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.loop import AskUser, PlannerError, UserMessage
from agentic_kernel_engine.providers import Malformed, citations_of, plan_of
from agentic_kernel_openai import OpenAIChatPlanner, OpenAIPlanner, OpenAIRuntime
from agentic_kernel_openai.responses_stream import ResponsesReader
from integration.peers.exchange import Exchange
from integration.peers.faults import Fault
from integration.peers.faulty import FaultyServer

from .asking import ask, failure, planning, seen, turn


async def test_they_stand_beside_the_functions_of_each_request() -> None:
    hosted: Any = {
        "web_search": {"search_context_size": "low"}, "code": {},
        "file_search": {"vector_store_ids": ["vs_1"]},
        "mcp": [{"server_label": "a", "server_url": "https://a.example"}],
    }  # fmt: skip
    extra = {"tools": [{"type": "image_generation"}]}
    with FaultyServer("closed", times=0) as server:
        async with planning("responses", server.url, hosted=hosted, extra_body=extra) as planner:
            await ask(planner, seen())
        [request] = server.requests
    own, *others = request.json["tools"]
    assert own["name"] == "add"
    assert others == [
        {"type": "web_search", "search_context_size": "low"},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "file_search", "vector_store_ids": ["vs_1"]},
        {
            "type": "mcp", "require_approval": "always", "server_label": "a",
            "server_url": "https://a.example",
        },
        {"type": "image_generation"},
    ]  # fmt: skip


async def test_a_secret_of_a_hosted_server_that_the_vendor_quotes_is_not_told() -> None:
    def act(exchange: Exchange) -> None:
        exchange.refuse(400, "a refused a-token-of-mine and a-key-of-mine.")

    server_of: dict[str, Any] = {"server_label": "a", "server_url": "https://a.example"}
    secret = {"authorization": "a-token-of-mine", "headers": {"x-api-key": "a-key-of-mine"}}
    with FaultyServer(Fault("quotes secrets", act)) as server:
        hosted: Any = {"mcp": {**server_of, **secret}}
        async with planning("responses", server.url, hosted=hosted) as planner:
            with pytest.raises(PlannerError) as caught:
                await ask(planner, seen())
    assert caught.value.message == "a refused [redacted] and [redacted]."


def test_what_an_api_does_not_run_is_refused_by_its_name() -> None:
    for make in (
        OpenAIChatPlanner,
        lambda model, **given: OpenAIRuntime(model, api="chat", **given),
    ):
        with pytest.raises(InvalidValue, match="hosted: has web_search, and this API runs no such"):
            make("gpt-5", hosted=["web_search"])
    with pytest.raises(InvalidValue, match=r"hosted\.file_search: has no vector_store_ids"):
        OpenAIPlanner("gpt-5", hosted=["file_search"])


def test_the_sources_of_an_answer_are_in_its_plan() -> None:
    url = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0}
    file = {"type": "file_citation", "file_id": "f_1", "filename": "bill.pdf", "index": 3}
    part = {"type": "output_text", "text": "It is so.", "annotations": [url, url, file]}
    message = {"type": "message", "id": "m", "role": "assistant", "content": [part]}
    response = {"status": "completed", "model": "gpt-5", "output": [message]}
    reader = ResponsesReader(stored=False)
    reader.whole(response)
    plan = plan_of(reader.answer(), [], None, "openai/responses")
    assert citations_of(plan.provider) == [
        {"url": "https://a.example", "title": "A"}, {"title": "bill.pdf"},
    ]  # fmt: skip


WISH: dict[str, Any] = {
    "type": "mcp_approval_request", "id": "mcpr_1", "server_label": "wiki", "name": "search",
    "arguments": "{}",
}  # fmt: skip


@pytest.mark.parametrize("field", ["id", "name", "server_label", "type"])
@pytest.mark.parametrize("value", [None, 7, ""], ids=["null", "a number", "empty"])
def test_an_item_that_could_not_be_answered_later_is_no_answer(field: str, value: Any) -> None:
    reader = ResponsesReader(stored=False)
    reader.whole({"status": "completed", "output": [WISH | {field: value}]})
    with pytest.raises(Malformed, match=field):
        reader.answer()


def test_two_approvals_of_one_id_are_no_answer() -> None:
    reader = ResponsesReader(stored=False)
    reader.whole({"status": "completed", "output": [WISH, WISH]})
    with pytest.raises(Malformed, match="same id"):
        reader.answer()


async def test_an_approval_without_an_id_in_a_stored_transcript_is_a_typed_failure() -> None:
    item = {name: value for name, value in WISH.items() if name != "id"}
    asked = turn(AskUser("May it?"), provider={"impl": "openai/responses", "items": [item]})
    async with planning("responses", "http://127.0.0.1:9") as planner:
        failed = await failure(planner, seen(asked, UserMessage("yes")))
    assert failed.code == "openai/bad_options"
    assert "'mcp_approval_request' whose id is None" in failed.message
