"""The model's view of a step, and its possible answers."""

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
from agentic_kernel_engine.providers import functions
from agentic_kernel_engine.seams import Tool
from agentic_kernel_local.prompting import Example, answer_schema, messages

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
SHOWN = functions([ADD], ())
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
    schema = answer_schema(SHOWN, None, "auto")
    assert schema is not None
    call, answer = schema["oneOf"]
    assert call["properties"] == {
        "tool": {"const": "add"},
        "arguments": {"$ref": "#/$defs/tool-add"},
    }
    assert call["required"] == ["tool", "arguments"]
    assert answer["properties"] == {"answer": {"$ref": "#/$defs/answer"}}
    assert schema["$defs"]["answer"]["type"] == "string"


def test_a_tools_own_references_still_point_into_its_schema() -> None:
    schema = answer_schema(SHOWN, {"$ref": "#/x", "x": {"type": "number"}}, "auto")
    assert schema is not None
    moved = schema["$defs"]["tool-add"]["properties"]["numbers"]
    assert moved == {"$ref": "#/$defs/tool-add/$defs/numbers"}
    assert schema["$defs"]["answer"]["$ref"] == "#/$defs/answer/x"
    assert ADD.input_schema["properties"]["numbers"] == {"$ref": "#/$defs/numbers"}


def test_a_forced_call_leaves_no_other_form() -> None:
    for choice in ("required", "add"):
        schema = answer_schema(SHOWN, None, choice)
        assert schema is not None
        (form,) = schema["oneOf"]
        assert form["properties"]["tool"] == {"const": "add"}
        assert set(schema["$defs"]) == {"tool-add"}


def test_without_functions_the_answer_is_text_or_fits_its_own_schema() -> None:
    assert answer_schema([], None, "auto") is None
    assert answer_schema([], {"type": "integer"}, "auto") == {"type": "integer"}


def test_the_chat_has_the_examples_of_visible_tools_and_all_that_was_done() -> None:
    call = ToolCall("add", {"numbers": [2, 3]})
    step = context(
        turn(call, Observation(5, tool="add")),
        turn(Thought("hm"), Observation()),
        turn(call, Observation(error="timeout", message="too slow", tool="add")),
        Notice("Go on."),
    )
    hidden = Example("Never shown.", ToolCall("other"), 1, "1")
    chat = messages(step, "You are kind.", SHOWN, [ONE, hidden])
    assert [message["role"] for message in chat] == ["system", *["user", "assistant"] * 5, "user"]
    for part in ("You are kind.", "Be brief.", "- add: Add numbers.", "it is Monday", "tidy up"):
        assert part in chat[0]["content"]
    said = [message["content"] for message in chat[1:]]
    assert said[0] == "How much is 1 + 1?"
    assert json.loads(said[1]) == {"tool": "add", "arguments": {"numbers": [1, 1]}}
    assert said[2:5] == ["Result of add: 2", '{"answer": "2"}', "Add."]
    assert json.loads(said[5])["arguments"] == {"numbers": [2, 3]}
    assert said[6] == "Result of add: 5"
    assert said[7:9] == ['{"answer": "hm"}', "Go on."]
    assert said[10] == "add failed: timeout: too slow\n\nGo on."
    assert "Never shown." not in said


def test_without_functions_the_conversation_is_plain_text() -> None:
    step = context(turn(FinalAnswer("Done."), Observation()), UserMessage("More."), tools=())
    step.instructions, step.memories, step.goals = [], [], []
    assert messages(step, None, [], [ONE]) == [
        {"role": "user", "content": "Add."},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "More."},
    ]


def test_the_schema_of_the_final_answer_is_shown() -> None:
    step = context(tools=())
    step.output_schema = {"type": "string", "description": "A colour."}
    assert "A colour." in messages(step, None, [], [])[0]["content"]
