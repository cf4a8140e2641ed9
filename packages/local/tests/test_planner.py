"""The planner on the real model: whatever it says is an action."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Limits, Loop, tool
from agentic_kernel_engine.loop import Outcome, ToolCall
from agentic_kernel_local import Example, LocalPlanner, LocalRuntime
from agentic_kernel_local.engine import Engine

pytestmark = pytest.mark.slow

EXAMPLES = [
    Example("How much is 3 + 4?", ToolCall("add", {"numbers": {"a": 3, "b": 4}}), 7, "7"),
    Example("How much is 20 + 1?", ToolCall("add", {"numbers": {"a": 20, "b": 1}}), 21, "21"),
]
RAMBLING = "Write a story of a hundred words about the sea."


@tool(effect="none", inline=True)
def idle() -> str:
    """Do nothing."""
    return "done"


@pytest_asyncio.fixture
async def planner(engine: Engine) -> AsyncIterator[LocalPlanner]:
    planner = make(engine)
    assert await planner.open() is engine
    yield planner
    await planner.close()


def make(engine: Engine, max_tokens: int = 200) -> LocalPlanner:
    return LocalPlanner(
        max_tokens=max_tokens,
        examples=EXAMPLES,
        slots=engine.options.slots,
        context_tokens=engine.options.context_tokens,
    )


async def run(loop: Loop, instructions: str) -> Outcome:
    task = Task.new(summary="", instructions=instructions, runtime_kind="local")
    async with Host(loop) as host:
        await host.run(task)
        return await host.outcome(task.id)


async def test_a_tool_is_called_and_the_answer_comes(planner: LocalPlanner) -> None:
    called: list[Any] = []

    def add(numbers: dict[str, int]) -> int:
        """Add two numbers."""
        called.append(numbers)
        return sum(numbers.values())

    outcome = await run(
        Loop(planner, [tool(add, effect="none", inline=True)], limits=Limits(max_iterations=4)),
        "How much is 12 + 30?",
    )
    assert outcome.task.status is TaskStatus.SUCCESS
    assert called[0] == {"a": 12, "b": 30}
    assert "42" in outcome.answer
    plans = [event.data for event in outcome.events if event.type == "plan.made"]
    assert len(plans) == len(called) + 1
    assert outcome.usage.input_tokens == sum(plan["usage"]["input_tokens"] for plan in plans)
    said = "".join(
        event.data["text"] for event in outcome.events if event.data.get("channel") == "arguments"
    )
    assert said.startswith("{")
    assert '"add"' in said


async def test_an_answer_fits_the_schema_that_is_asked_for(planner: LocalPlanner) -> None:
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "blue"]}, "count": {"type": "integer"}},
        "required": ["colour", "count"],
        "additionalProperties": False,
    }
    outcome = await run(Loop(planner, output_schema=schema), RAMBLING)
    assert outcome.answer["colour"] in ("red", "blue")
    assert isinstance(outcome.answer["count"], int)


async def test_an_answer_that_a_limit_cuts_is_no_action(engine: Engine) -> None:
    planner = make(engine, max_tokens=6)
    outcome = await run(Loop(planner, [idle]), RAMBLING)
    await planner.close()
    assert outcome.task.failure is not None
    assert outcome.task.failure.code == "local/max_tokens"
    assert outcome.task.failure.metadata["text"].startswith("{")
    (failed,) = [event for event in outcome.events if event.type == "plan.failed"]
    assert failed.data["forfeited"] == {}
    used = outcome.usage
    assert failed.data["usage"] == {"input_tokens": used.input_tokens, "output_tokens": 6}
    assert 0 < outcome.usage.input_tokens < engine.options.context_tokens


async def test_a_limit_of_tokens_shortens_the_answer(planner: LocalPlanner) -> None:
    """The limit leaves less than `max_tokens`; the call is made, and its answer is cut there."""
    outcome = await run(Loop(planner, limits=Limits(max_output_tokens=9)), RAMBLING)
    assert outcome.task.failure is not None
    assert outcome.task.failure.code == "local/max_tokens"
    assert outcome.usage.output_tokens == 9


@pytest.mark.parametrize(
    ("choice", "called"), [("none", []), ("required", ["idle"]), ("idle", ["idle"])]
)
async def test_a_task_chooses_if_the_first_answer_is_a_call(
    planner: LocalPlanner, choice: str, called: list[str]
) -> None:
    metadata = {"local/tool_choice": choice}
    task = Task.new(summary="", instructions="Say hello.", runtime_kind="local", metadata=metadata)
    async with Host(Loop(planner, [idle], limits=Limits(max_iterations=2))) as host:
        await host.run(task)
        outcome = await host.outcome(task.id)
    first = next(event.data for event in outcome.events if event.type == "plan.made")
    assert [each["tool"] for each in first["actions"] if "tool" in each] == called


async def test_a_forced_function_that_is_not_there_is_told(planner: LocalPlanner) -> None:
    metadata = {"local/tool_choice": "fly"}
    task = Task.new(summary="", instructions="Hi", runtime_kind="local", metadata=metadata)
    async with Host(Loop(planner, [idle])) as host:
        failed = await host.run(task)
    assert failed.failure is not None
    assert failed.failure.code == "local/bad_options"
    assert "tool_choice is fly" in failed.failure.message


async def test_an_offer_becomes_the_action_of_the_loop(engine: Engine) -> None:
    planner = LocalPlanner(
        offers=["ask_user"],
        tool_choice="ask_user",
        slots=engine.options.slots,
        context_tokens=engine.options.context_tokens,
        max_tokens=300,
    )
    task = Task.new(summary="", instructions="Ask for my name.", runtime_kind="local")
    async with Host(Loop(planner)) as host:
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        paused = await host.get(task.id)
        assert paused.metadata["engine/waiting_for"]["kind"] == "question"
        await host.kill(task.id)
    await planner.close()


async def test_a_limit_of_time_counts_the_prompt_and_the_longest_answer(engine: Engine) -> None:
    planner = make(engine)
    outcome = await run(Loop(planner, limits=Limits(max_seconds=0.3)), RAMBLING)
    await planner.close()
    assert outcome.task.failure is not None
    assert outcome.task.failure.code == "engine/timeout"
    (cut,) = [event for event in outcome.events if event.type == "run.cut"]
    if "usage" in cut.data:  # It was cut in the answer, and not while the prompt was read.
        assert 0 < outcome.usage.input_tokens < engine.options.context_tokens
    assert outcome.usage.output_tokens == 200


async def test_no_call_is_made_that_could_pass_a_limit_of_tokens(planner: LocalPlanner) -> None:
    limits = Limits(max_total_tokens=10)  # The prompt alone has more, as the model counts.
    outcome = await run(Loop(planner, limits=limits), RAMBLING)
    assert outcome.task.failure is not None
    assert outcome.task.failure.code == "engine/max_tokens"
    assert outcome.usage.input_tokens == 0


async def test_a_kill_stops_the_model(planner: LocalPlanner, engine: Engine) -> None:
    task = Task.new(summary="", instructions=RAMBLING, runtime_kind="local")
    async with Host(Loop(planner)) as host:
        await host.dispatch(task)
        async with asyncio.timeout(60):
            while not engine._running:
                await asyncio.sleep(0.01)
        [generation] = engine._running
        await host.kill(task.id)
        await asyncio.to_thread(generation.thread.join, 60)
        assert not generation.thread.is_alive()
        async with asyncio.timeout(60):
            while engine._running:
                await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_the_model_counts_a_prompt_whose_bound_would_pass_a_limit() -> None:
    limits = Limits(max_total_tokens=300)
    async with LocalRuntime(max_tokens=8, limits=limits) as runtime:
        task = (await runtime.run("hi")).task
    assert task.failure is None or task.failure.code == "local/max_tokens"
