"""GeminiRuntime on an independent server: what a Task gets, and what the server sees of it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agentic_kernel import CannotStart, InvalidValue, Task, TaskStatus
from agentic_kernel_engine import Event, Limits, tool
from agentic_kernel_engine.loop import Outcome
from agentic_kernel_gemini import RUNTIME_KIND, GeminiRuntime
from integration.peers.aimock import Aimock
from integration.peers.exchange import Exchange
from integration.peers.faults import Fault
from integration.peers.faulty import FaultyServer

MODEL = "gemini-3.8-flash"
KEY = "AIza-very-secret-0123456789"
CALL = {"name": "add", "arguments": {"a": 12, "b": 30}, "id": "call_7"}
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
async def runtime(url: str, **options: Any) -> AsyncIterator[GeminiRuntime]:
    given = {"tools": [add], "api_key": KEY, "base_url": f"{url}/v1beta", **options}
    async with GeminiRuntime(MODEL, **given) as made:
        yield made


async def run(url: str, given: Task | None = None, **options: Any) -> Outcome:
    given = task() if given is None else given
    async with runtime(url, **options) as made:
        await made.run(given)
        return await made.outcome(given.id)


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
    assert outcome.usage.cost == pytest.approx((200 * 0.75 + 20 * 3.75) / 1e6)
    _, second = aimock.requests()
    assert [each["role"] for each in second.body["messages"]] == ["user", "assistant", "tool"]
    assert second.body["messages"][2] == {
        "role": "tool",
        "content": '{"output":"42"}',
        "tool_call_id": "call_7",
    }
    deltas = [dict(each.data) for each in outcome.events if each.type == "run.delta"]
    assert [each for each in deltas if "channel" not in each] == (
        [{"text": "So:", "at": 0}, {"text": "It is 42.", "at": 0}] if stream else []
    )


@pytest.mark.parametrize("stream", MODES)
async def test_a_signature_goes_back_byte_for_byte(stream: bool) -> None:
    """aimock sends no signatures, so a server of our own sends one, and shows what comes back."""
    signature = "+/+/AQIDBA=="  # Standard Base64, with the two signs that URLs do not have.

    def act(exchange: Exchange) -> None:
        if b"functionResponse" in exchange.request.body:
            exchange.answer(exchange.good())
            return
        call = exchange.wire.call(exchange.model, "add", ['{"a": 12, "b": 30}'])[:1]
        signed = call[0].replace(
            b'"functionCall"', f'"thoughtSignature": "{signature}", "functionCall"'.encode()
        )
        ended = signed.replace(b'"index": 0', b'"index": 0, "finishReason": "STOP"')
        exchange.answer([ended if exchange.streams else ended.removeprefix(b"data: ")])

    with FaultyServer(Fault("a signature", act)) as server:
        outcome = await run(server.url, stream=stream)
    assert outcome.answer == "All is well."
    _, said, result = json.loads(server.requests[1].body)["contents"]
    [part] = said["parts"]
    assert part["thoughtSignature"].translate(str.maketrans("-_", "+/")) == signature
    assert part["functionCall"] == {"id": "call_1", "name": "add", "args": {"a": 12, "b": 30}}
    assert result["parts"][0]["functionResponse"]["id"] == "call_1"


async def test_reasoning_is_streamed_and_kept(aimock: Aimock) -> None:
    aimock.script({"reasoning": "Add them.", "content": "It is 42."})
    outcome = await run(aimock.url)
    [made] = [each for each in outcome.events if each.type == "plan.made"]
    assert made.data["reasoning"] == "Add them."
    assert {"text": "Add them.", "channel": "reasoning", "at": 0} in [
        dict(each.data) for each in outcome.events if each.type == "run.delta"
    ]


async def test_an_answer_that_does_not_fit_its_schema_is_asked_for_again(aimock: Aimock) -> None:
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
    asked = {"name": "ask_user", "arguments": {"question": "Which?"}}
    aimock.script({"toolCalls": [asked]}, {"content": "Then 42."})
    given = task()
    async with runtime(aimock.url, offers=["ask_user"]) as made:
        await made.dispatch(given)
        await made.wait(given.id, TaskStatus.PAUSED)
        await made.resume(given.id, "The first.")
        done = await made.wait(given.id)
    assert done.result == "Then 42."


async def test_the_loop_asks_again_and_the_sdk_does_not() -> None:
    with FaultyServer("status_503", times=1) as server:
        outcome = await run(server.url)
        assert len(server.requests) == 2
    assert outcome.answer == "All is well."
    with FaultyServer("status_503") as server:
        outcome = await run(server.url, middleware=())
        assert len(server.requests) == 1
    assert outcome.task.failure is not None
    assert outcome.task.failure.code == "gemini/overloaded"


@pytest.mark.parametrize("fault", ["stall", "endless_text"])
async def test_a_kill_closes_the_connection_and_keeps_the_text(fault: str) -> None:
    with FaultyServer(fault) as server:
        given, heard = task(), Heard()
        async with runtime(server.url, observer=heard) as made:
            await made.dispatch(given)
            await heard.text.wait()
            await made.kill(given.id)
            killed = await made.get(given.id)
            await asyncio.to_thread(server.wait_closed)
    assert killed.status is TaskStatus.CANCELLED
    assert killed.metadata["gemini/partial_output"].startswith(("All ", "aaa"))


async def test_a_kill_before_the_first_word_closes_the_connection() -> None:
    with FaultyServer("hang") as server:
        given = task()
        async with runtime(server.url) as made:
            await made.dispatch(given)
            await asyncio.to_thread(server.wait_held)
            await made.kill(given.id)
            await asyncio.to_thread(server.wait_closed)
            assert (await made.get(given.id)).status is TaskStatus.CANCELLED


async def test_no_key_is_in_a_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with FaultyServer("secret_echoed") as server:
        await run(server.url)
    assert caplog.text
    assert KEY not in caplog.text


async def test_no_call_is_made_that_could_cost_too_much(aimock: Aimock) -> None:
    outcome = await run(aimock.url, limits=Limits(max_cost=0.0001))
    assert outcome.task.failure is not None
    assert outcome.task.failure.code == "engine/max_cost"
    assert aimock.requests() == []


class TestBadOptions:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("model", ""),
            ("base_url", "example.org"),
            ("base_url", "file:///etc/passwd"),
            ("timeout", 0),
            ("max_tokens", 0),
            ("temperature", 3),
            ("tool_choice", ""),
            ("stream", "no"),
            ("parallel_tool_calls", None),
            ("offers", ["nothing"]),
            ("context_tokens", 0),
            ("thinking", "low"),
            ("extra_body", {"x": object()}),
            ("extra_body", [1]),
            ("extra_body", {"tools": {"googleSearch": {}}}),
            ("extra_body", {"generationConfig": 3}),
        ],
    )
    def test_a_bad_value_is_refused_at_once(self, name: str, value: Any) -> None:
        given: dict[str, Any] = {"model": MODEL, name: value}
        with pytest.raises(InvalidValue, match=name):
            GeminiRuntime(**given)

    def test_an_unknown_keyword_is_refused(self) -> None:
        given: dict[str, Any] = {"colour": "red"}
        with pytest.raises(TypeError, match="colour"):
            GeminiRuntime(MODEL, **given)

    async def test_a_bad_option_of_a_task_is_refused_before_anything_is_written(self) -> None:
        given = task(**{"gemini/max_tokens": 0})
        async with runtime("http://127.0.0.1:9") as made:
            with pytest.raises(CannotStart, match="gemini/max_tokens"):
                await made.dispatch(given)
            assert await made.get_many([given.id]) == {}

    async def test_without_a_key_it_reads_and_controls_but_does_not_dispatch(self) -> None:
        async with GeminiRuntime(MODEL) as made:
            assert await made.get_many(["x"]) == {}
            with pytest.raises(CannotStart, match="GEMINI_API_KEY"):
                await made.dispatch(task())
