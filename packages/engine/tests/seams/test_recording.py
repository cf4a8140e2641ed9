"""A recording, re-executed, gives the same events, ids and times apart."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agentic_kernel import Task
from agentic_kernel_engine import Event
from agentic_kernel_engine.plans.action import FinalAnswer, PushGoal, ToolCall
from agentic_kernel_engine.plans.ending import PlannerError
from agentic_kernel_engine.plans.limits import Limits
from agentic_kernel_engine.plans.plan import Delta, Plan, Usage
from agentic_kernel_engine.seams.middlewares import (
    Recorder,
    Recording,
    Replayer,
    Retry,
    Truncation,
)
from agentic_kernel_engine.seams.planners import ScriptedPlanner, Streamed
from agentic_kernel_engine.seams.policies import BasicPolicy
from agentic_kernel_engine.tools.tool import Tool, ToolContext, tool

from ..scripting import Runner, new_task


class Dice:
    """Tools that never say the same twice, and one that fails."""

    def __init__(self) -> None:
        self.thrown = 0

    def tools(self) -> list[Tool]:
        @tool(effect="write")
        async def throw(context: ToolContext) -> int:
            self.thrown += 1
            context.progress({"rolling": self.thrown})
            return self.thrown

        @tool(effect="none")
        async def jam() -> str:
            self.thrown += 1
            raise ValueError(f"jammed at {self.thrown}")

        return [throw, jam]


def script(dice: Dice) -> list[Any]:
    failed: list[bool] = []

    def fails_once(context: Any) -> Any:
        if not failed:
            failed.append(True)
            return PlannerError("test/busy", "busy", {"retry_after_ms": 0})
        return Plan((ToolCall("throw", id="x"), ToolCall("jam")), usage=Usage(7, 3))

    def sums_up(context: Any) -> Any:
        observed = context.transcript[-2].observations
        return FinalAnswer([each.output or each.message for each in observed])

    return [
        Streamed(Delta("hm", "reasoning"), "let ", "me see", plan=[PushGoal("throw")]),
        fails_once,
        [ToolCall("wipe"), ToolCall("throw", {"no": "such"})],
        sums_up,
    ]


OPTIONS: dict[str, Any] = {
    "policy": BasicPolicy(allow=["write"], deny=["wipe"]),
    "limits": Limits(max_output_tokens=100),
}


def around(last: Any) -> list[Any]:
    return [Retry(["test/busy"], first=0), Truncation(12), last]


def told(task: Task, events: list[Event]) -> list[tuple[str, Any]]:
    """Events without ids and times, and without what is made from them."""
    found = []
    for event in events:
        data = dict(event.data)
        if "keys" in data:
            data["keys"] = sorted(data["keys"])
        if event.type.startswith("task."):
            data.pop("by", None)
            data.pop("act", None)
        found.append((event.type, data))
    return found


async def record(runner: Runner, dice: Dice) -> tuple[Task, Recording]:
    recorder = Recorder(ScriptedPlanner(*script(dice), worst=Usage(9, 9)))
    done = await runner.run(
        planner=recorder, tools=dice.tools(), middleware=around(recorder), **OPTIONS
    )
    kept = msgspec.json.encode(recorder.take(done.id))
    assert recorder.take(done.id) == Recording(), "it is taken once"
    return done, msgspec.json.decode(kept, type=Recording)


async def test_a_recording_gives_the_same_events(runner: Runner) -> None:
    dice = Dice()
    first, recording = await record(runner, dice)
    thrown = dice.thrown
    replayer = Replayer(recording)
    again = await runner.run(
        planner=replayer, tools=dice.tools(), middleware=around(replayer), **OPTIONS
    )
    expected = told(first, await runner.events(first))
    assert told(again, await runner.events(again)) == expected
    assert {"run.delta", "plan.failed", "tool.progress", "effects.prepared"} <= {
        kind for kind, _ in expected
    }
    assert again.result == first.result == [1, "ValueError: jammed at 2"]
    assert dice.thrown == thrown, "no tool was run"

    live, _ = await record(runner, dice)
    assert live.result != first.result, "without the recording it is another run"


async def test_a_failure_is_said_again(runner: Runner) -> None:
    recorder = Recorder(ScriptedPlanner(PlannerError("test/down", "no", {"status": 503})))
    first = await runner.run(planner=recorder, middleware=[recorder])
    replayer = Replayer(recorder.take(first.id))
    again = await runner.run(planner=replayer, middleware=[replayer])
    assert again.failure == first.failure
    assert again.failure is not None
    assert (again.failure.code, again.failure.metadata) == ("test/down", {"status": 503})


@pytest.mark.parametrize(
    "answer",
    [None, "a text", Streamed("never", plan=None)],  # type: ignore[arg-type]
    ids=["None", "text", "stream"],
)
async def test_an_answer_that_is_none_is_said_again(runner: Runner, answer: Any) -> None:
    recorder = Recorder(ScriptedPlanner(lambda context: answer))
    first = await runner.run(planner=recorder, middleware=[recorder])
    replayer = Replayer(recorder.take(first.id))
    again = await runner.run(planner=replayer, middleware=[replayer])
    assert first.failure is not None
    assert first.failure.code == "engine/bad_plan"
    assert told(again, await runner.events(again)) == told(first, await runner.events(first))


@pytest.mark.parametrize("part", ["attempts", "observations"])
async def test_what_is_not_recorded_is_not_made_up(runner: Runner, part: str) -> None:
    dice = Dice()
    _, recording = await record(runner, dice)
    getattr(recording, part).popitem()
    thrown, replayer = dice.thrown, Replayer(recording)
    done = await runner.run(
        planner=replayer, tools=dice.tools(), middleware=around(replayer), **OPTIONS
    )
    assert done.failure is not None
    assert done.failure.code == "replayer/not_recorded"
    assert dice.thrown == thrown


async def test_runs_are_recorded_apart(runner: Runner) -> None:
    recorder = Recorder(ScriptedPlanner(lambda context: FinalAnswer(context.task.instructions)))
    async with runner.host(planner=recorder, middleware=[recorder]) as host:
        tasks = [new_task(instructions=text) for text in "ab"]
        for task in tasks:
            await host.dispatch(task)
        for task in tasks:
            await host.wait(task.id)
    for task in tasks:
        (attempt,) = recorder.take(task.id).attempts[0]
        assert attempt.plan == Plan((FinalAnswer(task.instructions),))
