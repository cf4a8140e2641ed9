"""The clocks, the ids and the validator of a ready-made runtime are what its user gives it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Limits
from agentic_kernel_engine.plans.action import Delegate, FinalAnswer, Thought
from agentic_kernel_engine.providers import ProviderRuntime, RuntimeOptions
from agentic_kernel_engine.seams import ScriptedPlanner

from ..scripting import new_task

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


class Planner(ScriptedPlanner):
    impl = "test"

    async def close(self) -> None:
        pass


def runtime(*script: Any, **options: Any) -> ProviderRuntime:
    given: RuntimeOptions = options  # type: ignore[assignment]
    return ProviderRuntime(Planner(*script), "loop", (), None, given)


async def test_moments_are_by_the_clock() -> None:
    async with runtime(FinalAnswer(1), clock=lambda: LONG_AGO) as host:
        task = await host.run(new_task(at=LONG_AGO - timedelta(days=1)))
        assert task.started_at == task.ended_at == LONG_AGO
        assert {event.at for event in (await host.outcome(task.id)).events} == {LONG_AGO}


async def test_the_seconds_of_a_run_are_by_the_timer() -> None:
    seconds = iter(range(0, 10_000, 100))
    script = (Thought("hm"), Thought("well"), FinalAnswer(1))
    limits = Limits(max_seconds=150)
    async with runtime(*script, timer=lambda: float(next(seconds)), limits=limits) as host:
        task = await host.run(new_task())
    assert task.metadata["engine/stop_reason"] == "timeout"


def fails() -> float:
    raise RuntimeError


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timer": 5}, "timer: is 5; pass a function"),
        ({"timer": abs}, "timer: cannot be called, because of a TypeError"),
        ({"timer": fails}, "timer: cannot be called, because of a RuntimeError"),
        ({"timer": str}, "timer(): is ''; return a number of seconds up to 1,000,"),
        ({"timer": lambda: math.nan}, "timer(): is nan"),
        ({"timer": lambda: 10**400}, "timer(): is a number of 1329 bits"),
        ({"clock": abs}, "clock: cannot be called, because of a TypeError"),
        ({"clock": fails}, "clock: cannot be called, because of a RuntimeError"),
        ({"clock": str}, "clock(): must be a datetime, not str"),
    ],
)
def test_a_clock_that_cannot_be_read_is_refused_at_once(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidValue, match=f"^{re.escape(words)}"):
        runtime(**options)


@pytest.mark.parametrize("kind", ["", " ", "a\n", " a", "a\x7f", "\u2028"], ids=ascii)
def test_a_kind_that_a_reader_cannot_see_is_refused(kind: str) -> None:
    with pytest.raises(InvalidValue, match=r"^runtime_kind: "):
        ProviderRuntime(Planner(), kind, (), None, {})


async def test_the_ids_of_children_are_those_given() -> None:
    script = (Delegate("spawn", instructions="do it"), FinalAnswer(1))
    async with runtime(*script, ids=iter(["child-1"]).__next__) as host:
        task = await host.run(new_task())
        spawned = [e for e in (await host.outcome(task.id)).events if e.type == "child.spawned"]
        assert [event.data["child"] for event in spawned] == ["child-1"]


async def test_answers_are_checked_by_the_validator() -> None:
    def none_of(schema: Mapping[str, Any]) -> Any:
        return lambda value: None if value == schema["const"] else "not the one"

    script = (FinalAnswer("a"), FinalAnswer("b"))
    options: dict[str, Any] = {"output_schema": {"const": "b"}, "validator": none_of}
    async with runtime(*script, **options) as host:
        task = await host.run(new_task())
        assert task.result == "b"
        (first, _) = [e for e in (await host.outcome(task.id)).events if e.type == "step.observed"]
    assert "not the one" in first.data["observations"][0]["message"]
