"""ClaudeRuntime on an independent server: what a Task gets, and what the server sees of it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic

from agentic_kernel import CannotStart, InvalidValue, Task, TaskStatus
from agentic_kernel_claude import RUNTIME_KIND, ClaudeRuntime
from agentic_kernel_engine import Event, Limits, tool
from agentic_kernel_engine.loop import Outcome
from agentic_kernel_engine.providers import IMAGES, Price
from integration.peers.aimock import Aimock
from integration.peers.faulty import FaultyServer

MODEL = "claude-opus-5-5"
PNG = {"type": "image", "media_type": "image/png", "data": "aGk="}
CALL = {"name": "add", "arguments": {"a": 12, "b": 30}, "id": "toolu_1"}
MODES = [pytest.param(True, id="stream"), pytest.param(False, id="whole")]


@tool(effect="none", inline=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Heard:
    """An Observer that knows when the first text came."""

    def __init__(self) -> None:
        self.text = asyncio.Event()

    def observe(self, task_id: str, event: Event) -> None:
        if event.type == "run.delta":
            self.text.set()


def task(**metadata: Any) -> Task:
    return Task.new(
        summary="",
        instructions="How much is 12 + 30?",
        runtime_kind=RUNTIME_KIND,
        metadata=metadata,
    )


@asynccontextmanager
async def runtime(url: str, **options: Any) -> AsyncIterator[ClaudeRuntime]:
    async with ClaudeRuntime(
        MODEL, **{"tools": [add], "api_key": "none", "base_url": url, **options}
    ) as made:
        yield made


async def run(url: str, given: Task | None = None, **options: Any) -> Outcome:
    given = task() if given is None else given
    async with runtime(url, **options) as made:
        await made.run(given)
        return await made.outcome(given.id)


def failed(outcome: Outcome) -> str:
    assert outcome.task.failure is not None
    return outcome.task.failure.code


@pytest.mark.parametrize("stream", MODES)
async def test_a_tool_and_an_answer(aimock: Aimock, stream: bool) -> None:
    used = {"input_tokens": 100, "output_tokens": 10}
    aimock.script(
        {"content": "So:", "toolCalls": [CALL], "usage": used},
        {"content": "It is 42.", "usage": used},
    )
    outcome = await run(aimock.url, stream=stream)
    assert outcome.answer == "It is 42."
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (200, 20)
    assert outcome.usage.cost == pytest.approx((200 * 4 + 20 * 20) / 1e6)
    _, second = aimock.requests()
    assert [each["role"] for each in second.body["messages"]] == ["user", "assistant", "tool"]
    assert second.body["messages"][2] == {
        "role": "tool",
        "content": "42",
        "tool_call_id": "toolu_1",
    }
    deltas = [dict(each.data) for each in outcome.events if each.type == "run.delta"]
    assert [each for each in deltas if "channel" not in each] == (
        [{"text": "So:", "at": 0}, {"text": "It is 42.", "at": 0}] if stream else []
    )


@pytest.mark.parametrize("stream", MODES)
async def test_the_text_of_all_turns_comes(aimock: Aimock, stream: bool) -> None:
    aimock.script({"content": "So: ", "toolCalls": [CALL]}, {"content": "It is 42."})
    async with runtime(aimock.url, stream=stream) as made:
        pieces = [piece async for piece in made.stream_text("How much is 12 + 30?")]
    assert "".join(pieces) == "So: It is 42."


@asynccontextmanager
async def overheard(url: str) -> AsyncIterator[tuple[AsyncAnthropic, list[Any]]]:
    """A client of the user's own, and the bodies of its requests: no server shows all of them."""
    sent: list[Any] = []

    async def listen(request: httpx2.Request) -> None:
        sent.append(json.loads(request.content))

    http = httpx2.AsyncClient(event_hooks={"request": [listen]})
    async with AsyncAnthropic(api_key="own", base_url=url, http_client=http) as client:
        yield client, sent


