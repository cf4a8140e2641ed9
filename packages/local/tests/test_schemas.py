"""Schemas that llama.cpp takes, and refusals of the others before a Task begins."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import pydantic
import pytest

from agentic_kernel import CannotStart, InvalidValue, TaskNotFound
from agentic_kernel_engine import Limits
from agentic_kernel_engine.loop import replay
from agentic_kernel_engine.providers import Function
from agentic_kernel_engine.tools.tool import Tool
from agentic_kernel_local import LocalRuntime
from agentic_kernel_local.engine import Engine, Request
from agentic_kernel_local.generation import Piece
from agentic_kernel_local.prompting import answer_schema
from agentic_kernel_local.schemas import fitted

from .conftest import CONTEXT_TOKENS, SLOTS

INTEGER = {"type": "integer"}
TEXT = {"type": "string"}
CLOSED = {"type": "object", "additionalProperties": False}


def local(**options: Any) -> LocalRuntime:
    return LocalRuntime(max_tokens=40, slots=SLOTS, context_tokens=CONTEXT_TOKENS, **options)


async def test_a_tuple_is_a_type_of_answers(engine: Engine) -> None:
    pair: Any = tuple[bool, Literal["a", "b"]]
    async with local() as runtime:
        warm, letter = (await runtime.run("Give a pair.", output_type=pair)).unwrap()
    assert (type(warm), letter in ("a", "b")) == (bool, True)


class Impossible(pydantic.BaseModel):
    a: int = pydantic.Field(ge=5, le=3)


@pytest.mark.parametrize("where", ["task", "runtime"])
async def test_a_type_without_a_value_is_refused_before_the_task_begins(
    engine: Engine, where: str
) -> None:
    async with local(**({"output_type": Impossible} if where == "runtime" else {})) as runtime:
        kind = Impossible if where == "task" else None
        task = runtime.task("Give a value.", output_type=kind)
        with pytest.raises(CannotStart, match="#/properties/a: has a minimum that is above"):
            await runtime.dispatch(task)
        with pytest.raises(TaskNotFound):
            await runtime.get(task.id)


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (True, {}),
        ({"items": True}, {"items": {}}),
        ({"items": False}, {"maxItems": 0}),
        (
            {"prefixItems": [INTEGER, TEXT], "items": False, "minItems": 2},
            {"prefixItems": [INTEGER, TEXT], "minItems": 2, "maxItems": 2},
        ),
        (
            {"prefixItems": [INTEGER, TEXT], "items": TEXT, "maxItems": 1},
            {"prefixItems": [INTEGER], "maxItems": 1},
        ),
        (
            {"properties": {"a": True}, "additionalProperties": False},
            {"properties": {"a": {}}, "additionalProperties": False},
        ),
        ({"anyOf": [True, INTEGER]}, {"anyOf": [{}, INTEGER]}),
        (
            {"type": "integer", "exclusiveMinimum": 5, "exclusiveMaximum": 7},
            {"type": "integer", "exclusiveMinimum": 5, "exclusiveMaximum": 7},
        ),
    ],
)
def test_a_schema_gets_the_form_that_llama_takes(given: Any, made: Any) -> None:
    assert fitted(given) == made


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"properties": {"a": False}}, "#/properties/a"),
        ({"items": {"minItems": 5, "maxItems": 3}}, "#/items"),
        ({"minLength": 5, "maxLength": 3}, "#"),
        ({"type": "integer", "exclusiveMinimum": 5, "exclusiveMaximum": 6}, "#"),
        ({"type": "integer", "minimum": 5.2, "maximum": 5.8}, "#"),
        ({"type": "number", "exclusiveMinimum": 5, "maximum": 5}, "#"),
        ({"anyOf": [{"$ref": "https://example.com/a"}]}, "#/anyOf/0/$ref"),
        ({"enum": []}, "#/enum"),
        ({"items": {**CLOSED, "required": ["a"]}}, "#/items/required"),
        ({**CLOSED, "properties": {"a": TEXT}, "required": ["a", "b"]}, "#/required"),
        ({"type": "string", "minLength": 2001}, "#/minLength"),
        ({"items": {"items": TEXT, "minItems": 5000}}, "#/items/minItems"),
        ({"$ref": "#"}, "#/$ref"),
        ({"anyOf": [TEXT, {"$ref": "#"}]}, "#/anyOf/1/$ref"),
        ({"$defs": {"a/b": TEXT}, "$ref": "#/$defs/a~1b"}, "#/$ref"),
        ({"$defs": {"a b": TEXT}, "$ref": "#/$defs/a%20b"}, "#/$ref"),
        (
            {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "items": TEXT},
            "#/$defs/a/$ref",
        ),
        ({"prefixItems": [INTEGER], "items": TEXT, "minItems": 2}, "#"),
    ],
)
def test_a_schema_that_llama_cannot_hold_answers_to_is_refused(given: Any, place: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        fitted(given)
    assert caught.value.path == place


async def test_a_schema_that_holds_itself_by_its_root_is_followed(engine: Engine) -> None:
    given = {
        **CLOSED,
        "properties": {"k": {"anyOf": [{"$ref": "#"}, {"const": 1}]}},
        "required": ["k"],
    }
    say = [{"role": "user", "content": "Give a value."}]
    async with engine.generate(Request(say, 40, schema=answer_schema([], given, "auto"))) as items:
        text = "".join([item.text async for item in items if isinstance(item, Piece)])
    assert re.match(r'\s*\{\s*"k"\s*:', text)


async def test_a_schema_that_no_value_fits_is_refused_before_its_task(engine: Engine) -> None:
    async with local(output_schema={**CLOSED, "required": ["a"]}) as runtime:
        with pytest.raises(CannotStart, match="#/required: names 'a', which additionalProperties"):
            await runtime.run("Give a value.")


ONE = {**CLOSED, "properties": {"a": {"enum": [1]}}, "required": ["a"]}
"""The grammar leaves one value, ``{"a": 1}``."""
UNHELD = {
    "contains": {"type": "array", "items": {"enum": [1]}, "minItems": 1, "contains": {"const": 2}},
    "dependentRequired": {**ONE, "dependentRequired": {"a": ["b"]}},
    "if": {**ONE, "if": ONE, "then": {"properties": {"a": {"const": 2}}}},
    "multipleOf": {**ONE, "properties": {"a": {"type": "integer", "enum": [1], "multipleOf": 2}}},
    "not": {**ONE, "not": {"properties": {"a": {"const": 1}}}},
    "pattern": {**ONE, "properties": {"a": {"type": "string", "enum": ["b"], "pattern": "c"}}},
}
"""Schemas that no value fits by a keyword that llama.cpp does not turn into a grammar."""
KEYWORDS = [
    pytest.param(each, marks=() if each == "if" else pytest.mark.torture) for each in sorted(UNHELD)
]


@pytest.mark.parametrize("keyword", KEYWORDS)
async def test_an_answer_is_checked_where_the_grammar_does_not_hold_it(
    engine: Engine, keyword: str
) -> None:
    async with local(output_schema=UNHELD[keyword], limits=Limits(max_iterations=1)) as runtime:
        done = await runtime.run("Give a value.")
    failure = done.task.failure
    assert (done.task.status, done.task.result) == ("failure", None)
    assert failure is not None
    assert failure.code == "engine/max_iterations"
    assert failure.metadata["answer_refused"]


@pytest.mark.parametrize("keyword", KEYWORDS[1:])
async def test_a_tool_gets_no_arguments_that_only_the_grammar_lets_through(
    engine: Engine, keyword: str
) -> None:
    calls: list[Any] = []
    act = Tool("act", calls.append, input_schema=UNHELD[keyword], inline=True)
    bound = Limits(max_iterations=1)
    async with local(tools=[act], tool_choice="act", limits=bound) as runtime:
        done = await runtime.run("Act.")
        events = (await runtime.outcome(done.task.id)).events
    assert calls == []
    [seen] = replay(events).observations
    assert seen.error == "schema_validation_failed"
    assert done.task.failure is not None


@pytest.mark.parametrize("asked", ["", r"He said \"yes\" and\nleft"], ids=["empty", "escapes"])
async def test_a_final_answer_beside_tools_is_not_empty(engine: Engine, asked: str) -> None:
    function = Function("plain", "Plain.", {"type": "object", "properties": {}})
    schema = answer_schema([function], None, "auto")
    say = [{"role": "user", "content": f'Say only: {{"answer": "{asked}"}}'}]
    async with engine.generate(Request(say, 60, schema=schema)) as items:
        text = "".join([item.text async for item in items if isinstance(item, Piece)])
    answer = json.loads(text)["answer"]
    assert answer.strip()
    if asked:
        assert {'"', "\n"} <= {*answer}
