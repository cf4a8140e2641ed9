"""Recoveries, failures, usages and answers that make no sense."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.loop import planner_calls, streamed_answers
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.plans.action import (
    ACTIONS,
    Action,
    AskUser,
    CompleteGoal,
    Delegate,
    FinalAnswer,
    PushGoal,
    Schedule,
    Stop,
    Thought,
    ToolCall,
)
from agentic_kernel_engine.plans.ending import PlannerError
from agentic_kernel_engine.plans.limits import Limits
from agentic_kernel_engine.plans.plan import LARGEST, Plan, Usage
from agentic_kernel_engine.seams.middleware import Recovery
from agentic_kernel_engine.seams.middlewares import Fallback
from agentic_kernel_engine.seams.planners import ScriptedPlanner, Streamed

from ..scripting import Runner


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"verb": "again"}, "verb"),
        ({"verb": "fallback"}, "planner"),
        ({"verb": "retry", "plan": Plan(())}, "planner"),
        ({"verb": "retry", "delay": -1}, "delay"),
        ({"verb": "retry", "delay": float("nan")}, "delay"),
        ({"verb": "retry", "delay": float("inf")}, "delay"),
    ],
    ids=str,
)
def test_a_recovery_that_makes_no_sense_is_refused(given: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidValue, match=what):
        Recovery(**given)


class Unreadable(Exception):
    code = "test/unreadable"

    def __str__(self) -> str:
        raise ValueError("not even that")


class Odd(Exception):
    code = object()


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a\0b \ud800"),
        Unreadable(),
        Odd("odd"),
        PlannerError("test/\0", "a\0"),
        PlannerError("test/odd", 5),  # type: ignore[arg-type]
        OSError("x" * 10_000_000),
    ],
    ids=range(6),
)
async def test_a_failure_that_cannot_be_stored_as_it_is_can_be_got_over(
    runner: Runner, error: Exception
) -> None:
    planner = ScriptedPlanner(error)
    other = ScriptedPlanner(FinalAnswer("other"))
    done = await runner.run(planner=planner, middleware=[Fallback(other)])
    assert done.result == "other"
    (failed,) = [e.data for e in await runner.events(done) if e.type == "plan.failed"]
    assert isinstance(failed["code"], str)
    assert len(failed["message"]) <= 500


ODD_USAGE: list[tuple[str, Any]] = [
    ("input_tokens", "5"), ("input_tokens", None), ("output_tokens", 1.5), ("cost", "1"),
]  # fmt: skip


BAD_USAGE: list[Any] = [
    Usage(-1), Usage(output_tokens=-5), Usage(cost=-0.1), Usage(cost=float("nan")),
    Usage(cost=float("inf")), Usage(10**30), Usage(True),
    *(Usage(**{name: each}) for name, each in ODD_USAGE),
    None, {"input_tokens": 1}, "none",
]  # fmt: skip


@pytest.mark.parametrize("usage", BAD_USAGE, ids=repr)
async def test_a_usage_that_cannot_be_is_refused(runner: Runner, usage: Any) -> None:
    """A negative one would lift the caps, and no state could be read back with some of the rest."""
    plan = Plan((ToolCall("add", {"a": 1, "b": 1}),), usage=usage)
    done = await runner.run(plan, FinalAnswer(1), limits=Limits(max_cost=1.0))
    assert done.failure is not None
    assert done.failure.code == "engine/bad_plan"
    assert replay(await runner.events(done)).spent.usage == Usage()


async def test_a_refused_usage_has_its_value_and_the_limits(runner: Runner) -> None:
    done = await runner.run(Plan((FinalAnswer(1),), usage=Usage(output_tokens=-5)))
    assert done.failure is not None
    assert f"usage.output_tokens must be a number from 0 to {LARGEST:,}, not -5" in (
        done.failure.message
    )


@pytest.mark.parametrize("usage", BAD_USAGE, ids=repr)
async def test_a_forecast_that_cannot_be_is_refused(runner: Runner, usage: Any) -> None:
    planner = ScriptedPlanner(FinalAnswer(1), worst=usage)
    done = await runner.run(planner=planner, limits=Limits(max_cost=1.0))
    assert done.failure is not None
    assert done.failure.code == "engine/bad_forecast"


@pytest.mark.parametrize(
    "plan",
    [
        Plan((FinalAnswer(1),), text=None),  # type: ignore[arg-type]
        Plan((FinalAnswer(1),), reasoning=5),  # type: ignore[arg-type]
        Plan((FinalAnswer(1),), model=["m"]),  # type: ignore[arg-type]
        Plan((ToolCall(None, {}), FinalAnswer(1))),  # type: ignore[arg-type]
        Plan((ToolCall("add", {"a": 1, "b": 1}, id=7), FinalAnswer(1))),  # type: ignore[arg-type]
        Plan((ToolCall("add", ["a"]), FinalAnswer(1))),  # type: ignore[arg-type]
    ],
    ids=range(6),
)
async def test_an_answer_that_could_not_be_read_back_is_refused(runner: Runner, plan: Plan) -> None:
    done = await runner.run(plan)
    assert done.failure is not None
    assert done.failure.code == "engine/bad_plan"
    assert replay(await runner.events(done)).status == "failure"


async def test_a_stream_of_empty_pieces_ends(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamed_answers, "LENGTH", 100)
    pieces = [""] * 101
    done = await runner.run(Streamed(*pieces, plan=FinalAnswer(1)))
    assert done.failure is not None
    assert done.failure.code == "engine/endless_answer"


RIGHT: list[Action] = [
    ToolCall("add", {"a": 1}, "1"), Delegate("spawn", "c", "do it", "it", "acme/ann"),
    Thought("hm"),
    PushGoal("g"), CompleteGoal("n"), FinalAnswer(1), AskUser("?"),
    Schedule("2999-01-01T00:00:00+00:00", "r"), Stop("r"),
]  # fmt: skip
WRONG: list[Any] = [
    7, 1.5, True, b"text", ["text"], {"text": 1}, datetime.now(UTC), date(2999, 1, 1), uuid4(),
    Decimal(1), object(), str,
]  # fmt: skip
"""Values that are no text. The JSON of a datetime, of bytes and of a UUID is one."""
JSON = {"arguments", "output"}


def test_every_action_stands_in_the_table() -> None:
    assert [type(action) for action in RIGHT] == list(ACTIONS)
    assert planner_calls.plan_of(RIGHT).actions == tuple(RIGHT)


@pytest.mark.parametrize("action", RIGHT, ids=lambda action: type(action).__name__)
def test_a_field_of_an_action_that_is_no_text_is_a_bad_plan(action: Action) -> None:
    for name in action.__struct_fields__:
        if name in JSON:
            continue
        none = [] if (type(action), name) == (Delegate, "agent") else [None]
        for wrong in [*WRONG, *none]:
            bad = msgspec.structs.replace(action, **{name: wrong})
            with pytest.raises(PlannerError, match=rf"actions\[1\]\.{name}: is a") as refused:
                planner_calls.plan_of([Thought("first"), bad])
            assert refused.value.code == "engine/bad_plan"
            assert "give a string" in str(refused.value)


@pytest.mark.parametrize("arguments", [None, 7, "text", ["a"], {1: "a"}, {"a": object()}])
def test_arguments_that_are_no_json_object_are_a_bad_plan(arguments: Any) -> None:
    with pytest.raises(PlannerError, match="arguments") as refused:
        planner_calls.plan_of(ToolCall("add", arguments))
    assert refused.value.code == "engine/bad_plan"


@pytest.mark.parametrize("name", ["text", "reasoning", "model"])
def test_a_field_of_a_plan_that_is_no_text_is_a_bad_plan(name: str) -> None:
    for wrong in [*WRONG, None]:
        with pytest.raises(PlannerError, match=f"{name}: is a"):
            planner_calls.plan_of(msgspec.structs.replace(Plan((FinalAnswer(1),)), **{name: wrong}))


async def test_a_moment_that_is_no_text_fails_the_task_and_says_what_to_give(
    runner: Runner,
) -> None:
    done = await runner.run(Schedule(datetime.now(UTC)))  # type: ignore[arg-type]
    assert done.failure is not None
    assert done.failure.code == "engine/bad_plan"
    assert "actions[0].at: is a datetime" in done.failure.message
    assert "isoformat()" in done.failure.message


@pytest.mark.parametrize("field", ["tool", "id"])
@pytest.mark.parametrize(("size", "accepted"), [(planner_calls.NAME, True), (513, False)])
async def test_a_call_has_a_name_and_an_id_of_512_characters_at_most(
    runner: Runner, field: str, size: int, *, accepted: bool
) -> None:
    name = "y" * size
    call = ToolCall(name) if field == "tool" else ToolCall("x", id=name)
    done = await runner.run(Plan((call,)), FinalAnswer(1))
    code = None if done.failure is None else done.failure.code
    assert (code == "engine/bad_plan") is not accepted


async def test_the_texts_of_a_plan_with_too_many_calls_are_checked_too(runner: Runner) -> None:
    calls = tuple(ToolCall("add", {"a": n, "b": 1}) for n in range(3))
    wrong: Any = b"abc"
    done = await runner.run(
        Plan(calls, text=wrong), FinalAnswer("done"), limits=Limits(max_calls_per_answer=2)
    )
    assert done.failure is not None
    assert done.failure.code == "engine/bad_plan"
    assert "text: is a bytes" in done.failure.message
