"""Results of tools that are large, shared, cyclic, or lose something on their way to JSON."""

from __future__ import annotations

import dataclasses
import enum
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pydantic
import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine import values
from agentic_kernel_engine.plans.action import FinalAnswer, ToolCall
from agentic_kernel_engine.plans.observation import HANDLER_ERROR, OUTPUT_SCHEMA_FAILED, Observation
from agentic_kernel_engine.tools.call import MAX_OUTPUT
from agentic_kernel_engine.tools.exceptions import ToolError
from agentic_kernel_engine.tools.tool import Tool

from ..scripting import Runner
from .calling import ANYTHING, call, returning


@dataclasses.dataclass
class Pair:
    left: Any
    right: Any


class Two(msgspec.Struct):
    left: Any
    right: Any


class Model(pydantic.BaseModel):
    left: Any
    right: Any


MAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "list": lambda a, b: [a, b],
    "tuple": lambda a, b: (a, b),
    "dict": lambda a, b: {"a": a, "b": b},
    "integer keys": lambda a, b: {1: a, 2: b},
    "dataclass": Pair,
    "struct": Two,
    "model": lambda a, b: Model.model_construct(left=a, right=b),
}


def shared(make: Callable[[Any, Any], Any], levels: int, leaf: Any = "x") -> Any:
    """A value of few objects that stands for 2 to the power of the levels of them."""
    value: Any = leaf
    for _ in range(levels):
        value = make(value, value)
    return value


def counted(work: Callable[[], Any]) -> int:
    """The number of Python and C functions that some work calls."""
    calls = 0

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        with pytest.raises(InvalidValue):
            work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
