"""Both planners, over real HTTP with the real SDK, at an independent scripted server."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI

from agentic_kernel_engine import tool
from agentic_kernel_engine.loop import (
    AskUser,
    FinalAnswer,
    Observation,
    PlannerError,
    Remaining,
    ToolCall,
    Turn,
    Usage,
)
from agentic_kernel_engine.providers import IMAGES, Price
from agentic_kernel_openai import PRICES, OpenAIChatPlanner, OpenAIPlanner
from integration.peers.aimock import Aimock
from integration.peers.faulty import FaultyServer

from .asking import KEY, PLANNERS, add, ask, planning, seen, told, turn, without_tools

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
BOTH = {"name": "add", "arguments": '{"a": 1, "b": 2}', "id": "c1"}
USAGE = {
    "responses": {"input_tokens": 1000, "output_tokens": 100},
    "chat": {"prompt_tokens": 1000, "completion_tokens": 100},
}

every_api = pytest.mark.parametrize("api", PLANNERS)
every_way = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


async def sent(api: str, context: Any, **options: Any) -> Any:
    """The body of the one request that asking makes."""
    with FaultyServer("empty_answer", times=0) as peer:
        async with planning(api, peer.url, **options) as planner:
            await ask(planner, context)
    assert len(peer.requests) == 1
    return peer.requests[0].json


@every_way
@every_api
async def test_a_text_is_the_final_answer(aimock: Aimock, api: str, stream: bool) -> None:
    aimock.script({"content": "One and two are three."}, chunkSize=4)
    async with planning(api, aimock.url, stream=stream) as planner:
        pieces, plan = await ask(planner, seen())
    assert plan.actions == (FinalAnswer("One and two are three."),)
    assert plan.model == "gpt-4o"
    assert (told(pieces), len(pieces) > 1) == ("One and two are three." * stream, stream)


@every_way
@every_api
async def test_calls_are_actions_in_their_order_with_the_text_beside_them(
    aimock: Aimock, api: str, stream: bool
) -> None:
    other = {"name": "add", "arguments": '{"a": 3, "b": 4}', "id": "c2"}
    aimock.script({"content": "I add.", "toolCalls": [BOTH, other]}, {"content": "3 and 7"})
    async with planning(api, aimock.url, stream=stream) as planner:
        pieces, plan = await ask(planner, seen())
        assert plan.actions == (
            ToolCall("add", {"a": 1, "b": 2}, "c1"),
            ToolCall("add", {"a": 3, "b": 4}, "c2"),
        )
        assert plan.text == "I add."
        if stream:
            given = BOTH["arguments"] + other["arguments"]
            assert told(pieces, "arguments").replace(" ", "") == given.replace(" ", "")
        results = tuple(Observation(n, call=call, tool="add") for n, call in ((3, "c1"), (7, "c2")))
        await ask(planner, seen(Turn(plan, results)))
    *_, first, second = aimock.requests()[1].body["messages"]
    assert (first["tool_call_id"], first["content"]) == ("c1", "3")
    assert (second["tool_call_id"], second["content"]) == ("c2", "7")


@every_way
@every_api
async def test_reasoning_has_a_channel_and_a_place_of_its_own(
    aimock: Aimock, api: str, stream: bool
) -> None:
    aimock.script({"content": "Three.", "reasoning": "One, two, three."})
    async with planning(api, aimock.url, model="gpt-5", stream=stream) as planner:
        pieces, plan = await ask(planner, seen())
    assert plan.actions == (FinalAnswer("Three."),)
    assert plan.reasoning == "One, two, three."
    assert told(pieces, "reasoning") == "One, two, three." * stream


@every_way
async def test_reasoning_that_only_the_vendor_understands_is_sent_back(
    aimock: Aimock, stream: bool
) -> None:
    aimock.script({"toolCalls": [BOTH], "reasoning": "One, two, three."})
    async with planning("responses", aimock.url, model="gpt-5", stream=stream) as planner:
        _, plan = await ask(planner, seen())
    assert plan.provider is not None
    thought, called = plan.provider["items"]
    assert (thought["type"], bool(thought["encrypted_content"])) == ("reasoning", True)
    assert (called["type"], called["call_id"]) == ("function_call", "c1")
    body = await sent("responses", seen(Turn(plan, (Observation(3, call="c1"),))), model="gpt-5")
    assert body["input"][1:3] == [thought, called]
    assert body["input"][3]["call_id"] == "c1"


@every_api
async def test_an_action_of_the_loop_is_a_function_and_comes_back_as_one(
    aimock: Aimock, api: str
) -> None:
    call = {"name": "ask_user", "arguments": '{"question": "Which one?"}', "id": "c1"}
    aimock.script({"toolCalls": [call]}, {"content": "So be it."})
    async with planning(api, aimock.url, offers=["ask_user"]) as planner:
        _, plan = await ask(planner, seen())
        assert plan.actions == (AskUser("Which one?"),)
        await ask(planner, seen(Turn(plan, (Observation("The red one."),))))
    *_, called, result = aimock.requests()[1].body["messages"]
    assert called["tool_calls"][0]["function"]["name"] == "ask_user"
    assert (result["tool_call_id"], result["content"]) == ("c1", "The red one.")


@every_way
@every_api
async def test_what_was_used_up_is_counted_and_priced(
    aimock: Aimock, api: str, stream: bool
) -> None:
    aimock.script({"content": "Three.", "usage": USAGE[api]})
    prices = {"gpt-4o": Price(input=2.0, output=10.0)}
    async with planning(api, aimock.url, stream=stream, prices=prices) as planner:
        _, plan = await ask(planner, seen())
    assert plan.usage == Usage(1000, 100, cost=0.003)


@every_api
async def test_a_limit_of_cost_needs_a_price(aimock: Aimock, api: str) -> None:
    limited = seen(remaining=Remaining(10, cost=1.0))
    async with planning(api, aimock.url, model="house-model") as planner:
        with pytest.raises(PlannerError, match="prices=") as caught:
            planner.worst_case(limited)
        assert caught.value.code == "openai/no_price"
        assert planner.worst_case(seen()).cost == 0.0
    async with planning(api, aimock.url, model="gpt-4o-2024-11-20") as planner:
        worst = planner.worst_case(limited)
        assert worst.cost == PRICES["gpt-4o"].most(worst.input_tokens, worst.output_tokens)


@every_api
async def test_a_known_context_bounds_what_a_call_may_read(aimock: Aimock, api: str) -> None:
    async with planning(api, aimock.url, context_tokens=500, max_tokens=100) as planner:
        assert planner.worst_case(seen()) == Usage(500, 100, cost=planner.worst_case(seen()).cost)


async def test_a_server_that_does_not_count_lifts_no_limit(aimock: Aimock) -> None:
    aimock.load([{"match": {}, "response": {"content": "Three."}}])
    limited = seen(remaining=Remaining(10, output_tokens=1000))
    uncounted = {"stream_options": {"include_usage": False}}
    async with planning("chat", aimock.url, extra_body=uncounted) as planner:
        used = [(await ask(planner, each))[1].usage for each in (limited, seen())]
        assert used == [planner.worst_case(limited), Usage()]


@every_api
async def test_the_limit_of_an_answer_is_what_is_left_of_the_runs(api: str) -> None:
    name = {"responses": "max_output_tokens", "chat": "max_tokens"}[api]
    assert name not in await sent(api, seen())
    assert (await sent(api, seen(remaining=Remaining(10, output_tokens=9_000))))[name] == 4096
    assert (await sent(api, seen(remaining=Remaining(10, cost=1.0)), model="gpt-5"))[name] == 4096
    assert (await sent(api, seen(remaining=Remaining(10, output_tokens=100))))[name] == 100
    asked = seen(metadata={"openai/max_tokens": 200})
    assert (await sent(api, asked))[name] == 200


async def test_the_smallest_limit_is_the_one_that_the_vendor_takes() -> None:
    hardly = seen(remaining=Remaining(1, output_tokens=1))
    assert (await sent("responses", hardly))["max_output_tokens"] == 16
    assert (await sent("chat", hardly))["max_tokens"] == 1


async def test_a_request_of_responses_keeps_nothing_at_the_vendor() -> None:
    body = await sent("responses", seen(), model="gpt-5-mini", system="Be brief.")
    assert body["instructions"] == "Be brief."
    assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])
    assert body["tools"] == [
        {
            "type": "function",
            "name": "add",
            "description": "Add two numbers.",
            "parameters": seen().tools[0].input_schema,
            "strict": True,
        }
    ]
    assert (body["tool_choice"], body["parallel_tool_calls"]) == ("auto", True)
    assert {"temperature", "reasoning", "text", "previous_response_id"}.isdisjoint(body)


async def test_reasoning_is_asked_for_where_there_is_some() -> None:
    assert "include" not in await sent("responses", seen(), model="gpt-4o-mini")
    assert "include" not in await sent("responses", seen(), model="gpt-5", store=True)
    effort = {"effort": "low", "summary": "auto"}
    body = await sent("responses", seen(), model="gpt-4o-mini", reasoning=effort)
    assert (body["reasoning"], body["include"]) == (effort, ["reasoning.encrypted_content"])


async def test_a_request_of_chat_has_what_compatible_servers_know() -> None:
    body = await sent("chat", seen(), system="Be brief.", reasoning_effort="low")
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert body["stream_options"] == {"include_usage": True}
    assert body["reasoning_effort"] == "low"
    assert body["tools"][0]["function"]["name"] == "add"
    assert {"store", "max_completion_tokens", "temperature"}.isdisjoint(body)


async def test_openais_own_server_is_given_the_new_name_of_the_limit() -> None:
    from openai import AsyncOpenAI

    given: dict[str, Any] = {}

    class Completions:
        async def create(self, **request: Any) -> None:
            given.update(request)

    async with planning("chat", "https://api.openai.com") as planner:
        client: Any = AsyncOpenAI(api_key="sk-0123456789")
        client.chat.completions = Completions()
        await planner._ask(client, {"max_completion_tokens": 5})
    assert given == {"max_completion_tokens": 5}


@every_api
async def test_without_tools_nothing_is_said_about_calling(api: str) -> None:
    body = await sent(api, without_tools())
    assert {"tools", "tool_choice", "parallel_tool_calls"}.isdisjoint(body)


@every_api
@pytest.mark.parametrize("choice", ["none", "required", "add"])
async def test_only_the_first_answer_is_forced(api: str, choice: str) -> None:
    named = {
        "responses": {"type": "function", "name": "add"},
        "chat": {"type": "function", "function": {"name": "add"}},
    }[api]
    body = await sent(api, seen(), tool_choice=choice, parallel_tool_calls=False)
    assert body["tool_choice"] == (named if choice == "add" else choice)
    assert body["parallel_tool_calls"] is False
    later = seen(turn(ToolCall("add", {}, "c1"), output=3))
    body = await sent(api, later, tool_choice=choice)
    assert body["tool_choice"] == ("none" if choice == "none" else "auto")


@every_api
async def test_what_is_asked_for_beyond_is_sent_as_it_is(api: str) -> None:
    body = await sent(api, seen(), extra_body={"top_k": 5, "model": "other"}, temperature=0)
    assert (body["top_k"], body["model"], body["temperature"]) == (5, "other", 0)


@every_way
@every_api
async def test_an_answer_under_a_schema_is_json(aimock: Aimock, api: str, stream: bool) -> None:
    aimock.script({"content": '{"n": 3}'})
    async with planning(api, aimock.url, stream=stream) as planner:
        _, plan = await ask(planner, seen(output_schema=SCHEMA))
    assert plan.actions == (FinalAnswer({"n": 3}),)


async def test_a_schema_is_where_each_api_expects_it_beside_the_tools() -> None:
    form = {"name": "answer", "schema": SCHEMA, "strict": True}
    body = await sent("responses", seen(output_schema=SCHEMA))
    assert body["text"] == {"format": {"type": "json_schema", **form}}
    assert body["tools"]
    body = await sent("chat", seen(output_schema=SCHEMA))
    assert body["response_format"] == {"type": "json_schema", "json_schema": form}
    assert body["tools"]
    body = await sent("chat", seen(output_schema={"type": "integer"}))
    assert "response_format" not in body
    assert '{"type":"integer"}' in body["messages"][0]["content"]


@every_api
async def test_images_arrive(api: str) -> None:
    picture = {"type": "image", "url": "https://example.org/cat.png"}
    body = await sent(api, seen(metadata={IMAGES: [picture]}))
    content = (body.get("input") or body.get("messages"))[0]["content"]
    assert [part["type"] for part in content] == {
        "responses": ["input_text", "input_image"],
        "chat": ["text", "image_url"],
    }[api]


@pytest.mark.parametrize("model", ["qwen3-8b", "my-deployment", "gpt-4.1", "gpt-5-chat-latest"])
async def test_encrypted_reasoning_is_asked_only_of_models_that_have_it(model: str) -> None:
    planner = OpenAIPlanner(model, api_key=KEY)
    request, _ = planner._request(seen(), planner.options, ())
    assert "include" not in request


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
async def test_only_one_limit_of_an_answer_is_sent(name: str) -> None:
    body = await sent("chat", seen(), extra_body={name: 9})
    limits = {each: body[each] for each in body if each.startswith("max_")}
    assert limits == {name: 9}


@pytest.mark.parametrize("api", PLANNERS)
async def test_tools_of_the_user_are_added_to_ours(api: str) -> None:
    body = await sent(api, seen(), extra_body={"tools": [{"type": "web_search"}]})
    assert [each["type"] for each in body["tools"]] == ["function", "web_search"]


class ToPeer(httpx2.AsyncHTTPTransport):
    """Sends the requests for any server to one on the loopback."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._peer = httpx2.URL(url)

    async def handle_async_request(self, request: Any) -> Any:
        request.url = request.url.copy_with(
            scheme=self._peer.scheme, host=self._peer.host, port=self._peer.port
        )
        return await super().handle_async_request(request)