async def test_thinking_goes_back_with_its_signature(aimock: Aimock) -> None:
    thought = {"reasoning": "Add them.", "reasoningSignature": "c2lnbmF0dXJl"}
    aimock.script({**thought, "toolCalls": [CALL]}, {"content": "It is 42."})
    async with overheard(aimock.url) as (client, sent):
        outcome = await run("", client=client, api_key=None, base_url=None)
    assert outcome.answer == "It is 42."
    question, answer, result = sent[1]["messages"]
    assert question == sent[0]["messages"][0]
    assert answer["content"] == [
        {"type": "thinking", "thinking": "Add them.", "signature": "c2lnbmF0dXJl"},
        {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 12, "b": 30}},
    ]
    assert result["content"][0]["tool_use_id"] == "toolu_1"


async def test_thinking_behind_other_goals_stays_away(aimock: Aimock) -> None:
    """The API would refuse it."""
    goal = {"name": "push_goal", "arguments": {"text": "Add them."}, "id": "toolu_7"}
    aimock.script({"reasoning": "Add them.", "toolCalls": [goal]}, {"content": "It is 42."})
    async with overheard(aimock.url) as (client, sent):
        own: Any = {"client": client, "api_key": None, "base_url": None}
        outcome = await run("", offers=["push_goal"], **own)
    assert outcome.answer == "It is 42."
    assert "Add them." in sent[1]["system"]
    assert [each["type"] for each in sent[1]["messages"][1]["content"]] == ["tool_use"]


async def test_a_turn_that_the_server_paused_is_gone_on_with(aimock: Aimock) -> None:
    aimock.script(
        {"content": "Let me see.", "finishReason": "pause_turn"}, {"content": "It is 42."}
    )
    outcome = await run(aimock.url)
    assert outcome.answer == "It is 42."
    _, second = aimock.requests()
    assert second.body["messages"][1:] == [{"role": "assistant", "content": "Let me see."}]


async def test_the_tasks_own_options_and_images() -> None:
    given = task(
        **{
            "claude/max_tokens": 77,
            "claude/system": "Be brief.",
            "claude/temperature": 0.5,
            IMAGES: [PNG],
        }
    )
    with FaultyServer("status_503", times=0) as server:
        await run(server.url, given)
        [request] = server.requests
    assert request.json["max_tokens"] == 77
    assert request.json["temperature"] == 0.5
    assert request.json["system"] == "Be brief."
    [message] = request.json["messages"]
    assert message["content"][1] == {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
    }


async def test_the_form_of_the_answer(aimock: Aimock) -> None:
    schema = {
        "type": "object",
        "properties": {"sum": {"type": "integer"}},
        "required": ["sum"],
        "additionalProperties": False,
    }
    aimock.script({"content": '{"sum": "no"}'}, {"content": '{"sum": 42}'})
    outcome = await run(aimock.url, output_schema=schema)
    assert outcome.answer == {"sum": 42}
    assert len(aimock.requests()) == 2


async def test_a_question_to_the_user(aimock: Aimock) -> None:
    asked = {"name": "ask_user", "arguments": {"question": "Which?"}, "id": "toolu_7"}
    aimock.script({"toolCalls": [asked]}, {"content": "Then 42."})
    given = task()
    async with runtime(aimock.url, offers=["ask_user"]) as made:
        await made.dispatch(given)
        await made.wait(given.id, TaskStatus.PAUSED)
        await made.resume(given.id, "The first.")
        done = await made.wait(given.id)
    assert done.result == "Then 42."
    _, second = aimock.requests()
    [result] = [each for each in second.body["messages"] if each["role"] == "tool"]
    assert result["tool_call_id"] == "toolu_7"


async def test_what_passes_is_tried_again() -> None:
    with FaultyServer("status_529", times=1) as server:
        outcome = await run(server.url)
        assert len(server.requests) == 2
    assert outcome.answer == "All is well."


async def test_a_refusal_is_not_tried_again() -> None:
    with FaultyServer("refused") as server:
        outcome = await run(server.url)
        assert len(server.requests) == 1
    assert failed(outcome) == "claude/refusal"


async def test_a_kill_closes_the_connection_and_keeps_the_text() -> None:
    with FaultyServer("stall") as server:
        given, heard = task(), Heard()
        async with runtime(server.url, observer=heard) as made:
            await made.dispatch(given)
            await heard.text.wait()
            await made.kill(given.id)
            killed = await made.get(given.id)
            await asyncio.to_thread(server.wait_closed)
    assert killed.status is TaskStatus.CANCELLED
    assert killed.metadata["claude/partial_output"].startswith("All ")


