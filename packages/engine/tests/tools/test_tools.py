"""Tools: what they are, where they are found, and what they are given."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from agentic_kernel import InvalidValue, Task
from agentic_kernel_engine.plans.observation import MISSING_SCOPES
from agentic_kernel_engine.tools.registry import ToolRegistry
from agentic_kernel_engine.tools.tool import Tool, ToolContext, Tools, tool

from .calling import ANYTHING, call, context, echo, returning

# What a tool is


def test_where_nothing_is_said_a_tool_is_treated_with_care() -> None:
    made = returning(1)
    assert (made.effect, made.idempotent, made.has_effect, made.repeatable) == (
        "write", False, True, False,
    )  # fmt: skip
    assert (made.scopes, made.timeout, made.concurrent) == (frozenset(), None, True)


@pytest.mark.parametrize(
    ("effect", "idempotent", "has_effect", "repeatable"),
    [
        ("none", False, False, True),
        ("read", False, False, True),
        ("write", False, True, False),
        ("write", True, True, True),
        ("destructive", False, True, False),
        ("destructive", True, True, True),
    ],
)
def test_what_may_be_repeated_after_a_crash(
    effect: Any, idempotent: bool, has_effect: bool, repeatable: bool
) -> None:
    made = returning(1, effect=effect, idempotent=idempotent)
    assert (made.has_effect, made.repeatable) == (has_effect, repeatable)


@pytest.mark.parametrize(
    "name", ["", "x" * 65, "a b", "a.b", "a\n", "é", "ａ", "../x", "a\0", None, 3], ids=ascii
)
def test_a_name_that_providers_do_not_take_is_refused(name: Any) -> None:
    with pytest.raises(InvalidValue, match="name: is"):
        Tool(name, print, input_schema=ANYTHING)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"handler": 3}, "handler: must be callable"),
        ({"effect": "some"}, "effect: is 'some'; use none, read, write, destructive"),
        ({"timeout": 0}, "timeout: is 0"),
        ({"timeout": float("nan")}, "timeout: is nan"),
        ({"timeout": float("inf")}, "timeout: is inf"),
        ({"timeout": -1}, "timeout: is -1; use a number of seconds above 0"),
        ({"timeout": True}, "timeout: is True"),
        ({"timeout": "3"}, "timeout: is '3'"),
        ({"timeout": 10**400}, "timeout: is a number of 1329 bits"),
        ({"description": None}, "description: must be a string, not NoneType"),
        ({"description": "a\ud800"}, "description: holds the lone surrogate"),
        ({"description": "a\0"}, "description: holds a NUL character"),
        ({"description": "a\x1b[2J"}, "description: has the invisible character U+001B at index 1"),
        ({"description": "a\u202eb"}, "the invisible character U+202E"),
        ({"description": "a\u3164b"}, "the invisible character U+3164"),
        ({"description": "a\u200bb"}, "the invisible character U+200B"),
        ({"description": "hi\U000e0041"}, "the invisible character U+E0041"),
        ({"scopes": "files"}, "scopes: is 'files'; give a list of up to"),
        ({"input_schema": []}, "input_schema: must be a mapping"),
        ({"input_schema": {}}, 'input_schema: must have "type": "object"'),
        ({"input_schema": {"type": "object", "const": object()}}, "input_schema['const']"),
        ({"input_schema": {"type": "object", "properties": 3}}, "schema['properties']"),
        ({"input_schema": {"type": "object", "$ref": "http://192.0.2.1/"}}, "nothing is fetched"),
        ({"output_schema": {"type": "nonsense"}}, "is not accepted"),
        ({"output_schema": 3}, "output_schema: must be a mapping"),
    ],
)
def test_a_tool_that_could_not_be_used_is_refused_when_it_is_made(
    wrong: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidValue) as caught:
        Tool(**{"name": "a", "handler": print, "input_schema": ANYTHING, **wrong})
    assert words in str(caught.value)


def test_a_description_may_have_lines_and_any_script() -> None:
    said = (
        "Finds files.\n\t- \u26a0\ufe0f \u0645\u06cc\u200c\u062e, \u200f\u05d0, \u4e2d\u3000\u6587"
    )
    assert Tool("a", print, input_schema=ANYTHING, description=said).description == said


# Where tools are found


def add(a: int, b: int = 1) -> int:
    return a + b


def test_a_registry_holds_tools_and_functions_in_their_order() -> None:
    made = returning(1)
    tools = Tools(made, add)
    assert isinstance(tools, ToolRegistry)
    assert [each.name for each in tools.tools()] == ["give", "add"]
    assert tools.find("give") is made
    assert tools.find("add") is tools.tools()[1]
    assert tools.find("Add") is None


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidValue, match="two tools called 'add'"):
        Tools(add, tool(add))


# What a tool is given


async def test_a_raw_tool_gets_its_arguments_as_one_dict() -> None:
    async def handler(given: dict[str, Any]) -> Any:
        return given

    schema = {"type": "object", "properties": {"not a name": {"type": "integer"}}}
    made = Tool("echo", handler, input_schema=schema)
    assert (await call(made, {"not a name": 1})).output == {"not a name": 1}


async def test_a_typed_tool_gets_them_by_name_and_its_own_defaults() -> None:
    made = tool(add)
    assert (await call(made, {"a": 1})).output == 2
    assert (await call(made, {"a": 1, "b": 5})).output == 6


async def test_what_a_tool_does_to_its_arguments_and_its_result_stays_with_it() -> None:
    kept: list[Any] = []

    async def handler(arguments: dict[str, Any]) -> Any:
        arguments["list"].append("more")
        kept.append(arguments)
        return arguments

    @tool
    async def typed(deep: dict[str, Any]) -> Any:
        deep["list"].append("more")

    arguments = {"list": ["one"]}
    observation = await call(Tool("grab", handler, input_schema=ANYTHING), arguments)
    kept[0]["list"].clear()
    assert observation.output == {"list": ["one", "more"]}
    assert arguments == {"list": ["one"]}
    assert (await call(typed, {"deep": arguments})).ok
    assert arguments == {"list": ["one"]}


async def test_frozen_arguments_of_a_task_are_taken() -> None:
    task = Task.new(
        summary="", instructions="", runtime_kind="test", metadata={"acme/a": {"b": [1, {"c": 2}]}}
    )
    observation = await call(Tool("echo", echo, input_schema=ANYTHING), task.metadata)
    assert observation.output == {"acme/a": {"b": [1, {"c": 2}]}}


async def test_the_context_reaches_a_typed_and_a_raw_tool_and_is_no_argument() -> None:
    @tool
    async def typed(told: ToolContext, a: int) -> Any:
        return [told.task_id, told.step, told.index, told.key, told.principal.tenant, a]

    async def handler(arguments: dict[str, Any], *, host: ToolContext) -> Any:
        return [host.key, arguments["a"]]

    assert list(typed.input_schema["properties"]) == ["a"]
    assert (await call(typed, {"a": 1})).output == ["task-1", 3, 1, "task-1:3:1:abc", "acme", 1]
    raw = Tool("raw", handler, input_schema=ANYTHING)
    assert (await call(raw, {"a": 1})).output == ["task-1:3:1:abc", 1]


async def test_plain_functions_run_in_a_thread_and_inline_ones_do_not() -> None:
    def where(arguments: dict[str, Any]) -> Any:
        return threading.get_ident()

    here = threading.get_ident()
    assert (await call(Tool("aside", where, input_schema=ANYTHING))).output != here
    assert (await call(Tool("here", where, input_schema=ANYTHING, inline=True))).output == here


async def test_any_callable_may_be_a_handler() -> None:
    class Adder:
        async def __call__(self, a: int) -> int:
            return a + 1

        def method(self, a: int) -> int:
            return a + 2

    assert (await call(tool(Adder()), {"a": 1})).output == 2
    assert (await call(tool(Adder().method), {"a": 1})).output == 3
    raw = Tool("partial", partial(echo), input_schema=ANYTHING)
    assert (await call(raw, {"a": 1})).output == {"a": 1}
    eventual = Tool("later", lambda arguments: echo(arguments), input_schema=ANYTHING)
    assert (await call(eventual, {"a": 1})).output == {"a": 1}


async def test_reports_of_progress_reach_the_loop_in_its_own_thread_and_in_order() -> None:
    seen: list[Any] = []
    here = threading.get_ident()

    def report(value: Any) -> None:
        assert threading.get_ident() == here
        seen.append(value)

    def handler(arguments: dict[str, Any], told: ToolContext) -> Any:
        for part in range(3):
            told.progress({"part": part})

    told = context()
    told.progress = report
    for inline in (False, True):
        seen.clear()
        made = Tool("work", handler, input_schema=ANYTHING, inline=inline)
        assert (await call(made, {}, told)).ok
        assert seen == [{"part": 0}, {"part": 1}, {"part": 2}]


# Scopes


async def test_a_principal_without_the_scopes_is_refused_before_anything_else() -> None:
    ran: list[str] = []

    async def handler(arguments: dict[str, Any]) -> Any:
        ran.append("ran")

    made = Tool("guarded", handler, input_schema=ANYTHING, scopes=["files:write", "files:read"])
    observation = await call(made, {}, context(None, "files:read", "other"))
    assert observation.error == MISSING_SCOPES
    assert observation.message == "requires scopes that user:7 lacks: files:write"
    assert ran == []
    assert (await call(made, {}, context(None, "files:read", "files:write"))).ok
    assert ran == ["ran"]
