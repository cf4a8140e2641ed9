"""A validator of one's own, for the arguments and results of tools and for final answers."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Host
from agentic_kernel_engine.loop import Loop
from agentic_kernel_engine.plans.action import FinalAnswer, ToolCall
from agentic_kernel_engine.plans.observation import Observation
from agentic_kernel_engine.seams import ScriptedPlanner, Validator
from agentic_kernel_engine.tools.exceptions import ToolError
from agentic_kernel_engine.tools.schema import Fit
from agentic_kernel_engine.tools.tool import MOST_VALIDATORS, Tool

from ..scripting import Runner, World, new_task

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
CALL = ToolCall("take", {"a": 1})


class Picky:
    """Refuses every value, or only one, and counts the schemas that it compiled."""

    def __init__(self, refused: Any = ...) -> None:
        self.schemas: list[Mapping[str, Any]] = []
        self._refused = refused

    def __call__(self, schema: Mapping[str, Any]) -> Fit:
        self.schemas.append(schema)
        return self._fit

    def _fit(self, value: Any) -> str | None:
        refuses = self._refused is ... or value == self._refused
        return f"{value!r} is not for me" if refuses else None


async def take(given: Mapping[str, Any]) -> Any:
    return given["a"]


def raw(**options: Any) -> Tool:
    return Tool("take", take, input_schema=SCHEMA, effect="none", **options)


async def observed(runner: Runner, tool: Tool, **options: Any) -> list[Observation]:
    task = await runner.run(CALL, CALL, FinalAnswer("done"), tools=[tool], **options)
    assert task.status == "success"
    (*steps, _) = [e for e in await runner.events(task) if e.type == "step.observed"]
    return [Observation(**step.data["observations"][0]) for step in steps]


async def test_the_validator_of_a_loop_checks_the_arguments_of_its_tools_once_compiled(
    runner: Runner,
) -> None:
    picky = Picky({"a": 1})
    for found in await observed(runner, raw(), validator=picky):
        assert found.error == "schema_validation_failed"
        assert found.message == "arguments: {'a': 1} is not for me"
    assert picky.schemas == [SCHEMA]


async def test_it_checks_typed_functions_and_results_too(runner: Runner, world: World) -> None:
    picky = Picky(3)
    add = next(tool for tool in world.tools() if tool.name == "add")
    task = await runner.run(
        ToolCall("add", {"a": 1, "b": 2}), FinalAnswer(0), tools=[add], validator=picky
    )
    (seen, _) = [e for e in await runner.events(task) if e.type == "step.observed"]
    assert seen.data["observations"][0]["error"] == "output_schema_failed"
    assert picky.schemas == [add.input_schema, add.output_schema]


async def test_a_tool_keeps_a_validator_of_its_own_and_the_default_without_one(
    runner: Runner,
) -> None:
    own, other = Picky({"a": 2}), Picky()
    (found, _) = await observed(runner, raw(validator=own), validator=other)
    assert (found.error, found.output) == ("", 1)
    assert (own.schemas, other.schemas) == ([SCHEMA], [])
    (found, _) = await observed(runner, raw())
    assert (found.error, found.output) == ("", 1)


async def test_two_loops_share_a_tool_and_each_has_its_own_checks(runner: Runner) -> None:
    shared, strict, mild = raw(), Picky(), Picky({"a": 2})
    for validator, error in ((strict, "schema_validation_failed"), (mild, ""), (None, "")) * 2:
        found = await observed(runner, shared, validator=validator)
        assert {each.error for each in found} == {error}
    assert len(strict.schemas) == len(mild.schemas) == 1


def test_a_tool_keeps_the_checks_of_so_many_validators_and_no_more() -> None:
    tool, first = raw(), Picky()
    tool.checks(first)
    for _ in range(MOST_VALIDATORS):
        tool.checks(Picky())
    tool.checks(first)
    assert len(first.schemas) == 2
    last = tool.checks(first)
    assert tool.checks(first) is last


async def test_it_checks_the_final_answer(runner: Runner) -> None:
    picky: Validator = Picky("no")
    loop = Loop(
        ScriptedPlanner(FinalAnswer("no"), FinalAnswer("yes")), output_schema={"type": "string"},
        validator=picky,
    )  # fmt: skip
    async with Host(loop, runner.store) as host:
        task = await host.run(new_task())
        assert task.result == "yes"
    events = await runner.events(task)
    first = next(e for e in events if e.type == "step.observed").data["observations"][0]
    assert "'no' is not for me" in first["message"]


@pytest.mark.parametrize("reason", ["a \ud800", "a \0", "a" * 11_000_000], ids=range(3))
async def test_no_reason_of_a_check_keeps_a_final_answer_from_being_asked_for_again(
    runner: Runner, reason: str
) -> None:
    def picky(schema: Mapping[str, Any]) -> Fit:
        return lambda value: reason if value == "no" else None

    task = await runner.run(
        FinalAnswer("no"), FinalAnswer("yes"), output_schema={"type": "string"}, validator=picky
    )
    assert task.result == "yes"
    events = await runner.events(task)
    first = next(e for e in events if e.type == "step.observed").data["observations"][0]
    assert first["message"].startswith("the final answer: a")


def test_what_is_no_validator_is_refused() -> None:
    for given in (3, pathlib.Path(), "draft7"):
        with pytest.raises(InvalidValue, match=r"validator: is .*pass a function"):
            Loop(ScriptedPlanner(), validator=given)  # type: ignore[arg-type]
        with pytest.raises(InvalidValue, match=r"validator: is .*pass a function"):
            raw(validator=given)
    with pytest.raises(InvalidValue, match=r"validator\(\): is None"):
        Loop(ScriptedPlanner(), output_schema={}, validator=lambda schema: None)  # type: ignore[arg-type]


async def test_a_validator_with_a_bug_is_an_observation_and_not_the_end(runner: Runner) -> None:
    def broken(schema: Mapping[str, Any]) -> Any:
        raise RuntimeError("no")

    for found in await observed(runner, raw(), validator=broken):
        assert found.error == "handler_error"


class Buggy:
    """Makes checks of which those of one schema raise."""

    def __init__(self, schema: Mapping[str, Any], fault: BaseException) -> None:
        self._schema = schema
        self._fault = fault

    def __call__(self, schema: Mapping[str, Any]) -> Fit:
        return self._raise if schema == self._schema else lambda _: None

    def _raise(self, value: Any) -> str | None:
        raise self._fault


FAULTS = [
    RuntimeError("a bug"), InvalidValue("bug", "is one"), ToolError("told"), SystemExit(3),
    asyncio.CancelledError(),
]  # fmt: skip


@pytest.mark.parametrize("checked", ["arguments", "result"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
async def test_a_check_that_raises_fails_the_call_and_loses_no_effect(
    runner: Runner, checked: str, fault: BaseException
) -> None:
    async def write(given: Mapping[str, Any]) -> Any:
        ran.append(given["a"])
        return {"written": True}

    ran: list[int] = []
    result = {"type": "object", "title": "result"}
    validator = Buggy(SCHEMA if checked == "arguments" else result, fault)
    tool = Tool(
        "take", write, input_schema=SCHEMA, output_schema=result, effect="write",
        validator=validator,
    )  # fmt: skip
    (found, _) = await observed(runner, tool)
    assert found.error in ("handler_error", "output_schema_failed", "schema_validation_failed")
    assert ran == ([] if checked == "arguments" else [1, 1])


class Odd(Mapping[str, Any]):
    """A result that raises as soon as it is looked at."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("odd")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("odd")

    def __len__(self) -> int:
        return 1


async def test_a_result_that_raises_when_it_is_copied_fails_the_call(runner: Runner) -> None:
    async def give(given: Mapping[str, Any]) -> Any:
        return Odd()

    (found, _) = await observed(runner, Tool("take", give, input_schema=SCHEMA, effect="write"))
    assert found.error in ("handler_error", "output_schema_failed")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
async def test_a_check_of_the_final_answer_that_raises_loses_no_effect(
    runner: Runner, world: World, fault: BaseException
) -> None:
    validator = Buggy(SCHEMA, fault)
    script = [ToolCall("write", {"text": "a"}), FinalAnswer({"a": 1})]
    tools = [each for each in world.tools() if each.name == "write"]
    task = await runner.run(script, tools=tools, output_schema=SCHEMA, validator=validator)
    assert task.failure is not None
    assert task.failure.code == "engine/unhandled_error"
    assert world.done == ["write a"]
    (step,) = [e for e in await runner.events(task) if e.type == "step.observed"]
    assert step.data["observations"][0]["output"] == "written"