async def test_a_kill_before_the_first_word_closes_the_connection() -> None:
    with FaultyServer("hang") as server:
        given = task()
        async with runtime(server.url) as made:
            await made.dispatch(given)
            await asyncio.to_thread(server.wait_held)
            await made.kill(given.id)
            await asyncio.to_thread(server.wait_closed)
            assert (await made.get(given.id)).status is TaskStatus.CANCELLED


async def test_very_many_tasks_share_the_connections_and_need_no_threads(aimock: Aimock) -> None:
    count, times = 200, 2
    aimock.load([{"match": {}, "response": {"content": "It is 42."}, "latency": 20}])
    async with runtime(aimock.url, max_tokens=100) as made:
        await made.run(task())
        before = threading.active_count()
        for _ in range(times):
            running = [asyncio.create_task(made.run(task())) for _ in range(count)]
            async with asyncio.timeout(60):
                done = await asyncio.gather(*running)
            assert threading.active_count() <= before
            assert {each.result for each in done} == {"It is 42."}
            assert aimock.connections() <= count + 1  # The first Task's may be left idle.
    assert len(aimock.requests()) == times * count + 1


class TestLimits:
    async def test_no_call_is_made_that_could_cost_too_much(self, aimock: Aimock) -> None:
        outcome = await run(aimock.url, limits=Limits(max_cost=0.0001))
        assert failed(outcome) == "engine/max_cost"
        assert aimock.requests() == []

    async def test_a_limit_of_cost_needs_a_price(self, aimock: Aimock) -> None:
        outcome = await run(aimock.url, limits=Limits(max_cost=1), prices={})
        assert failed(outcome) == "claude/no_price"
        assert aimock.requests() == []

    async def test_a_server_that_does_not_count_lifts_no_limit(self) -> None:
        with FaultyServer("status_503", times=0) as server:
            limits = Limits(max_cost=1)
            outcome = await run(server.url, limits=limits, prices={MODEL: Price(1, 2)})
        assert outcome.usage.cost > 0


class TestBadOptions:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("model", ""),
            ("model", None),
            ("base_url", "example.org"),
            ("base_url", "file:///etc/passwd"),
            ("timeout", 0),
            ("timeout", float("inf")),
            ("timeout", "2"),
            ("timeout", True),
            ("max_tokens", 0),
            ("temperature", 3),
            ("system", 3),
            ("tool_choice", ""),
            ("stream", "no"),
            ("parallel_tool_calls", None),
            ("cache", 1),
            ("offers", "ask_user"),
            ("offers", ["nothing"]),
            ("context_tokens", 0),
            ("thinking", {"budget_tokens": 3}),
            ("thinking", "adaptive"),
            ("extra_body", {"x": object()}),
            ("extra_body", [1]),
        ],
    )
    def test_a_bad_value_is_refused_at_once(self, name: str, value: Any) -> None:
        given: dict[str, Any] = {"model": MODEL, name: value}
        with pytest.raises(InvalidValue, match=name):
            ClaudeRuntime(**given)

    def test_an_unknown_keyword_is_refused(self) -> None:
        given: dict[str, Any] = {"colour": "red"}
        with pytest.raises(TypeError, match="colour"):
            ClaudeRuntime(MODEL, **given)

    async def test_a_bad_option_of_a_task_is_refused_before_anything_is_written(self) -> None:
        given = task(**{"claude/max_tokens": 0})
        async with runtime("http://127.0.0.1:9") as made:
            with pytest.raises(CannotStart, match="claude/max_tokens"):
                await made.dispatch(given)
            assert await made.get_many([given.id]) == {}

    async def test_without_a_key_it_reads_and_controls_but_does_not_dispatch(self) -> None:
        async with ClaudeRuntime(MODEL) as made:
            assert await made.get_many(["x"]) == {}
            with pytest.raises(CannotStart, match="ANTHROPIC_API_KEY"):
                await made.dispatch(task())
