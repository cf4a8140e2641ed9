"""The transcript as the input of each API."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel import CannotStart
from agentic_kernel_engine.loop import AskUser, FinalAnswer, ToolCall, UserMessage
from agentic_kernel_engine.providers import DOCUMENTS, IMAGES, conversation, provider
from agentic_kernel_openai import OpenAIChatPlanner, OpenAIPlanner
from agentic_kernel_openai.chat_messages import messages_of
from agentic_kernel_openai.responses_input import items_of

from .asking import KEY, seen, turn, without_tools

WIRE = "openai/responses"
PICTURE = {"type": "image", "media_type": "image/png", "data": "AAAA"}
LINK = {"type": "image", "url": "https://example.org/cat.png"}
DATA = "data:image/png;base64,AAAA"
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
CALLED = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": "{}"}


def items(*more: Any, **changes: Any) -> list[Any]:
    return items_of(conversation(seen(*more, **changes), WIRE))


def messages(*more: Any, told: str = "", **changes: Any) -> list[Any]:
    return messages_of(told, conversation(seen(*more, **changes), "openai/chat"))


def test_calls_and_results_are_items_that_name_each_other() -> None:
    called = turn(ToolCall("add", {"a": 1, "b": 2}, "c1"), said="I add.", output=3)
    assert items(called, UserMessage("And then?")) == [
        {"role": "user", "content": "How much is 1 + 2?"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I add."}],
        },
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a":1,"b":2}'},
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
        {"role": "user", "content": "And then?"},
    ]


def test_calls_and_results_are_messages_that_name_each_other() -> None:
    called = turn(ToolCall("add", {"a": 1, "b": 2}, "c1"), said="I add.", output=3)
    function = {"name": "add", "arguments": '{"a":1,"b":2}'}
    assert messages(called, UserMessage("And then?"), told="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How much is 1 + 2?"},
        {
            "role": "assistant",
            "content": "I add.",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
        {"role": "user", "content": "And then?"},
    ]


def test_a_result_that_went_wrong_says_so() -> None:
    failed = turn(ToolCall("add", {}, "c1"), error="handler_error", message="ValueError: odd")
    said = "handler_error: ValueError: odd"
    assert items(failed)[-1]["output"] == said
    assert messages(failed)[-1]["content"] == said


def test_items_of_the_vendor_are_sent_back_as_they_were() -> None:
    left = provider(WIRE, [REASONING, CALLED], [])
    assert items(turn(ToolCall("add", {}, "c1"), provider=left, output=3)) == [
        {"role": "user", "content": "How much is 1 + 2?"},
        REASONING,
        CALLED,
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
    ]


def test_items_whose_calls_have_no_result_are_made_anew() -> None:
    left = provider(WIRE, [REASONING, CALLED], [])
    other = items(turn(ToolCall("add", {"a": 5}, "c2"), provider=left, output=3))
    assert [each.get("call_id") for each in other] == [None, "c2", "c2"]


def test_items_of_the_other_api_are_left_away() -> None:
    left = provider(WIRE, [REASONING, CALLED], [])
    called = turn(ToolCall("add", {"a": 1}, "c1"), provider=left, output=3)
    assert messages(called)[1]["tool_calls"][0]["function"]["arguments"] == '{"a":1}'


def test_images_of_a_task_and_of_a_tool_are_items() -> None:
    first, *_, result = items(
        turn(ToolCall("add", {}, "c1"), output=[PICTURE, "seen"]), metadata={IMAGES: [LINK]}
    )
    assert first["content"] == [
        {"type": "input_text", "text": "How much is 1 + 2?"},
        {"type": "input_image", "image_url": LINK["url"], "detail": "auto"},
    ]
    assert result["output"] == [
        {"type": "input_text", "text": '["seen"]'},
        {"type": "input_image", "image_url": DATA, "detail": "auto"},
    ]


def test_images_of_a_tool_come_in_a_message_of_the_user_behind_its_result() -> None:
    pictured = turn(ToolCall("add", {}, "c1"), ToolCall("add", {}, "c2"), output=PICTURE)
    shown = {"type": "image_url", "image_url": {"url": DATA}}
    behind = [
        {"type": "text", "text": "What add (c1) returned:"},
        shown,
        {"type": "text", "text": "What add (c2) returned:"},
        shown,
    ]
    assert messages(pictured)[-1] == {"role": "user", "content": behind}
    *_, last = messages(pictured, UserMessage("Well?"), metadata={IMAGES: [LINK]})
    assert last == {"role": "user", "content": [*behind, {"type": "text", "text": "Well?"}]}
    answered = turn(FinalAnswer("A cat."))
    assert [each["role"] for each in messages(pictured, answered)][-2:] == ["user", "assistant"]


def test_a_message_of_chat_is_sent_back_with_the_fields_that_its_server_added() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    kept = {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [call]}
    left = provider("openai/chat", [kept], [""])
    said = turn(ToolCall("add", {}, "c1"), provider=left, output=3)
    assert messages(said)[1] == kept
    other = turn(ToolCall("add", {}, "c9"), provider=left, output=3)
    assert "reasoning_content" not in messages(other)[1]


@pytest.mark.parametrize(
    ("answer", "approved"), [("yes", True), ("Approve.", True), ("no", False), ("yes, but", False)]
)
def test_an_answer_about_a_hosted_mcp_call_is_its_approval(answer: str, approved: bool) -> None:
    wish = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "ask"}
    asked = turn(AskUser("May it?"), provider=provider(WIRE, [wish], []), output=answer)
    _, kept, response = items(asked)
    assert kept == wish
    assert (response["type"], response["approval_request_id"]) == (
        "mcp_approval_response",
        "mcpr_1",
    )
    assert (response["approve"], response.get("reason")) == (
        approved,
        None if approved else answer,
    )


BILL = {
    "type": "document", "media_type": "application/pdf", "data": "JVBERi0xLjQK", "name": "b.pdf",
}  # fmt: skip
FAR = {"type": "document", "url": "https://example.org/a.pdf"}


def test_documents_of_a_task_stand_before_its_text() -> None:
    context = without_tools(metadata={DOCUMENTS: [BILL]})
    [message] = items_of(conversation(context, "openai/responses"))
    address = "data:application/pdf;base64,JVBERi0xLjQK"
    assert message["content"] == [
        {"type": "input_file", "filename": "b.pdf", "file_data": address},
        {"type": "input_text", "text": "How much is 1 + 2?"},
    ]
    [message] = messages_of("", conversation(context, "openai/chat"))
    assert message["content"] == [
        {"type": "file", "file": {"filename": "b.pdf", "file_data": address}},
        {"type": "text", "text": "How much is 1 + 2?"},
    ]
    context = without_tools(metadata={DOCUMENTS: [FAR], IMAGES: [PICTURE]})
    [message] = items_of(conversation(context, "openai/responses"))
    assert message["content"][0] == {"type": "input_file", "file_url": FAR["url"]}
    assert [part["type"] for part in message["content"]] == [
        "input_file", "input_text", "input_image",
    ]  # fmt: skip


async def test_chat_takes_documents_by_their_content_only() -> None:
    task = without_tools(metadata={DOCUMENTS: [FAR]}).task
    planner = OpenAIChatPlanner("gpt-5", api_key=KEY)
    with pytest.raises(CannotStart, match="takes the content, so give data"):
        await planner.accept(task)
    await OpenAIPlanner("gpt-5", api_key=KEY).accept(task)