@pytest.mark.parametrize(
    ("host", "strict"),
    [("api.openai.com", True), ("me.openai.azure.com", True), ("llm.example.org", None)],
)
async def test_chat_makes_functions_strict_only_at_openai(host: str, strict: bool | None) -> None:
    with FaultyServer("closed", times=0) as server:
        http = httpx2.AsyncClient(transport=ToPeer(server.url))
        async with AsyncOpenAI(
            api_key=KEY, base_url=f"https://{host}/v1", http_client=http
        ) as client:
            mine = {"type": "function", "function": {"name": "mine", "parameters": CLOSED}}
            planner = OpenAIChatPlanner("gpt-5", client=client, extra_body={"tools": [mine]})
            await ask(planner, seen(tools=[add, halve]))
        sent = server.requests[0].json["tools"]
    assert [each["function"].get("strict") for each in sent] == [strict, None, None]


@pytest.mark.parametrize("api", PLANNERS)
@pytest.mark.parametrize("host", ["api.openai.com", "me.openai.azure.com", "llm.example.org"])
async def test_a_task_has_a_key_of_the_cache_at_openai(api: str, host: str) -> None:
    with FaultyServer("closed", times=0) as server:
        http = httpx2.AsyncClient(transport=ToPeer(server.url))
        given: Any = {"api_key": KEY, "base_url": f"https://{host}/v1", "http_client": http}
        async with AsyncOpenAI(**given) as client:
            planner = PLANNERS[api]("gpt-5", client=client)
            mine = PLANNERS[api]("gpt-5", client=client, extra_body={"prompt_cache_key": "own"})
            one, other = seen(), seen()
            for each, context in ((planner, one), (planner, one), (planner, other), (mine, one)):
                await ask(each, context)
        keys = [each.json.get("prompt_cache_key") for each in server.requests]
    if host == "llm.example.org":
        assert keys == [None, None, None, "own"]
    else:
        assert keys[0] == keys[1] != keys[2]
        assert one.task.id not in keys[0]
        assert keys[3] == "own"


CLOSED = {"type": "object", "additionalProperties": False}


@tool(effect="none", inline=True)
def halve(number: int = 2) -> float:
    """Halve a number."""
    return number / 2
