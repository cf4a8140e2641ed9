"""MCP servers that Anthropic calls: the beta of the API, its two lists, and their blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from anthropic.types import AnthropicBetaParam

from agentic_kernel import InvalidValue
from agentic_kernel_claude import ClaudePlanner, ClaudeRuntime
from agentic_kernel_claude.connector import BETA
from agentic_kernel_conformance.planner_contexts import QUESTION, context, tools
from agentic_kernel_engine import tool
from integration.peers.exchange import Exchange
from integration.peers.faults import Fault
from integration.peers.faulty import FaultyServer
from integration.peers.paged import PagedServer

SERVER: dict[str, Any] = {
    "name": "wiki",
    "url": "https://wiki.example/mcp",
    "authorization_token": "a-token",
}
BLOCKS: list[dict[str, Any]] = [
    {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "ask", "server_name": "wiki", "input": {}},
    {
        "type": "mcp_tool_result",
        "tool_use_id": "mcptoolu_1",
        "is_error": False,
        "content": [{"type": "text", "text": "It is 30."}],
    },
    {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}},
]
ARGUMENTS = {"mcptoolu_1": {"q": "b"}, "toolu_1": {"a": 12, "b": 30}}
TEXT = {"type": "text", "text": "It is 42."}


def answer(blocks: list[dict[str, Any]], reason: str) -> dict[str, Any]:
    made = [
        {**each, "input": ARGUMENTS[each["id"]]} if "input" in each else each for each in blocks
    ]
    usage = {"input_tokens": 7, "output_tokens": 3}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "usage": usage}
    return {**message, "content": made, "stop_reason": reason, "stop_sequence": None}


def events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        begun = {**block, "input": {}} if "input" in block else block
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        if "input" in block:
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": message["stop_reason"]}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 3}}
    yield {"type": "message_stop"}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_the_server_is_asked_for_and_its_blocks_go_back_unchanged(stream: bool) -> None:
    answers = iter([answer(BLOCKS, "tool_use"), answer([TEXT], "end_turn")])

    def act(exchange: Exchange) -> None:
        message = next(answers)
        if not stream:
            exchange.answer([json.dumps(message).encode()], 200, "application/json")
            return
        lines = (f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events(message))
        exchange.answer([line.encode() for line in lines])

    @tool(effect="none", inline=True)
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    with FaultyServer(Fault("has an MCP server", act)) as server:
        given: Any = {"api_key": "none", "base_url": server.url, "stream": stream}
        hosted: Any = {"mcp": {**SERVER, "default_config": {"defer_loading": True}}}
        async with ClaudeRuntime("m", tools=[add], hosted=hosted, **given) as runtime:
            assert (await runtime.run("How much is 12 + b?")).unwrap() == "It is 42."
        first, second = server.requests
    assert (first.path, first.headers["anthropic-beta"]) == ("/v1/messages", BETA)
    assert first.json["mcp_servers"] == [{"type": "url", **SERVER}]
    assert first.json["tools"][1:] == [
        {
            "type": "mcp_toolset",
            "mcp_server_name": "wiki",
            "default_config": {"defer_loading": True},
        }
    ]
    assert second.json["messages"][1]["content"] == answer(BLOCKS, "")["content"]


async def test_the_counter_knows_the_servers_and_other_requests_need_no_beta() -> None:
    page = "/v1/messages/count_tokens"
    with PagedServer({page: {"input_tokens": 1_000}}) as server:
        given: Any = {"api_key": "none", "base_url": server.url}
        planner = ClaudePlanner("m", hosted={"mcp": SERVER}, **given)
        assert await planner.count(context(QUESTION, tools()[:1])) == 1_050
        await planner.close()
        [request] = server.asked
    assert request.json["mcp_servers"] == [{"type": "url", **SERVER}]
    assert BETA in request.headers["anthropic-beta"]
    plain = ClaudePlanner("m", extra_body={"tools": [{"type": "mcp_toolset"}]})
    made, _ = plain._request(context(QUESTION, []), plain.options, [])
    assert made.keys().isdisjoint(("betas", "mcp_servers"))


async def test_a_token_of_a_server_that_the_vendor_quotes_is_not_told() -> None:
    def act(exchange: Exchange) -> None:
        exchange.refuse(400, "The MCP server wiki refused wiki-token-of-mine.")

    with FaultyServer(Fault("quotes a token", act)) as server:
        given: Any = {"api_key": "none", "base_url": server.url, "middleware": []}
        hosted: Any = {"mcp": {**SERVER, "authorization_token": "wiki-token-of-mine"}}
        async with ClaudeRuntime("m", hosted=hosted, **given) as runtime:
            failure = (await runtime.run("Look it up.")).task.failure
    assert failure is not None
    assert failure.message == "The MCP server wiki refused [redacted]."


def test_the_sdk_knows_the_version() -> None:
    assert BETA in {each for part in get_args(AnthropicBetaParam) for each in get_args(part)}


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"name": "wiki"}, r"hosted\.mcp: has no url"),
        ({"url": SERVER["url"]}, r"hosted\.mcp: has no name"),
        ({**SERVER, "name": ""}, r"hosted\.mcp\.name: is ''; give a text that is not blank"),
        ([SERVER, SERVER], r"hosted\.mcp: has the same fields twice"),
        ([SERVER, {**SERVER, "url": "https://b.example"}], r"hosted\.mcp\.name: is 'wiki' twice"),
        ({**SERVER, "url": "http://wiki.example"}, r"hosted\.mcp\.url: must begin with https://"),
        ({**SERVER, "url": 5}, r"hosted\.mcp\.url: must be a string"),
        ({**SERVER, "authorization_token": "a b"}, r"hosted\.mcp\.authorization_token: must be"),
    ],
)
def test_a_server_that_no_request_can_name_is_refused(given: Any, fault: str) -> None:
    with pytest.raises(InvalidValue, match=fault):
        ClaudePlanner("m", hosted={"mcp": given})


def test_a_set_of_tools_of_the_users_own_needs_a_name_beside_an_address() -> None:
    toolset = {"type": "mcp_toolset", "url": SERVER["url"]}
    with pytest.raises(InvalidValue, match=r"hosted\.mcp\.name: must be a non-empty string"):
        ClaudePlanner("m", extra_body={"tools": [toolset]})
