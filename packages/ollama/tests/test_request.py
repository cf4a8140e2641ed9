"""Requests to ``/api/chat``: data in, data out, as the SDK sends it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ollama import Tool

from agentic_kernel_engine.loop import (
    AskUser,
    FinalAnswer,
    PlannerError,
    Remaining,
    Thought,
    ToolCall,
    UserMessage,
)
from agentic_kernel_engine.providers import OFFERS, Function
from agentic_kernel_ollama.tools import tool_of

from .asking import add, ask, planning, seen, task, turn
from .lines import LineServer, done, said

PNG = b64encode(b"\x89PNG not quite").decode()
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}


async def asked(lines: LineServer, *more: Any, options: Any = None, **changes: Any) -> Any:
    """The body of the request that a context becomes."""
    lines.give("/api/chat", said(content="{}"), done())
    async with planning(lines.url, **(options or {})) as planner:
        await ask(planner, seen(*more, **changes))
    [body] = lines.bodies("/api/chat")
    return body


async def test_a_request_has_nothing_that_nobody_asked_for(lines: LineServer) -> None:
    assert await asked(lines, tools=[]) == {
        "model": "qwen3:8b",
        "stream": True,
        "messages": [{"role": "user", "content": "How much is 1 + 2?"}],
        "tools": [],
        "options": {},
    }


async def test_what_the_user_sets_is_sent(lines: LineServer) -> None:
    body = await asked(
        lines,
        options={
            "think": "low",
            "keep_alive": -1,
            "temperature": 0.5,
            "max_tokens": 7,
            "options": {"num_ctx": 4096, "seed": 3, "min_p": 0.1},
            "system": "Be brief.",
            "stream": True,
        },
    )
    assert (body["think"], body["keep_alive"]) == ("low", -1)
    assert body["options"] == {
        "num_ctx": 4096, "seed": 3, "min_p": 0.1, "num_predict": 7, "temperature": 0.5,
    }  # fmt: skip
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}


async def test_thinking_can_be_turned_off(lines: LineServer) -> None:
    body = await asked(lines, options={"think": False, "keep_alive": "10m"})
    assert (body["think"], body["keep_alive"]) == (False, "10m")


async def test_a_task_sets_its_own(lines: LineServer) -> None:
    body = await asked(lines, task=task(max_tokens=5, temperature=0, system="Be kind."))
    assert body["options"] == {"num_predict": 5, "temperature": 0}
    assert body["messages"][0]["content"] == "Be kind."


async def test_no_more_tokens_are_asked_for_than_are_left(lines: LineServer) -> None:
    body = await asked(lines, remaining=Remaining(9, output_tokens=3))
    assert body["options"]["num_predict"] == 3


async def test_a_conversation(lines: LineServer) -> None:
    left = {"impl": "ollama", "items": [{"thinking": "Hm."}]}
    body = await asked(
        lines,
        turn(ToolCall("add", {"a": 1, "b": None}, "call_0_0"), said="So:", provider=left, output=3),
        turn(ToolCall("gone", {}, "call_1_0"), error="unknown_tool", message="there is no gone"),
        UserMessage("And then?"),
        turn(FinalAnswer("Three."), error="mismatch", message="a number is asked for"),
    )
    call = {"function": {"name": "add", "arguments": {"a": 1, "b": None}}}
    gone = {"function": {"name": "gone", "arguments": {}}}
    assert body["messages"] == [
        {"role": "user", "content": "How much is 1 + 2?"},
        {"role": "assistant", "content": "So:", "thinking": "Hm.", "tool_calls": [call]},
        {"role": "tool", "tool_name": "add", "content": "3"},
        {"role": "assistant", "tool_calls": [gone]},
        {"role": "tool", "tool_name": "gone", "content": "unknown_tool: there is no gone"},
        {"role": "user", "content": "And then?"},
        {"role": "assistant", "content": "Three."},
        {"role": "user", "content": "mismatch: a number is asked for"},
    ]


async def test_an_answer_is_never_last(lines: LineServer) -> None:
    """The model would take it for the beginning of its own."""
    body = await asked(lines, turn(Thought("Hm.")))
    assert body["messages"][-2:] == [
        {"role": "assistant", "content": "Hm."},
        {"role": "user", "content": "Go on."},
    ]


async def test_what_another_vendor_left_is_not_sent(lines: LineServer) -> None:
    left = {"impl": "claude", "items": [{"type": "thinking", "thinking": "x"}]}
    body = await asked(lines, turn(ToolCall("add", {}, "toolu_1"), provider=left, output=3))
    assert "thinking" not in body["messages"][1]


async def test_an_offer_is_called_again_as_it_was(lines: LineServer) -> None:
    left = {"impl": "ollama", "calls": ["call_0_0"]}
    body = await asked(lines, turn(AskUser("Why?"), provider=left), UserMessage("Because."))
    call = {"function": {"name": "ask_user", "arguments": {"question": "Why?"}}}
    assert body["messages"][1] == {"role": "assistant", "tool_calls": [call]}


class TestSchemas:
    async def test_a_schema_constrains_an_answer_where_nothing_can_be_called(
        self, lines: LineServer
    ) -> None:
        body = await asked(lines, output_schema=SCHEMA, tools=[])
        assert body["format"] == SCHEMA
        assert '"answer":{"type":"integer"}' in body["messages"][0]["content"]

    async def test_beside_tools_it_is_told_in_words(self, lines: LineServer) -> None:
        body = await asked(lines, output_schema=SCHEMA)
        assert "format" not in body
        assert '"answer":{"type":"integer"}' in body["messages"][0]["content"]
        assert len(body["tools"]) == 1

    async def test_a_model_that_is_not_to_call_is_shown_nothing(self, lines: LineServer) -> None:
        body = await asked(lines, output_schema=SCHEMA, options={"tool_choice": "none"})
        assert (body["tools"], body["format"]) == ([], SCHEMA)

    def sent(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """A tool as the SDK sends it."""
        made = tool_of(Function("look", "Looks.", schema))
        sent: dict[str, Any] = Tool.model_validate(made).model_dump(exclude_none=True)["function"]
        return sent

    async def test_a_simple_one_is_sent_as_it_is(self, lines: LineServer) -> None:
        body = await asked(lines)
        [sent] = body["tools"]
        assert sent["type"] == "function"
        assert sent["function"]["description"] == "Add two numbers."
        assert sent["function"]["parameters"] == {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        }
        assert add.input_schema["additionalProperties"] is False

    @pytest.mark.parametrize(
        "part",
        [
            {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            {"type": "object", "properties": {"x": {"type": "string"}}},
            {"type": "integer", "minimum": 3},
            {"$ref": "#/$defs/X"},
            True,
        ],
    )
    def test_what_the_sdk_does_not_send_is_told_in_words(self, part: Any) -> None:
        schema = {"type": "object", "properties": {"a": part}}
        sent = self.sent(schema)
        assert sent["description"].startswith("Looks.\nIts arguments fit this JSON Schema: {")
        for word in ("anyOf", "minimum", "$ref", '"x"'):
            assert (word in sent["description"]) == (word in str(part).replace("'", '"'))

    def test_more_about_all_arguments_is_told_in_words(self) -> None:
        plain = {"type": "object", "properties": {"a": {"type": "string", "title": "A"}}}
        assert self.sent(plain)["description"] == "Looks."
        for more in ({"additionalProperties": True}, {"minProperties": 1}):
            assert "JSON Schema" in self.sent({**plain, **more})["description"]

    def test_offers_are_simple(self) -> None:
        for offer in OFFERS.values():
            assert "JSON Schema" not in tool_of(offer)["function"]["description"]


class TestImages:
    async def test_those_of_the_task_come_with_its_first_message(self, lines: LineServer) -> None:
        image = {"type": "image", "media_type": "image/png", "data": PNG}
        body = await asked(lines, task=task(**{"input/images": [image]}))
        assert body["messages"][0]["images"] == [PNG]

    async def test_those_of_a_tool_come_behind_its_result(self, lines: LineServer) -> None:
        far = {"type": "image", "url": "https://example.org/a.png"}
        image = {"type": "image", "media_type": "image/png", "data": PNG}
        call = ToolCall("look", {}, "call_0_0")
        body = await asked(lines, turn(call, output=["seen", image, far]))
        assert body["messages"][-2:] == [
            {"role": "tool", "tool_name": "look", "content": '["seen"]'},
            {
                "role": "user",
                "content": "What look (call_0_0) returned: (not here: https://example.org/a.png)",
                "images": [PNG],
            },
        ]

    @pytest.mark.parametrize("name", ["secret", "base64no"])
    async def test_a_path_in_the_place_of_an_image_is_not_read(
        self, lines: LineServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        """The SDK would read the file, and send it: also one whose name is Base64."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / name).write_text("do not send this")
        image = {"type": "image", "media_type": "image/png", "data": name}
        lines.give("/api/chat", said(content="{}"), done())
        async with planning(lines.url) as planner:
            with suppress(PlannerError):
                await ask(planner, seen(task=task(**{"input/images": [image]})))
            await ask(planner, seen(turn(ToolCall("look", {}, "c"), output=image)))
        assert b64encode(b"do not send this").decode() not in str(lines.requests)
        # The other one is the text of the tool's result.
        assert ("'images': " in str(lines.requests)) == (name == "base64no")

    async def test_an_address_is_refused(self, lines: LineServer) -> None:
        far = {"type": "image", "url": "https://example.org/a.png"}
        async with planning(lines.url) as planner:
            with pytest.raises(PlannerError, match="no addresses") as caught:
                await ask(planner, seen(task=task(**{"input/images": [far]})))
        assert caught.value.code == "ollama/bad_options"
        assert lines.requests == []