async def test_a_result_with_shared_parts_is_refused_before_it_is_expanded(
    make: Callable[[Any, Any], Any],
) -> None:
    tracemalloc.start()
    try:
        observation = await call(returning(shared(make, 60)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (observation.error, observation.output) == (OUTPUT_SCHEMA_FAILED, None)
    assert "over 1,000,000 parts" in observation.message
    assert peak < 10_000_000


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
async def test_so_is_one_that_is_long_because_its_texts_are_shared(
    make: Callable[[Any, Any], Any],
) -> None:
    observation = await call(returning(shared(make, 12, "x" * 1_000_000)))
    assert observation.error == OUTPUT_SCHEMA_FAILED
    assert "bytes of JSON" in observation.message


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
async def test_a_result_that_holds_itself_is_refused(make: Callable[[Any, Any], Any]) -> None:
    inner: list[Any] = []
    value = make(inner, [inner] * 10)
    inner.append(value)
    inner.append(value)
    observation = await call(returning(value))
    assert observation.error == OUTPUT_SCHEMA_FAILED
    assert "nested deeper" in observation.message


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
async def test_a_result_that_shares_a_little_is_taken(make: Callable[[Any, Any], Any]) -> None:
    observation = await call(returning(shared(make, 4)))
    assert observation.ok
    assert values.encode(observation.output).count(b'"x"') == 16


async def test_the_output_of_a_tools_own_observation_is_held_to_the_same() -> None:
    for output in (shared(MAKERS["list"], 60), "x" * MAX_OUTPUT, object(), {1: 1, "1": 2}):
        observation = await call(returning(Observation(output, "mine", "because")))
        assert (observation.error, observation.output) == (OUTPUT_SCHEMA_FAILED, None)
        assert "its Observation is refused: output" in observation.message
    kept = await call(returning(Observation([1], "mine", "because")))
    assert (kept.error, kept.message, kept.output) == ("mine", "because", [1])


@pytest.mark.parametrize(
    "given",
    [
        Observation(None, 5, "why"),  # type: ignore[arg-type]
        Observation(None, "e" * 300, "why"),
        Observation(None, "\ud800", "why"),
        Observation(None, "mine", 7),  # type: ignore[arg-type]
    ],
    ids=range(4),
)
async def test_so_are_its_code_and_its_message(given: Observation) -> None:
    observation = await call(returning(given))
    assert observation.error == OUTPUT_SCHEMA_FAILED
    assert "its Observation is refused: " in observation.message


@pytest.mark.parametrize("levels", [20, 40])
def test_work_on_shared_parts_grows_with_the_objects_and_not_with_the_copies(levels: int) -> None:
    for make in (MAKERS["list"], MAKERS["dict"]):
        value, twice = shared(make, levels), shared(make, 2 * levels)
        once = counted(partial(values.encode, value))
        assert counted(partial(values.encode, twice)) <= 2.2 * once + 100


def test_a_value_of_shared_long_texts_is_refused_before_it_is_read_over_and_over() -> None:
    text = "x" * 1_000_000
    for value in ([text] * 10_000, {text: 1, "a": [{text: 1}] * 1_000}, [[text] * 100] * 100):
        assert counted(partial(values.encode, value)) < 20_000


class Color(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    "result",
    [
        {1: "a", "1": "b"},
        {"deep": [{1: "a", "1": "b"}]},
        {Color.RED: 1, "red": 2},
        {1.0: "a", "1.0": "b"},
        Pair({2: "a", "2": "b"}, 1),
        Two({3: "a", "3": "b"}, 1),
        Model(left={4: "a", "4": "b"}, right=1),
        [Model(left=[Pair({5: "a", "5": "b"}, 1)], right=1)],
    ],
    ids=range(8),
)
async def test_keys_that_become_the_same_text_are_refused_and_none_is_lost(result: Any) -> None:
    observation = await call(returning(result))
    assert (observation.error, observation.output) == (OUTPUT_SCHEMA_FAILED, None)
    assert "which are the same text as JSON; use strings that differ" in observation.message


@pytest.mark.parametrize(
    ("result", "output"),
    [
        ({1: "a", 2: "b"}, {"1": "a", "2": "b"}),
        ({Color.RED: 1, "blue": 2}, {"red": 1, "blue": 2}),
        ([{1.5: None}], [{"1.5": None}]),
        (Pair({7: 1}, {"7": 2}), {"left": {"7": 1}, "right": {"7": 2}}),
    ],
    ids=range(4),
)
async def test_keys_of_another_type_become_text(result: Any, output: Any) -> None:
    assert (await call(returning(result))).output == output


async def test_keys_without_a_text_are_refused() -> None:
    observation = await call(returning({(1, 2): 3}))
    assert observation.error == OUTPUT_SCHEMA_FAILED
    assert "has a key of type tuple" in observation.message


# Bugs and answers


def raising(error: BaseException, **declared: Any) -> Tool:
    def handler(given: dict[str, Any]) -> Any:
        raise error

    return Tool("fail", handler, input_schema=ANYTHING, **declared)


@pytest.mark.parametrize("inline", [True, False])
async def test_a_bug_of_a_tool_is_logged_once_with_its_traceback_and_its_place(
    caplog: pytest.LogCaptureFixture, inline: bool
) -> None:
    observation = await call(raising(ValueError("a bug"), inline=inline))
    assert (observation.error, observation.message) == (HANDLER_ERROR, "ValueError: a bug")
    assert (observation.metadata or {})["type"] == "ValueError"
    assert (observation.metadata or {})["file"] == __file__
    assert (observation.metadata or {})["line"] == raising.__code__.co_firstlineno + 2
    (record,) = caplog.records
    assert record.getMessage() == "task 'task-1', step 3: the tool 'fail' failed"
    assert record.exc_text is not None
    assert "raise error\nValueError: a bug" in record.exc_text


@pytest.mark.parametrize("inline", [True, False])
async def test_what_a_tool_tells_the_planner_is_no_bug(
    caplog: pytest.LogCaptureFixture, inline: bool
) -> None:
    told = await call(raising(ToolError("no such file; list the folder first"), inline=inline))
    assert told == Observation(
        None, HANDLER_ERROR, "no such file; list the folder first", "call-1", "fail"
    )
    assert (await call(raising(ToolError("gone", "not_found")))).error == "not_found"
    assert (await call(raising(ToolError("gone", 5)))).error == OUTPUT_SCHEMA_FAILED  # type: ignore[arg-type]
    assert (await call(raising(ToolError("x" * 10_000)))).error == HANDLER_ERROR
    assert caplog.records == []


async def test_a_result_that_is_refused_reaches_no_event_and_no_message(runner: Runner) -> None:
    given = returning(shared(MAKERS["list"], 60), effect="none")
    done = await runner.run(ToolCall("give"), FinalAnswer("done"), tools=[given])
    assert done.result == "done"
    (observed, _) = [e.data for e in await runner.events(done) if e.type == "step.observed"]
    (observation,) = observed["observations"]
    assert observation["error"] == OUTPUT_SCHEMA_FAILED
    assert "output" not in observation


async def test_an_answer_with_shared_parts_fails_the_run_as_a_bad_plan(runner: Runner) -> None:
    for plan in (
        FinalAnswer(shared(MAKERS["list"], 60)),
        ToolCall("add", {"a": shared(MAKERS["dict"], 60)}),
        FinalAnswer(["x" * 1_000_000] * 1_000),
    ):
        done = await runner.run(plan)
        assert done.failure is not None
        assert done.failure.code == "engine/bad_plan"
