"""Limits: every count ends exactly at its cap, single and in a batch."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel import InvalidValue, Task
from agentic_kernel_engine.loop.planner_calls import _covers
from agentic_kernel_engine.loop.replay import Replay, replay
from agentic_kernel_engine.plans.action import Delegate, FinalAnswer, PushGoal, Thought, ToolCall
from agentic_kernel_engine.plans.limits import BACKSTOP, Limits, Spent, reached
from agentic_kernel_engine.plans.plan import Plan, Usage
from agentic_kernel_engine.plans.reasons import StopReason
from agentic_kernel_engine.seams.planners import ScriptedPlanner
from agentic_kernel_engine.tools.tool import Tool, tool

from ..scripting import Runner, World


def call(n: int = 0) -> ToolCall:
    return ToolCall("add", {"a": n, "b": n})


def code(task: Task) -> str:
    assert task.failure is not None
    assert task.failure.code == f"engine/{task.metadata['engine/stop_reason']}"
    return task.failure.code


async def spent(runner: Runner, task: Task) -> Replay:
    return replay(await runner.events(task))


async def test_iterations(runner: Runner, world: World) -> None:
    task = await runner.run(*[call(n) for n in range(9)], limits=Limits(max_iterations=4))
    assert code(task) == "engine/max_iterations"
    assert (await spent(runner, task)).spent.iterations == 4
    assert len(world.done) == 4


async def test_iterations_have_a_backstop(runner: Runner) -> None:
    def going_on(context: Any) -> Any:
        return call(context.step)

    task = await runner.run(*[going_on] * (BACKSTOP + 10))
    assert code(task) == "engine/max_iterations"
    assert (await spent(runner, task)).spent.iterations == BACKSTOP


@pytest.mark.parametrize("batch", [1, 3, 10])
async def test_tool_calls(runner: Runner, world: World, batch: int) -> None:
    batches = [[call(10 * n + m) for m in range(batch)] for n in range(9)]
    task = await runner.run(*batches, limits=Limits(max_tool_calls=7))
    assert code(task) == "engine/max_tool_calls"
    assert (await spent(runner, task)).spent.tool_calls == 7
    assert len(world.done) == 7


@pytest.mark.parametrize("batch", [1, 2, 10])
async def test_failures(runner: Runner, world: World, batch: int) -> None:
    batches = [[ToolCall("fail", {"text": f"{n}"})] * batch for n in range(9)]
    task = await runner.run(*batches, limits=Limits(max_failures=5))
    assert code(task) == "engine/max_failures"
    assert (await spent(runner, task)).spent.failures == 5
    assert len(world.done) == 5


async def test_no_progress_is_reflected_on_with_a_growing_allowance(runner: Runner) -> None:
    limits = Limits(max_non_progress=2, max_reflections=2, max_repeats=100)
    task = await runner.run(*[Thought(f"{n}") for n in range(30)], limits=limits)
    assert code(task) == "engine/no_progress"
    assert (await spent(runner, task)).spent.iterations == 2 + 3 + 4


async def test_no_progress_may_stop_at_once(runner: Runner) -> None:
    task = await runner.run(
        *[Thought(f"{n}") for n in range(30)],
        limits=Limits(max_non_progress=2),
        on_non_progress="stop",
    )
    assert code(task) == "engine/no_progress"
    assert (await spent(runner, task)).spent.iterations == 2


async def test_the_same_action_on_the_same_observation_is_a_loop(runner: Runner) -> None:
    task = await runner.run(*[call()] * 30, limits=Limits(max_repeats=3, max_non_progress=99))
    assert code(task) == "engine/loop"
    assert (await spent(runner, task)).spent.iterations == 3


async def test_an_empty_answer_begins_a_new_row_of_repeats(runner: Runner) -> None:
    script = [call(), (), call(), (), call(), (), call(), FinalAnswer("done")]
    task = await runner.run(*script, limits=Limits(max_repeats=2, max_non_progress=99))
    assert task.result == "done"


async def test_a_loop_is_one_whatever_the_provider_calls_its_calls(runner: Runner) -> None:
    same = [ToolCall("add", {"a": 1, "b": 1}, f"call-{n}") for n in range(30)]
    task = await runner.run(*same, limits=Limits(max_repeats=3, max_non_progress=99))
    assert code(task) == "engine/loop"
    assert (await spent(runner, task)).spent.iterations == 3


async def test_the_same_action_on_another_observation_is_no_loop(runner: Runner) -> None:
    counts = iter(range(100))

    @tool(effect="none")
    async def count() -> int:
        """The number of calls so far."""
        return next(counts)

    limits = Limits(max_repeats=3, max_non_progress=3)
    script = [*[ToolCall("count", {})] * 9, FinalAnswer("done")]
    task = await runner.run(*script, tools=[count], limits=limits)
    assert task.result is not None
    assert next(counts) == 9


async def test_goal_depth(runner: Runner) -> None:
    task = await runner.run(*[PushGoal(f"{n}") for n in range(9)], limits=Limits(max_goal_depth=3))
    assert code(task) == "engine/max_goal_depth"
    assert (await spent(runner, task)).goals == ("0", "1", "2")


async def test_delegation_depth(runner: Runner) -> None:
    spawn = Delegate("spawn", instructions="go deeper")
    task = await runner.run(spawn, limits=Limits(max_depth=0))
    assert code(task) == "engine/max_depth"


@pytest.mark.parametrize(
    ("limits", "reason", "calls", "message"),
    [
        (
            Limits(max_input_tokens=450),
            "max_tokens",
            4,
            "max_input_tokens 450: spent 400, and the next call may use up 100; raise "
            "max_input_tokens or shorten the prompt",
        ),
        (
            Limits(max_output_tokens=100),
            "max_tokens",
            2,
            "max_output_tokens 100: spent 100, and the next call may use up 50; raise "
            "max_output_tokens or lower max_tokens",
        ),
        (
            Limits(max_total_tokens=560),
            "max_tokens",
            3,
            "max_total_tokens 560: spent 450, and the next call may use up 150; raise "
            "max_total_tokens or lower max_tokens",
        ),
        (
            Limits(max_cost=0.55),
            "max_cost",
            2,
            "max_cost 0.55: spent 0.4, and the next call may use up 0.25; raise max_cost or lower "
            "max_tokens",
        ),
        (
            Limits(max_cost=0.0),
            "max_cost",
            0,
            "max_cost 0: spent 0, and the next call may use up 0.25; raise max_cost or lower "
            "max_tokens",
        ),
    ],
)
async def test_tokens_and_cost_are_never_passed(
    runner: Runner, limits: Limits, reason: str, calls: int, message: str
) -> None:
    """The worst case is more than what a call really uses up; it is given back."""
    worst = Usage(100, 50, cost=0.25)
    answers = [Plan((call(n),), usage=Usage(100, 50, cost=0.2)) for n in range(30)]
    task = await runner.run(planner=ScriptedPlanner(*answers, worst=worst), limits=limits)
    assert code(task) == f"engine/{reason}"
    assert task.failure is not None
    assert task.failure.message == message
    used = (await spent(runner, task)).spent
    assert used.iterations == calls
    assert used.input_tokens <= (limits.max_input_tokens or 1e9)
    assert used.output_tokens <= (limits.max_output_tokens or 1e9)
    assert used.input_tokens + used.output_tokens <= (limits.max_total_tokens or 1e9)
    assert used.cost <= (1e9 if limits.max_cost is None else limits.max_cost)


async def test_after_the_deadline_no_new_work_starts(runner: Runner, world: World) -> None:
    now = 0.0

    def work(context: Any) -> Any:
        nonlocal now
        now += 1.0
        return call(context.step)

    task = await runner.run(
        *[work] * 30, FinalAnswer(None), limits=Limits(max_seconds=3.0), clock=lambda: now
    )
    assert code(task) == "engine/timeout"
    assert len(world.done) == 2, "the third answer came at the deadline: its call is not begun"


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("concurrent", [True, False])
async def test_a_batch_ends_at_the_deadline(
    runner: Runner, parallel: bool, concurrent: bool
) -> None:
    """Calls that come one after the other are new work, each of them."""
    now = 0.0

    def work(arguments: Any) -> str:
        nonlocal now
        now += 1.0
        return "worked"

    each = Tool(
        "work", work, input_schema={"type": "object"}, effect="none", inline=True,
        concurrent=concurrent,
    )  # fmt: skip
    batches = [[ToolCall("work", {"n": 4 * step + n}) for n in range(4)] for step in range(9)]
    task = await runner.run(
        *batches, tools=[each], limits=Limits(max_seconds=6.0), clock=lambda: now,
        parallel_tools=parallel,
    )  # fmt: skip
    assert code(task) == "engine/timeout"
    assert now == 6.0


@pytest.mark.parametrize(
    "bad", [{"max_iterations": -1}, {"max_cost": float("nan")}, {"max_tool_calls": True},
            {"max_seconds": "1"}, {"max_failures": 1.5}],
)  # fmt: skip
def test_a_limit_that_is_none_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=next(iter(bad))):
        Limits(**bad)


def test_an_unknown_limit_is_refused_by_name() -> None:
    with pytest.raises(InvalidValue, match=r"max_steps.*max_iterations"):
        Limits().changed({"max_steps": 3})


@pytest.mark.rule("R17")
@pytest.mark.parametrize("less", ["input_tokens", "output_tokens", "cost"])
def test_a_reservation_covers_a_call_in_every_respect(less: str) -> None:
    worst = Usage(input_tokens=10, output_tokens=10, cost=1.0)
    reserved = Usage(**{"input_tokens": 10, "output_tokens": 10, "cost": 1.0, less: 0})  # type: ignore[arg-type]
    assert _covers(worst, worst)
    assert not _covers(reserved, worst)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            Limits(max_iterations=1),
            "max_iterations 1: 1 answer of the planner was counted; raise max_iterations",
        ),
        (
            Limits(max_iterations=2),
            "max_iterations 2: 2 answers of the planner were counted; raise max_iterations",
        ),
        (
            Limits(max_tool_calls=2),
            "max_tool_calls 2: 2 tool calls were made; raise max_tool_calls",
        ),
    ],
)
async def test_a_limit_names_its_value_the_use_and_the_remedy(
    runner: Runner, limits: Limits, message: str
) -> None:
    task = await runner.run(*[call(n) for n in range(9)], limits=limits)
    assert task.failure is not None
    assert task.failure.message == message


@pytest.mark.parametrize(
    ("reason", "limits", "message"),
    [
        (
            StopReason.MAX_FAILURES,
            Limits(max_failures=0),
            "max_failures 0: 1 action failed; raise max_failures or remove the cause of the "
            "failures",
        ),
        (
            StopReason.TIMEOUT,
            Limits(max_seconds=60),
            "max_seconds 60: the run worked for 61.25 seconds; raise max_seconds",
        ),
        (StopReason.MAX_COST, Limits(max_cost=0.05), "max_cost 0.05: spent 0.051; raise max_cost"),
    ],
)
def test_the_message_of_a_limit(reason: StopReason, limits: Limits, message: str) -> None:
    assert reached(reason, limits, Spent(failures=1, cost=0.051), 61.25) == message
