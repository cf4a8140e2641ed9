"""What the model is shown of a step, and what it can answer with."""

from __future__ import annotations

import json
from typing import Any

from agentic_kernel import Task
from agentic_kernel_engine.loop import (
    Context,
    Entry,
    FinalAnswer,
    Notice,
    Observation,
    Plan,
    Principal,
    Remaining,
    Thought,
    ToolCall,
    Turn,
    UserMessage,
)
from agentic_kernel_engine.seams import Tool
from agentic_kernel_local.prompting import Example, action_in, action_of, action_schema, messages

ADD = Tool(
    "add",
    lambda arguments: sum(arguments["numbers"]),
    description="Add numbers.",
    input_schema={
        "type": "object",
        "properties": {"numbers": {"$ref": "#/$defs/numbers"}},
        "$defs": {"numbers": {"type": "array", "items": {"type": "number"}}},
    },
)
ONE = Example("How much is 1 + 1?", ToolCall("add", {"numbers": [1, 1]}), 2, "2")


def context(*entries: Entry, tools: tuple[Tool, ...] = (ADD,)) -> Context:
    task = Task.new(summary="", instructions="Add.", runtime_kind="local")
    transcript = [UserMessage("Add."), *entries]
    return Context(
        task, 0, transcript, tools, ["tidy up"], Remaining(5), Principal(), {}, ["Be brief."],
        ["it is Monday"], None, "",
    )  # fmt: skip


def turn(action: Any, observation: Observation) -> Turn:
    return Turn(Plan((action,)), (observation,))


def test_the_schema_is_a_call_of_each_tool_or_the_answer() -> None:
    schema = action_schema([ADD], None)
    call, answer = schema["oneOf"]
    assert call["properties"] == {
        "tool": {"const": "add"},
        "arguments": {"$ref": "#/$defs/tool-add"},
    }
    assert call["required"] == ["tool", "arguments"]
    assert answer["properties"] == {"answer": {"$ref": "#/$defs/answer"}}
    assert schema["$defs"]["answer"]["type"] == "string"


def test_a_tools_own_references_still_point_into_its_schema() -> None:
    schema = action_schema([ADD], {"$ref": "#/x", "x": {"type": "number"}})
    moved = schema["$defs"]["tool-add"]["properties"]["numbers"]
    assert moved == {"$ref": "#/$defs/tool-add/$defs/numbers"}
    assert schema["$defs"]["answer"]["$ref"] == "#/$defs/answer/x"
    assert ADD.input_schema["properties"]["numbers"] == {"$ref": "#/$defs/numbers"}


def test_what_fits_the_schema_is_an_action() -> None:
    assert action_of({"answer": 4}) == FinalAnswer(4)
    assert action_of({"tool": "add", "arguments": {"numbers": [1]}}) == ToolCall(
        "add", {"numbers": [1]}
    )


def test_the_chat_has_the_examples_of_visible_tools_and_all_that_was_done() -> None:
    call = ToolCall("add", {"numbers": [2, 3]})
    step = context(
        turn(call, Observation(5, tool="add")),
        turn(Thought("hm"), Observation()),
        turn(call, Observation(error="timeout", message="too slow", tool="add")),
        Notice("Go on."),
    )
    hidden = Example("Never shown.", ToolCall("other"), 1, "1")
    chat = messages(step, "You are kind.", [ONE, hidden])
    assert [message["role"] for message in chat] == ["system", *["user", "assistant"] * 4, "user"]
    for part in ("You are kind.", "Be brief.", "- add: Add numbers.", "it is Monday", "tidy up"):
        assert part in chat[0]["content"]
    said = [message["content"] for message in chat[1:]]
    assert said[0] == "How much is 1 + 1?"
    assert json.loads(said[1]) == {"tool": "add", "arguments": {"numbers": [1, 1]}}
    assert said[2:5] == ["Result of add: 2", '{"answer": "2"}', "Add."]
    assert json.loads(said[5])["arguments"] == {"numbers": [2, 3]}
    assert said[6] == "Result of add: 5"
    assert said[8] == "add failed (timeout): too slow\n\nGo on."
    assert "Never shown." not in said


def test_without_tools_only_an_answer_is_asked_for() -> None:
    chat = messages(context(tools=()), None, [ONE])
    assert [message["role"] for message in chat] == ["system", "user"]
    assert "call a tool" not in chat[0]["content"]
    assert len(action_schema((), None)["oneOf"]) == 1


def test_a_key_twice_in_a_call_is_refused_so_that_nothing_runs() -> None:
    action = action_in('{"tool": "add", "arguments": {"numbers": [{"a": 1, "a": 2}]}}')
    assert isinstance(action, ToolCall)
    assert (action.tool, action.arguments) == ("add", {})
    assert "have the key 'a' twice in one object; nothing was done" in action.refused
    fine = '{"tool": "add", "arguments": {"numbers": [{"a": 1}, {"a": 2}]}}'
    assert action_in(fine) == ToolCall("add", {"numbers": [{"a": 1}, {"a": 2}]})


def test_a_key_twice_in_a_final_answer_loses_no_part_of_it() -> None:
    text = '{"answer": {"count": 1, "count": 2}}'
    assert action_in(text) == FinalAnswer(text)
