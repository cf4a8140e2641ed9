"""An answer put together from its events: data in, data out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from google.genai.types import Candidate, GenerateContentResponse

from agentic_kernel_conformance.planner_contexts import tools
from agentic_kernel_engine.loop import AskUser, Delta, FinalAnswer, Plan, ToolCall, Usage
from agentic_kernel_engine.providers import (
    OFFERS,
    Counted,
    Malformed,
    Unusable,
    functions,
    plan_of,
)
from agentic_kernel_gemini import PRICES
from agentic_kernel_gemini.reply import Reply

ADD = {"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}}
SIGNED = {**ADD, "thoughtSignature": "c2ln"}


def event(*parts: Any, end: str | None = None, **counts: int) -> Any:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if end is not None:
        candidate["finishReason"] = end
    made: dict[str, Any] = {"candidates": [candidate], "modelVersion": "gemini-x"}
    if counts:
        made["usageMetadata"] = counts
    return GenerateContentResponse.model_validate_json(msgspec.json.encode(made))


def odd(part: dict[str, Any]) -> Any:
    """An event with a lone surrogate, which no JSON text of msgspec has."""
    content = {"role": "model", "parts": [{"text": "x"}, part]}
    candidate = {"content": content, "finishReason": "STOP"}
    return GenerateContentResponse.model_validate({"candidates": [candidate]})


def taken(
    *events: Any, most: int | None = 4096, parallel: bool = True
) -> tuple[Reply, list[Delta]]:
    reply = Reply(4, most, parallel)
    return reply, [delta for each in events for delta in reply.read(each)]


def planned(reply: Reply, schema: Any = None) -> Plan:
    return plan_of(reply.answer(), functions(tools(), [OFFERS["ask_user"]]), schema, "gemini")


def test_text_is_the_final_answer() -> None:
    reply, deltas = taken(event({"text": "All "}), event({"text": "well."}, end="STOP"))
    assert deltas == [Delta("All "), Delta("well.")]
    plan = planned(reply)
    assert plan.actions == (FinalAnswer("All well."),)
    assert (plan.text, plan.provider, plan.model) == ("", None, "gemini-x")


def test_under_a_schema_it_is_the_json_in_it() -> None:
    reply, _ = taken(event({"text": '{"a": 1}'}, end="STOP"))
    assert planned(reply, {"type": "object"}).actions == (FinalAnswer({"a": 1}),)


def test_parallel_calls_have_the_ids_of_the_api_or_their_own() -> None:
    named = {"functionCall": {"name": "erase", "args": None, "id": "x1"}}
    reply, deltas = taken(
        event({"text": "So:"}), event(ADD, named), event({"text": ""}, end="STOP")
    )
    assert deltas[1:] == [Delta('{"a":1,"b":2}', "arguments"), Delta("{}", "arguments")]
    plan = planned(reply)
    assert plan.actions == (
        ToolCall("add", {"a": 1, "b": 2}, "call_4_0"),
        ToolCall("erase", {}, "x1"),
    )
    assert plan.text == "So:"


def test_only_the_first_call_counts_without_parallel_calls() -> None:
    reply, deltas = taken(event(SIGNED, ADD, end="STOP"), parallel=False)
    assert len(deltas) == 1
    plan = planned(reply)
    assert plan.actions == (ToolCall("add", {"a": 1, "b": 2}, "call_4_0"),)
    assert plan.provider == {"impl": "gemini", "items": [SIGNED]}


def test_signatures_are_kept_where_they_were_and_summaries_of_thoughts_are_not() -> None:
    thought = {"text": "Hm.", "thought": True}
    reply, deltas = taken(
        event(thought),
        event({"text": "S"}),
        event({"text": "o:"}),
        event(SIGNED, ADD),
        event({"text": "", "thoughtSignature": "ZW5k"}, end="STOP"),
    )
    assert deltas[0] == Delta("Hm.", "reasoning")
    plan = planned(reply)
    assert plan.reasoning == "Hm."
    assert plan.provider == {
        "impl": "gemini",
        "items": [{"text": "So:"}, SIGNED, ADD, {"text": "", "thoughtSignature": "ZW5k"}],
    }


def test_what_a_servers_own_tool_did_is_kept() -> None:
    ran = {"executableCode": {"language": "PYTHON", "code": "1"}}
    reply, deltas = taken(event(ran, {"text": "1"}, end="STOP"))
    assert deltas == [Delta("1")]
    plan = planned(reply)
    assert plan.actions == (FinalAnswer("1"),)
    assert plan.provider == {"impl": "gemini", "items": [ran, {"text": "1"}]}


def test_an_offer_is_an_action_and_its_call_keeps_its_name() -> None:
    asked = {"functionCall": {"name": "ask_user", "args": {"question": "Why?"}}}
    plan = planned(taken(event(asked, end="STOP"))[0])
    assert plan.actions == (AskUser("Why?"),)
    assert plan.provider is not None
    assert plan.provider["calls"] == ["call_4_0"]


@pytest.mark.parametrize(
    ("reason", "name", "category"),
    [
        ("MAX_TOKENS", "max_tokens", None),
        ("SAFETY", "content_filter", None),
        ("PROHIBITED_CONTENT", "content_filter", None),
        ("RECITATION", "content_filter", None),
    ],
)
def test_an_answer_that_was_cut_fails(reason: str, name: str, category: Any) -> None:
    reply, _ = taken(event({"text": "So:"}, end=reason))
    with pytest.raises(Unusable) as caught:
        planned(reply)
    assert caught.value.name == name
    assert caught.value.metadata["text"] == "So:"


def test_a_prompt_that_was_blocked_fails_and_ends_the_answer() -> None:
    blocked = GenerateContentResponse.model_validate_json(
        b'{"promptFeedback": {"blockReason": "OTHER"}, "usageMetadata": {"promptTokenCount": 5}}'
    )
    reply, _ = taken(blocked)
    assert reply.done
    assert reply.used() == Counted(Usage(5, 4096))  # The API leaves out the count of no output.
    with pytest.raises(Unusable) as caught:
        planned(reply)
    assert caught.value.name == "content_filter"


@pytest.mark.parametrize(
    "reason",
    ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "OTHER", "NO_IMAGE",
     "MISSING_THOUGHT_SIGNATURE", "IMAGE_OTHER", "MALFORMED_RESPONSE"],
)  # fmt: skip
def test_an_answer_that_the_server_could_not_end_is_told_with_its_reason(reason: str) -> None:
    with pytest.raises(Malformed, match=f"answer: {reason}$"):
        planned(taken(event({"text": "So:"}, end=reason))[0])


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("no end", [event({"text": "x"})]),
        ("nothing", [event(end="STOP")]),
        ("a piece after the end", [event({"text": "x"}, end="STOP"), event({"text": "y"})]),
        ("two ends", [event({"text": "x"}, end="STOP"), event(end="STOP")]),
        ("a call without a name", [event({"functionCall": {"args": {}}}, end="STOP")]),
        ("arguments in pieces", [event({"functionCall": {"name": "add", "willContinue": True}})]),
        ("a count that cannot be", [event({"text": "x"}, end="STOP", promptTokenCount=-1)]),
        ("NUL", [event({"text": "x\0"}, end="STOP")]),
        ("code", [odd({"executableCode": {"language": "PYTHON", "code": "\ud800"}})]),
        ("output", [odd({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "\ud800"}})]),
    ],
    ids=str,
)
def test_what_is_inconsistent_is_no_answer(name: str, events: list[Any]) -> None:
    with pytest.raises(Malformed):
        planned(taken(*events)[0])


def test_what_was_used_up() -> None:
    counts = {
        "promptTokenCount": 100, "cachedContentTokenCount": 40, "toolUsePromptTokenCount": 7,
        "candidatesTokenCount": 20, "thoughtsTokenCount": 30, "totalTokenCount": 157,
    }  # fmt: skip
    reply, _ = taken(event({"text": "x"}, promptTokenCount=100), event(end="STOP", **counts))
    assert reply.used() == Counted(Usage(107, 50, 40, 30))
    price = PRICES["gemini-3.8-flash"]
    assert price.cost(Usage(107, 50, 40, 30)) == pytest.approx(
        (67 * 0.75 + 40 * 0.075 + 50 * 3.75) / 1e6
    )


def test_counts_may_come_after_the_end() -> None:
    reply, _ = taken(event({"text": "x"}, end="STOP"))
    reply.after(GenerateContentResponse.model_validate_json(
        b'{"usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 2}}'
    ))  # fmt: skip
    assert reply.used() == Counted(Usage(5, 2))
    with pytest.raises(Malformed):
        reply.after(event({"text": "y"}))


def test_the_bound_of_an_answer_that_began() -> None:
    begun = event({"text": "x"}, promptTokenCount=100, cachedContentTokenCount=40)
    assert taken(begun, most=50)[0].begun() == Counted(Usage(100, 50, 40))
    assert taken(begun, most=None)[0].begun() is None
    assert taken(event({"text": "x"}), most=50)[0].begun() is None


@pytest.mark.parametrize("form", [{}, {"x": 1}, {"candidates": [{}]}], ids=repr)
def test_an_event_without_a_part_of_an_answer_is_refused(form: Any) -> None:
    """The SDK drops what it does not know, and a lost piece would be a hole in the text."""
    odd = GenerateContentResponse.model_construct(
        candidates=[Candidate(**each) for each in form.get("candidates", [])] or None
    )
    with pytest.raises(Malformed, match="none of the parts"):
        taken(event({"text": "kept"}), odd)


def candidate(index: int, said: str, end: str | None = None) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": said}]}
    return {"index": index, "content": content, "finishReason": end}


@pytest.mark.parametrize(
    "events",
    [
        [[(0, "I say ", None)], [(1, "No", None)], [(1, ".", "STOP")], [(0, "yes", "STOP")]],
        [[(1, "No", None), (0, "I say ", None)], [(0, "yes", "STOP"), (1, ".", "STOP")]],
        [[(0, "I say yes", "STOP"), (1, "No.", "STOP")]],
    ],
)
def test_of_several_candidates_the_first_one_is_the_answer(events: list[Any]) -> None:
    made = [
        GenerateContentResponse.model_validate({"candidates": [candidate(*each) for each in few]})
        for few in events
    ]
    reply, deltas = taken(*made)
    assert "".join(each.text for each in deltas) == reply.answer().text == "I say yes"
