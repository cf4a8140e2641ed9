"""One call of a tool: every way in which it can end is an observation that can be stored."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import gc
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.plans.action import ToolCall
from agentic_kernel_engine.plans.observation import (
    HANDLER_ERROR,
    OUTPUT_SCHEMA_FAILED,
    SCHEMA_VALIDATION_FAILED,
    TIMEOUT,
    Observation,
)
from agentic_kernel_engine.tools.call import MAX_OUTPUT, Invocation, perform
from agentic_kernel_engine.tools.deadline import DeadlinePassed
from agentic_kernel_engine.tools.tool import Tool, tool

from .calling import ANYTHING, call, context, echo, returning


def raising(error: BaseException, **declared: Any) -> Tool:
    async def handler(arguments: dict[str, Any]) -> Any:
        raise error

    return Tool("fail", handler, input_schema=ANYTHING, **declared)


# Arguments


def deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


WRONG_ARGUMENTS = {
    "missing": ({}, '"a" is a required property'),
    "type": ({"a": "1"}, "arguments['a']: is not of type \"integer\""),
    "boolean": ({"a": True}, "arguments['a']: is not of type"),
    "unknown": ({"a": 1, "c": 2}, "arguments: has the unknown property 'c'; known are: 'a', 'b'"),
    "list": ([1], "arguments: must be an object, not a list"),
    "text": ('{"a": 1}', "arguments: must be an object, not a str"),
    "number": (3, "arguments: must be an object, not a int"),
    "pairs": ([("a", 1)], "arguments: must be an object, not a list"),
    "nothing": (None, "arguments: must be an object, not a NoneType"),
    "integer keys": ({1: 1}, "arguments: has a key of type int"),
    "10 MB": ({"a": "x" * 10_000_000}, "bytes of JSON"),
    "8 MB of the wrong type": ({"a": "x" * 8_000_000}, "is not of type"),
    "deep": ({"a": deep(5_000)}, "nested deeper"),
    "very deep": ({"a": deep(100_000)}, "nested deeper"),
    "NaN": ({"a": float("nan")}, "not a finite number"),
    "1e999": ({"a": 1e999}, "not a finite number"),
    "long integer": ({"a": 10**5000}, "outside 64 bits"),
    "surrogate": ({"a": "\ud800"}, "lone surrogate"),
    "NUL": ({"a\0": 1}, "NUL"),
    "object": ({"a": object()}, "is a object, which is not JSON"),
    "fraction": ({"a": 1.5}, 'is not of type "integer"'),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG_ARGUMENTS.values(), ids=WRONG_ARGUMENTS)
async def test_arguments_that_do_not_fit_are_refused_and_the_tool_is_not_run(
    arguments: Any, words: str
) -> None:
    ran: list[int] = []

    @tool
    async def guarded(a: int, b: int = 1) -> None:
        ran.append(a)

    observation = await call(guarded, arguments)
    assert observation.error == SCHEMA_VALIDATION_FAILED
    assert words in observation.message
    assert len(observation.message) < 700
    assert ran == []


async def test_arguments_that_middleware_replaced_are_the_ones_that_count() -> None:
    @tool
    async def double(a: int) -> int:
        return 2 * a

    invocation = Invocation(double, {"a": "x"}, ToolCall("double", {"a": "x"}), context())
    invocation.arguments = {"a": 4}
    assert (await perform(invocation)).output == 8


async def test_a_validator_of_ones_own_takes_the_place_of_the_engines() -> None:
    made_from: list[Any] = []

    def validator(schema: Mapping[str, Any]) -> Callable[[Any], str | None]:
        made_from.append(schema)
        return lambda value: None if value != {"a": 13} else "is unlucky"

    made = Tool("own", echo, input_schema=ANYTHING, output_schema={"const": 1}, validator=validator)
    assert (await call(made, {"a": 1})).ok
    assert (await call(made, {"a": 13})).message == "arguments: is unlucky"
    assert made_from == [ANYTHING, {"const": 1}]


# Faults


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


FAULTS: dict[str, tuple[BaseException, str]] = {
    "plain": (ValueError("no such file"), "ValueError: no such file"),
    "silent": (RuntimeError(), "RuntimeError"),
    "its own timeout": (TimeoutError("slow disk"), "TimeoutError: slow disk"),
    "its own cancellation": (asyncio.CancelledError(), "CancelledError"),
    "exit": (SystemExit(2), "SystemExit: 2"),
    "assertion": (AssertionError("x"), "AssertionError: x"),
    "memory": (MemoryError("out"), "MemoryError: out"),
    "recursion": (RecursionError("deep"), "RecursionError: deep"),
    "group": (ExceptionGroup("both", [ValueError("a")]), "ExceptionGroup: both"),
    "unstorable": (ValueError("a\ud800b\0c\x1b[31m"), "ValueError: a\\ud800b\\0c\x1b[31m"),
    "10 MB": (ValueError("x" * 10_000_000), "ValueError: xxxx"),
    "unreadable": (Unreadable(), "Unreadable: (its message cannot be read)"),
    "refusal": (InvalidValue("path", "is outside"), "InvalidValue: path: is outside"),
}


@pytest.mark.parametrize("timeout", [None, 60.0])
@pytest.mark.parametrize(("error", "words"), FAULTS.values(), ids=FAULTS)
async def test_whatever_a_tool_raises_is_an_observation(
    error: BaseException, words: str, timeout: float | None
) -> None:
    observation = await call(raising(error, timeout=timeout))
    assert observation.error == HANDLER_ERROR
    assert observation.message.startswith(words)
    assert len(observation.message) <= 2_000


@pytest.mark.parametrize("error", [ValueError("a"), SystemExit(2), StopIteration("done")])
@pytest.mark.parametrize("inline", [True, False])
async def test_so_is_what_a_plain_function_raises(error: BaseException, inline: bool) -> None:
    def handler(arguments: dict[str, Any]) -> Any:
        raise error

    made = Tool("fail", handler, input_schema=ANYTHING, inline=inline)
    observation = await asyncio.wait_for(call(made), 10)
    assert observation.error == HANDLER_ERROR
    assert type(error).__name__ in observation.message


async def test_a_handler_that_does_not_take_the_arguments_is_a_fault_of_the_tool() -> None:
    async def handler() -> None: ...

    observation = await call(Tool("none", handler, input_schema=ANYTHING))
    assert (observation.error, "takes 0 positional" in observation.message) == (HANDLER_ERROR, True)


async def test_a_keyboard_interrupt_passes() -> None:
    coroutine = perform(Invocation(raising(KeyboardInterrupt()), {}, ToolCall("fail"), context()))
    with pytest.raises(KeyboardInterrupt):
        coroutine.send(None)


# Time


async def hanging(arguments: dict[str, Any]) -> Any:
    await asyncio.Event().wait()


async def test_a_tool_that_hangs_is_ended_when_its_time_is_over() -> None:
    ended: list[str] = []

    async def handler(arguments: dict[str, Any]) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    observation = await call(Tool("hang", handler, input_schema=ANYTHING, timeout=0.01))
    assert observation.error == TIMEOUT
    assert "within 0.01 seconds" in observation.message
    assert ended == ["ended"]


async def test_a_fault_while_it_is_ended_counts_as_the_timeout_that_it_is() -> None:
    async def handler(arguments: dict[str, Any]) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            raise RuntimeError("cut off") from error

    assert (await call(Tool("hang", handler, input_schema=ANYTHING, timeout=0.01))).error == TIMEOUT


async def test_a_thread_that_hangs_is_left_behind_when_its_time_is_over() -> None:
    let_go = threading.Event()

    def handler(arguments: dict[str, Any]) -> Any:
        let_go.wait(60)

    try:
        made = Tool("hang", handler, input_schema=ANYTHING, timeout=0.01)
        assert (await call(made)).error == TIMEOUT
    finally:
        let_go.set()


@pytest.mark.parametrize("timeout", [None, 60.0])
async def test_a_cancellation_of_the_run_ends_the_tool_and_passes(timeout: float | None) -> None:
    begun = asyncio.Event()
    ended: list[str] = []

    async def handler(arguments: dict[str, Any]) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    made = Tool("hang", handler, input_schema=ANYTHING, timeout=timeout)
    run = asyncio.create_task(call(made))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended == ["ended"]


# Results


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: float
    color: Color = Color.RED


RESULTS: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    (0.5, 0.5),
    ("ünïcode \x1b[31m", "ünïcode \x1b[31m"),
    ([1, {"a": None}], [1, {"a": None}]),
    ((1, 2), [1, 2]),
    (Color.RED, "red"),
    (Point(1.5), {"x": 1.5, "color": "red"}),
    ([Point(1.5)], [{"x": 1.5, "color": "red"}]),
    ({1: "a"}, {"1": "a"}),
    (Observation("x"), {"output": "x"}),
]


@pytest.mark.parametrize(("result", "output"), RESULTS, ids=range(len(RESULTS)))
async def test_a_result_is_observed_in_its_json_form(result: Any, output: Any) -> None:
    observation = await call(returning(result))
    assert observation == Observation(output, call="call-1", tool="give")


def endless() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


UNSTORABLE = {
    "object": (object(), "output: is a object, which is not JSON"),
    "NaN": ([float("nan")], "output[0]: is not a finite number"),
    "NaN inside": (Point(float("inf")), "output['x']: is not a finite number"),
    "surrogate": ("\ud800", "lone surrogate"),
    "NUL": ("a\0b", "NUL"),
    "long integer": (10**5000, "outside 64 bits"),
    "deep": (deep(5_000), "nested deeper"),
    "very deep": (deep(100_000), "nested deeper"),
    "endless": (endless(), "nested deeper"),
    "1 MB": ("x" * MAX_OUTPUT, "is 1,000,002 bytes of JSON, over the limit of 1,000,000"),
    "10 MB": ("x" * 10_000_000, "is 10,000,002 bytes of JSON"),
    "10 MB of parts": ([0] * 3_000_000, "over 1,000,000 parts"),
    "function": (print, "is a builtin_function_or_method"),
}


@pytest.mark.parametrize(("result", "words"), UNSTORABLE.values(), ids=UNSTORABLE)
async def test_a_result_that_cannot_be_stored_is_refused_and_not_in_the_observation(
    result: Any, words: str
) -> None:
    observation = await call(returning(result))
    assert (observation.error, observation.output) == (OUTPUT_SCHEMA_FAILED, None)
    assert words in observation.message
    assert len(observation.message) < 700


async def test_a_result_as_large_as_it_may_be_is_taken() -> None:
    assert (await call(returning("x" * (MAX_OUTPUT - 2)))).ok


async def test_a_result_that_does_not_fit_the_output_schema_is_refused() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert (await call(returning({"n": 1}, output_schema=schema))).output == {"n": 1}
    observation = await call(returning({"n": "x"}, output_schema=schema))
    assert observation.error == OUTPUT_SCHEMA_FAILED
    assert observation.message == (
        "the tool ran, but its result is refused: output['n']: is not of type \"integer\""
    )


async def test_a_typed_tool_is_held_to_its_return_annotation() -> None:
    @tool
    async def count() -> int:
        return cast("int", "many")

    assert (await call(count)).error == OUTPUT_SCHEMA_FAILED


async def test_an_async_generator_is_no_result() -> None:
    async def handler(arguments: dict[str, Any]) -> Any:
        yield 1

    made = Tool("parts", handler, input_schema=ANYTHING, inline=True)
    assert "async_generator" in (await call(made)).message


# Cost


async def test_a_call_costs_few_python_calls() -> None:
    """A count, because it is the same on every machine; a turn of the Loop may make 200."""

    @tool(effect="none")
    async def quick(a: int, b: str = "") -> str:
        return b

    invocation = Invocation(quick, {"a": 1, "b": "x"}, ToolCall("quick"), context())
    await perform(invocation)
    calls: list[str] = []

    def count(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    gc.disable()  # A collection may call functions of other tests.
    sys.setprofile(count)
    try:
        await perform(invocation)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert len(calls) <= 14, calls


class OutOfTime:
    """The clock of a run whose time is over."""

    seconds_left = 0.0


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("timeout", [None, 60.0])
async def test_a_call_after_the_deadline_is_not_begun_and_leaves_no_warning(
    timeout: float | None, inline: bool
) -> None:
    def plain(arguments: dict[str, Any]) -> None:
        raise AssertionError("it was begun")

    handler = plain if inline else echo
    tool = Tool("late", handler, input_schema=ANYTHING, timeout=timeout, inline=inline)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(DeadlinePassed) as late:
            await perform(Invocation(tool, {}, ToolCall("late"), context()), OutOfTime())
        gc.collect()
    assert not late.value.begun
    assert [str(each.message) for each in seen] == []
