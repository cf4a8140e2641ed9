"""Functions are strict if the API can enforce their schemas, and only so many."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel_claude import ClaudePlanner
from agentic_kernel_claude.strict import strict_names
from agentic_kernel_conformance.planner_contexts import QUESTION, context, tools
from agentic_kernel_engine.providers import Function, functions


def closed(required: Any = None, **properties: Any) -> dict[str, Any]:
    names = list(properties) if required is None else required
    return {
        "type": "object", "properties": properties, "required": names,
        "additionalProperties": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (closed(), True),
        (closed(a={"type": "integer"}), True),
        (closed([], a={"type": "integer", "default": 3}), True),
        (closed(a=closed(b={"type": "array", "items": {"type": "string"}})), True),
        (closed(a={"anyOf": [{"type": "string"}, {"type": "null"}]}), True),
        (closed(a={"type": "integer", "minimum": 0}), False),
        (closed(a={"type": "string", "pattern": "a"}), False),
        (closed(a={"type": "object"}), False),
        (closed(a={}), False),
        (closed(a={"$ref": "#/$defs/a"}), False),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, False),
        ({"type": "string"}, False),
        (closed([], **{f"a{n}": {"type": "string"} for n in range(25)}), False),
        (closed(**{f"a{n}": {"type": ["string", "null"]} for n in range(17)}), False),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_function_is_strict_if_the_api_can_enforce_it(schema: Any, strict: bool) -> None:
    assert bool(strict_names([Function("f", "", schema)])) == strict


def test_no_more_are_strict_than_a_request_may_have() -> None:
    many = [Function(f"f{n}", "", closed(a={"type": "string"})) for n in range(25)]
    assert len(strict_names(many)) == 20
    optional = [Function(f"f{n}", "", closed([], a={"type": "string"})) for n in range(20)]
    wide = Function("wide", "", closed([], **{f"a{n}": {"type": "string"} for n in range(10)}))
    assert "wide" not in strict_names([*optional[:19], wide])
    assert "wide" in strict_names([wide])


@pytest.mark.parametrize(
    ("model", "strict"), [("claude-opus-5-5", True), ("claude-3-haiku", False), ("smollm", False)]
)
def test_only_models_of_the_list_get_strict_functions(model: str, strict: bool) -> None:
    seen = context(QUESTION, tools()[:1])
    planner = ClaudePlanner(model)
    request, _ = planner._request(seen, planner.options, functions(seen.tools, ()))
    assert request["tools"][0].get("strict", False) is strict
