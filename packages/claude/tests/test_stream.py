"""An answer put together from its events, which come from wherever they may: data in, data out."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from agentic_kernel_claude import PRICES
from agentic_kernel_claude.messages import Wire
from agentic_kernel_claude.stream import Reply
from agentic_kernel_conformance.planner_contexts import QUESTION, context, tools
from agentic_kernel_engine.loop import (
    AskUser,
    Delta,
    FinalAnswer,
    Plan,
    Thought,
    ToolCall,
    Usage,
)
from agentic_kernel_engine.providers import (
    OFFERS,
    Counted,
    Malformed,
    Unusable,
    conversation,
    functions,
    plan_of,
)

_event: Any = TypeAdapter(RawMessageStreamEvent).validate_python
USAGE = {"input_tokens": 10, "output_tokens": 1}
THINKING = {"type": "thinking", "thinking": "", "signature": ""}
TEXT = {"type": "text", "text": ""}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}


def began(**usage: Any) -> Any:
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**USAGE, **usage},
    }
    return _event({"type": "message_start", "message": message})


def part(index: int, block: dict[str, Any], *deltas: dict[str, Any]) -> list[Any]:
    return [
        _event({"type": "content_block_start", "index": index, "content_block": block}),
        *(piece(index, delta) for delta in deltas),
        _event({"type": "content_block_stop", "index": index}),
    ]


def piece(index: int, delta: dict[str, Any]) -> Any:
    return _event({"type": "content_block_delta", "index": index, "delta": delta})


def text(said: str) -> dict[str, Any]:
    return {"type": "text_delta", "text": said}


def arguments(said: str) -> dict[str, Any]:
    return {"type": "input_json_delta", "partial_json": said}


def thought(said: str) -> dict[str, Any]:
    return {"type": "thinking_delta", "thinking": said}


SIGNED = {"type": "signature_delta", "signature": "c2ln"}


def ended(reason: str = "end_turn", **usage: Any) -> list[Any]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        _event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5, **usage}}),
        _event({"type": "message_stop"}),
    ]


def taken(*events: Any) -> tuple[Reply, list[Delta]]:
    reply = Reply(wire(), 4096)
    deltas = [delta for event in events for delta in reply.read(event)]
    return reply, deltas


def wire() -> Wire:
    made = Wire("")
    made.add(conversation(context(QUESTION, tools()), "claude"))
    return made


def planned(reply: Reply, schema: Any = None) -> Plan:
    return plan_of(reply.answer(), functions(tools(), [OFFERS["ask_user"]]), schema, "claude")


def test_text_is_the_final_answer() -> None:
    reply, deltas = taken(began(), *part(0, TEXT, text("All "), text("well.")), *ended())
    assert deltas == [Delta("All "), Delta("well.")]
    plan = planned(reply)
    assert plan.actions == (FinalAnswer("All well."),)
    assert (plan.text, plan.provider, plan.model) == ("", None, "claude-opus-5-5")


def test_a_block_may_begin_with_null_instead_of_an_empty_text() -> None:
    begun = _event({"type": "content_block_start", "index": 0, "content_block": TEXT})
    begun.content_block.text = None
    reply, _ = taken(began(), begun, *part(0, TEXT, text("Well."))[1:], *ended())
    assert planned(reply).actions == (FinalAnswer("Well."),)


def test_under_a_schema_it_is_the_json_in_it() -> None:
    reply, _ = taken(began(), *part(0, TEXT, text('{"a": 1}')), *ended())
    assert planned(reply, {"type": "object"}).actions == (FinalAnswer({"a": 1}),)


def test_calls_in_order_and_the_text_beside_them() -> None:
    other = {**CALL, "id": "toolu_2", "name": "erase"}
    reply, deltas = taken(
        began(),
        *part(0, TEXT, text("So:")),
        *part(1, CALL, arguments('{"a": 1'), arguments(', "b": 2}')),
        *part(2, other),
        *ended("tool_use"),
    )
    assert deltas[1:] == [Delta('{"a": 1', "arguments"), Delta(', "b": 2}', "arguments")]
    plan = planned(reply)
    assert plan.actions == (
        ToolCall("add", {"a": 1, "b": 2}, "toolu_1"),
        ToolCall("erase", {}, "toolu_2"),
    )
    assert (plan.text, plan.provider) == ("So:", None)


def test_a_key_twice_in_the_arguments_is_refused_and_the_other_calls_are_not() -> None:
    whole = {**CALL, "id": "toolu_2", "input": {"a": 1, "b": 2}}
    reply, _ = taken(
        began(),
        *part(0, CALL, arguments('{"a": 1, "b": {"deep": 1'), arguments(', "deep": 2}}')),
        *part(1, whole),
        *ended("tool_use"),
    )
    refused, done = planned(reply).actions
    assert isinstance(refused, ToolCall)
    assert (refused.tool, refused.arguments, refused.id) == ("add", {}, "toolu_1")
    assert "have the key 'deep' twice in one object; nothing was done" in refused.refused
    assert done == ToolCall("add", {"a": 1, "b": 2}, "toolu_2")


def test_an_offer_is_an_action_and_its_call_keeps_its_name() -> None:
    asked = {**CALL, "name": "ask_user"}
    reply, _ = taken(
        began(), *part(0, asked, arguments('{"question": "Why?"}')), *ended("tool_use")
    )
    plan = planned(reply)
    assert plan.actions == (AskUser("Why?"),)
    assert plan.provider == {"impl": "claude", "calls": ["toolu_1"]}


def test_an_offer_that_does_not_fit_is_a_refused_call() -> None:
    asked = {**CALL, "name": "ask_user"}
    reply, _ = taken(began(), *part(0, asked, arguments('{"wish": 1}')), *ended("tool_use"))
    plan = planned(reply)
    [call] = plan.actions
    assert isinstance(call, ToolCall)
    assert (call.tool, call.id, plan.provider) == ("ask_user", "toolu_1", None)
    assert "each a string: question" in call.refused


def test_thinking_is_kept_as_it_was_with_its_signature() -> None:
    reply, deltas = taken(
        began(),
        *part(0, THINKING, thought("Hm, "), thought("add."), SIGNED),
        *part(1, {"type": "redacted_thinking", "data": "eHh4"}),
        *part(2, CALL, arguments('{"a": 1, "b": 2}')),
        *ended("tool_use"),
    )
    assert deltas[0] == Delta("Hm, ", "reasoning")
    plan = planned(reply)
    assert plan.reasoning == "Hm, add."
    assert plan.provider is not None
    assert plan.provider["items"] == [
        {"type": "thinking", "thinking": "Hm, add.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "eHh4"},
        {**CALL, "input": {"a": 1, "b": 2}},
    ]
    assert plan.provider["before"] == wire().fingerprint()


def test_what_a_servers_own_tool_did_is_kept_and_no_call_of_ours() -> None:
    found = {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [
            {
                "type": "web_search_result",
                "url": "https://example.org",
                "title": "T",
                "encrypted_content": "eHh4",
                "page_age": None,
            }
        ],
    }
    cited = {
        "type": "web_search_result_location",
        "url": "https://example.org",
        "title": "T",
        "encrypted_index": "eQ==",
        "cited_text": "yes",
    }
    reply, deltas = taken(
        began(),
        *part(0, SEARCH, arguments('{"query": "x"}')),
        *part(1, found),
        *part(2, TEXT, text("Yes."), {"type": "citations_delta", "citation": cited}),
        *ended(),
    )
    assert deltas == [Delta("Yes.")]
    plan = planned(reply)
    assert plan.actions == (FinalAnswer("Yes."),)
    assert plan.provider is not None
    assert plan.provider["items"] == [
        {**SEARCH, "input": {"query": "x"}},
        found,
        {**TEXT, "text": "Yes.", "citations": [cited]},
    ]


def test_a_turn_that_the_server_paused_is_a_thought_with_its_items() -> None:
    reply, _ = taken(
        began(), *part(0, TEXT, text("Let me see.")), *part(1, SEARCH), *ended("pause_turn")
    )
    plan = planned(reply)
    assert plan.actions == (Thought("Let me see."),)
    assert plan.provider is not None
    assert plan.provider["items"] == [{**TEXT, "text": "Let me see."}, SEARCH]


def test_events_and_pieces_that_nobody_knows_are_passed_over() -> None:
    class Unknown:
        type = "message_news"

    class Novelty:
        type = "content_block_delta"
        index = 0
        delta = Unknown()

    start, end = part(0, TEXT)[0], part(0, TEXT)[-1]
    reply, deltas = taken(began(), Unknown(), start, Novelty(), piece(0, text("x")), end, *ended())
    assert deltas == [Delta("x")]
    assert planned(reply).actions == (FinalAnswer("x"),)


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("no beginning", [*part(0, TEXT, text("x")), *ended()]),
        ("two beginnings", [began(), began(), *part(0, TEXT, text("x")), *ended()]),
        ("no end", [began(), *part(0, TEXT, text("x"))]),
        ("no reason", [began(), *part(0, TEXT, text("x")), ended()[1]]),
        ("a part left open", [began(), *part(0, TEXT, text("x"))[:-1], *ended()]),
        ("a part twice", [began(), *part(0, TEXT, text("x")), *part(0, TEXT), *ended()]),
        ("a part left out", [began(), *part(1, TEXT, text("x")), *ended()]),
        ("a part behind the end", [began(), *ended(), *part(0, TEXT, text("x"))]),
        ("a piece too late", [began(), *part(0, TEXT), piece(0, text("x")), *ended()]),
        ("a piece too early", [began(), piece(0, text("x")), *part(0, TEXT), *ended()]),
        ("a piece of another kind", [began(), *part(0, TEXT, arguments("{}")), *ended()]),
        ("an end twice", [began(), *part(0, TEXT), part(0, TEXT)[-1], *ended()]),
        ("half a character", [began(), *part(0, TEXT, text("\ud800")), *ended()]),
        (
            "arguments in another order",
            [began(), *part(0, CALL, arguments(', "b": 2}'), arguments('{"a": 1')), *ended()],
        ),
        (
            "arguments twice",
            [began(), *part(0, CALL, arguments('{"a": 1}'), arguments('{"a": 1}')), *ended()],
        ),
        ("arguments that are a list", [began(), *part(0, CALL, arguments("[1]")), *ended()]),
        ("nothing said", [began(), *part(0, TEXT, text(" \n")), *ended()]),
        ("thinking alone", [began(), *part(0, THINKING, thought("hm")), *ended()]),
        ("a call that is none", [began(), *part(0, TEXT, text("x")), *ended("tool_use")]),
        ("tokens below zero", [began(input_tokens=-1), *part(0, TEXT, text("x")), *ended()]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_inconsistent_is_no_answer(name: str, events: list[Any]) -> None:
    with pytest.raises((Malformed, UnicodeEncodeError)):
        planned(taken(*events)[0])


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        ("max_tokens", "max_tokens"),
        ("model_context_window_exceeded", "context_length"),
        ("refusal", "refusal"),
    ],
)
def test_an_answer_that_was_cut_fails_also_within_a_call(reason: str, name: str) -> None:
    reply, _ = taken(
        began(), *part(0, TEXT, text("So:")), *part(1, CALL, arguments('{"a"')), *ended(reason)
    )
    with pytest.raises(Unusable) as caught:
        planned(reply)
    assert caught.value.name == name
    assert caught.value.metadata == {"text": "So:", "category": None}


def test_a_refusal_says_why_if_the_api_does() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
    delta = {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details}
    told = _event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}})
    reply, _ = taken(began(), told, ended()[1])
    with pytest.raises(Unusable, match=r"Not this\.") as caught:
        planned(reply)
    assert caught.value.metadata == {"text": "Not this.", "category": "cyber"}


def test_what_was_used_up() -> None:
    reply, _ = taken(
        began(cache_read_input_tokens=100, cache_creation_input_tokens=20),
        *part(0, TEXT, text("x")),
        *ended(output_tokens=50, output_tokens_details={"thinking_tokens": 30}),
    )
    counted = reply.used()
    assert counted is not None
    assert counted == Counted(Usage(130, 50, 100, 30), 20)
    cost = PRICES["claude-opus-5-5"].cost(counted.usage, counted.written)
    assert cost == pytest.approx((10 * 4 + 100 * 0.2 + 20 * 5 + 50 * 20) / 1e6)


def test_later_counts_are_taken_for_those_before() -> None:
    reply, _ = taken(began(), *part(0, TEXT, text("x")), *ended(input_tokens=12))
    assert reply.used() == Counted(Usage(12, 5))


class TestAtOnce:
    def message(self, *content: dict[str, Any], reason: str = "end_turn") -> Any:
        return TypeAdapter(Message).validate_python(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": list(content),
                "stop_reason": reason,
                "stop_sequence": None,
                "usage": USAGE,
            }
        )

    def plan(self, message: Any) -> Plan:
        reply = Reply(wire(), 4096)
        reply.whole(message)
        return planned(reply)

    def test_text_and_calls(self) -> None:
        called = {**CALL, "input": {"a": 1, "b": 2}}
        plan = self.plan(self.message({**TEXT, "text": "So:"}, called, reason="tool_use"))
        assert plan.actions == (ToolCall("add", {"a": 1, "b": 2}, "toolu_1"),)
        assert plan.text == "So:"

    def test_thinking(self) -> None:
        signed = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
        plan = self.plan(self.message(signed, {**TEXT, "text": "x"}))
        assert plan.reasoning == "hm"
        assert plan.provider is not None
        assert plan.provider["items"] == [signed, {**TEXT, "text": "x"}]

    @pytest.mark.parametrize("other", ["<html>", None, 3, {"type": "message"}], ids=str)
    def test_something_else_is_no_answer(self, other: Any) -> None:
        with pytest.raises(Malformed):
            self.plan(other)


@pytest.mark.parametrize("bad", ["\0", "\ud800"], ids=ascii)
def test_a_block_that_no_store_accepts_is_asked_for_again(bad: str) -> None:
    """Refused here, and so as a bad response, which is repeated."""
    for block in ({**TEXT, "text": bad}, {**CALL, "id": bad}, {**CALL, "name": bad}):
        reply = Reply(Wire("", [], bound=True), 4096)
        list(reply.read(began()))
        with pytest.raises(Malformed):
            list(reply.read(part(0, block)[0]))


def test_the_output_at_the_beginning_does_not_stand_for_the_output_at_the_end() -> None:
    reply = Reply(Wire(), 4096)
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    for event in (
        began(),
        *part(0, TEXT, text("Hi.")),
        {**end, "usage": {"output_tokens": None}},
        {"type": "message_stop"},
    ):
        list(reply.read(event))
    usage = reply.answer().usage
    assert usage == Counted(Usage(10, 0), 0, ("output_tokens",))
    assert reply.used() == Counted(Usage(10, 4096))


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("mcp_tool_use", "id"), ("mcp_tool_use", "name"), ("mcp_tool_use", "server_name"),
        ("server_tool_use", "id"), ("server_tool_use", "name"),
        ("mcp_tool_result", "tool_use_id"), ("web_search_tool_result", "tool_use_id"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", [None, 7], ids=["null", "a number"])
def test_a_block_that_could_not_be_sent_back_is_no_answer(
    kind: str, field: str, value: Any
) -> None:
    names = ("id", "name", "server_name", "tool_use_id")
    block = {"type": kind, "content": [], **dict.fromkeys(names, "x"), field: value}
    whole = {"type": "message", "model": "m", "content": [block], "stop_reason": "end_turn"}
    with pytest.raises(Malformed, match=field):
        Reply(Wire(), None).whole(whole)
