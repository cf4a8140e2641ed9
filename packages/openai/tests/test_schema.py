"""The instructions to the model about the form of a final answer."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel_engine.providers import is_strict
from agentic_kernel_openai import OpenAIPlanner

from .asking import ask, planning, without_tools

CLOSED = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


def answer_form(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    return OpenAIPlanner("gpt-5")._form(schema)


def of(part: Any) -> dict[str, Any]:
    return {**CLOSED, "properties": {"n": part}}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        (of({"type": "array", "items": CLOSED}), True),
        (of({"anyOf": [{"type": "null"}, CLOSED]}), True),
        ({**of({"$ref": "#/$defs/n"}), "$defs": {"n": {"enum": [1, 2]}}}, True),
        ({**CLOSED, "additionalProperties": True}, False),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "anyOf": [CLOSED]}, False),
        ({"type": "object"}, False),
        (of({"type": "object"}), False),
        (of({"type": ["object", "null"]}), False),
        (of({}), False),
        (of(True), False),
        (of({"type": "integer", "default": 1}), False),
        (of({"oneOf": [CLOSED]}), False),
        (of({"type": "array", "items": {**CLOSED, "required": []}}), False),
    ],
)
def test_a_schema_is_strict_if_the_vendor_takes_it_so(schema: dict[str, Any], strict: bool) -> None:
    assert answer_form(schema) == {"name": "answer", "schema": schema, "strict": strict}


def test_a_function_is_strict_only_with_all_arguments_required() -> None:
    closed = {"type": "object", "additionalProperties": False}
    one = {"a": {"type": "string"}}
    assert is_strict({**closed, "properties": one, "required": ["a"]})
    assert is_strict(closed)
    assert not is_strict({**closed, "properties": one})
    assert not is_strict({**closed, "properties": {"a": {"type": "string", "default": ""}}})
    assert not is_strict({"type": "object"})
    assert not is_strict({})


def test_a_schema_that_is_too_deep_is_not_strict() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(5_000):
        schema = of(schema)
    form = answer_form(schema)
    assert form is not None
    assert form["strict"] is False


@pytest.mark.parametrize(
    ("schema", "worded"),
    [({"type": "integer"}, True), ({"anyOf": [CLOSED]}, True), ({}, True), (CLOSED, False)],
)
async def test_a_schema_that_the_vendor_does_not_take_is_told_in_words(
    aimock: Any, schema: dict[str, Any], worded: bool
) -> None:
    aimock.script({"content": "1"})
    async with planning("chat", aimock.url) as planner:
        await ask(planner, without_tools(output_schema=schema))
    body = aimock.requests()[0].body
    assert ("JSON Schema" in str(body["messages"])) == worded
    assert ("response_format" in body) != worded


def test_nothing_is_told_about_a_free_answer() -> None:
    assert answer_form(None) is None
