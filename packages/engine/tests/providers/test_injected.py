"""The clocks, the ids and the validator of a ready-made runtime are what its user gives it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

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
