"""Requests to the API: data in, data out."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import pytest
from anthropic.types import CodeExecutionTool20260521Param as CodeExecution
from anthropic.types import OutputConfigParam
from anthropic.types import WebSearchTool20260318Param as WebSearch

from agentic_kernel import InvalidValue, Task
from agentic_kernel_claude import ClaudePlanner
from agentic_kernel_claude.hosting import HOSTING, cite
from agentic_kernel_claude.options import MessagesOptions
from agentic_kernel_conformance.planner_answers import ask
from agentic_kernel_conformance.planner_contexts import QUESTION, context, tools
from agentic_kernel_engine.loop import Plan, PlannerError, Remaining, ToolCall, Turn
from agentic_kernel_engine.plans.observation import Observation
from agentic_kernel_engine.providers import DOCUMENTS, AnswerOptions, Citations, functions

CLOSED = {
    "type": "object",
    "properties": {"answer": {"type": "integer", "minimum": 0}},
    "required": ["answer"],
    "additionalProperties": False,
}


def body(
    *more: Any, options: AnswerOptions | None = None, shape: Any = None, **changes: Any
) -> dict[str, Any]:
    seen = context(QUESTION, changes.pop("tools", tools()[:1]), *more, **changes)
    planner = ClaudePlanner("m", **(shape or {}))
    asked = options or AnswerOptions()
    made, _ = planner._request(seen, asked, functions(seen.tools, planner._offers))
    return dict(made)


def test_the_least() -> None:
    assert body(tools=[]) == {
        "model": "m",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}],
    }


def test_tools_and_offers() -> None:
    asked = body(shape={"offers": ["ask_user"]})
    assert [each["name"] for each in asked["tools"]] == ["add", "ask_user"]
    assert asked["tools"][0]["input_schema"]["required"] == ["a", "b"]
    assert asked["tools"][0]["description"] == "Add two numbers."
    assert asked["tool_choice"] == {"type": "auto"}


@pytest.mark.parametrize(
    ("choice", "parallel", "sent"),
    [
        ("auto", False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("none", False, {"type": "none"}),
        ("required", True, {"type": "any"}),
        ("add", False, {"type": "tool", "name": "add", "disable_parallel_tool_use": True}),
    ],
)
def test_the_choice_of_a_tool(choice: str, parallel: bool, sent: Any) -> None:
    options = AnswerOptions(tool_choice=choice)
    assert body(options=options, shape={"parallel_tool_calls": parallel})["tool_choice"] == sent


def test_only_the_first_answer_is_forced() -> None:
    call = ToolCall("add", {"a": 1, "b": 2}, "toolu_1")
    turn = Turn(Plan((call,)), (Observation(output=3, call=call.id, tool="add"),))
    asked = body(turn, options=AnswerOptions(tool_choice="required"))
    assert asked["tool_choice"] == {"type": "auto"}


async def test_a_tool_that_is_not_shown_cannot_be_chosen() -> None:
    planner = ClaudePlanner("m", api_key="none", tool_choice="nope")
    with pytest.raises(PlannerError, match="nope") as caught:
        await ask(planner, context(QUESTION, tools()))
    assert caught.value.code == "claude/bad_options"


def test_what_is_told_beside_the_conversation() -> None:
    asked = body(
        options=AnswerOptions(system="Be brief."),
        instructions=["Be kind."],
        memories=["The sky is blue."],
        goals=["all of it"],
    )
    assert asked["system"].startswith("Be brief.\n\nBe kind.\n\nYou remember:\n- The sky is blue.")


def test_thinking_caching_and_what_else_is_wanted() -> None:
    search = {"type": "web_search_20260318", "name": "web_search"}
    asked = body(
        options=AnswerOptions(temperature=0.5),
        output_schema=CLOSED,
        shape={
            "thinking": {"type": "adaptive"},
            "cache": True,
            "extra_body": {"output_config": {"effort": "low"}, "tools": [search], "speed": "fast"},
        },
    )
    assert asked["thinking"] == {"type": "adaptive"}
    assert asked["cache_control"] == {"type": "ephemeral"}
    assert asked["output_config"]["effort"] == "low"
    assert asked["output_config"]["format"]["type"] == "json_schema"
    assert [each["name"] for each in asked["tools"]] == ["add", "web_search"]
    assert asked["extra_body"] == {"speed": "fast", "temperature": 0.5}


def test_the_efforts_are_those_of_the_sdk() -> None:
    (known, _) = get_args(get_type_hints(OutputConfigParam)["effort"])
    assert get_args(known) == MessagesOptions.efforts
    with pytest.raises(InvalidValue, match="effort: is also in extra_body="):
        ClaudePlanner("m", effort="low", extra_body={"output_config": {"effort": "high"}})
    with pytest.raises(
        InvalidValue, match=r"extra_body\.output_config: must be a mapping, not int"
    ):
        ClaudePlanner("m", extra_body={"output_config": 5})
    with pytest.raises(InvalidValue, match="seed: is no option of this API"):
        ClaudePlanner("m", seed=5)


@pytest.mark.parametrize(
    ("left", "thinking", "most"),
    [
        (100, None, 100),
        (0, None, 1),
        (None, None, 4096),
        (100, {"type": "enabled", "budget_tokens": 2000}, 2001),
        (100, {"type": "adaptive"}, 100),
    ],
)
def test_an_answer_gets_what_is_left_but_never_less_than_the_api_takes(
    left: int | None, thinking: Any, most: int
) -> None:
    remaining = Remaining(9, output_tokens=left)
    assert body(remaining=remaining, shape={"thinking": thinking})["max_tokens"] == most


def test_the_documents_of_a_task() -> None:
    bill = {"type": "document", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}
    far = {"type": "document", "url": "https://example.org/a.pdf", "name": "a.pdf"}
    task = Task.new(
        summary="", instructions=QUESTION, runtime_kind="x", metadata={DOCUMENTS: [bill, far]}
    )
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}
    assert body(task=task)["messages"][0]["content"] == [
        {"type": "text", "text": QUESTION},
        {"type": "document", "source": source, "title": "document.pdf"},
        {"type": "document", "source": {"type": "url", "url": far["url"]}, "title": "a.pdf"},
    ]


def test_tools_that_the_vendor_runs() -> None:
    hosted: Any = {"web_search": {"max_uses": 3}, "code": {}}
    asked = body(tools=[], shape={"hosted": hosted})
    assert asked["tools"] == [
        {"type": "web_search_20260318", "name": "web_search", "max_uses": 3},
        {"type": "code_execution_20260521", "name": "code_execution"},
    ]
    assert asked["tool_choice"] == {"type": "auto"}
    versions = {each["type"] for word, each in HOSTING.items() if word != "mcp"}
    known = [get_type_hints(each)["type"] for each in (WebSearch, CodeExecution)]
    assert versions == {kind for each in known for kind in get_args(each)}
    with pytest.raises(InvalidValue, match="hosted: has file_search, and this API runs no such"):
        ClaudePlanner("m", hosted=["file_search"])


def test_the_sources_of_an_answer() -> None:
    page = {
        "type": "web_search_result_location", "url": "https://a.example", "title": "A",
        "cited_text": "It is so.",
    }  # fmt: skip
    file = {"type": "page_location", "document_title": "bill.pdf", "cited_text": "42"}
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "So", "citations": [page, file]},
        {"type": "text", "text": "!", "citations": None},
    ]
    found = Citations()
    cite(found, blocks)
    assert found.further["citations"] == [
        {"url": "https://a.example", "title": "A", "text": "It is so."},
        {"title": "bill.pdf", "text": "42"},
    ]


class TestTheFormOfTheAnswer:
    def test_a_closed_schema_constrains_it(self) -> None:
        asked = body(output_schema=CLOSED)
        schema = asked["output_config"]["format"]["schema"]
        assert schema["required"] == ["answer"]
        assert "minimum" not in schema["properties"]["answer"]
        assert "system" not in asked

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "object"},
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "object", "properties": {"a": {"type": "object"}}},
            {"type": "object", "properties": {"a": {}}},
            {"type": ["string", "null"]},
            {"type": "object", "properties": {"a": True}},
            {},
        ],
        ids=str,
    )
    def test_one_that_the_api_cannot_express_is_told_in_words(self, schema: Any) -> None:
        asked = body(output_schema=schema, options=AnswerOptions(system="Be brief."))
        assert "output_config" not in asked
        assert asked["system"].startswith("Be brief.\n\nGive the final answer as JSON alone")
