"""The step: what each kind of answer leads to, and what it leaves on record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Event, Host, InMemoryObserver, Loop
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.plans import vocabulary
from agentic_kernel_engine.plans.action import (
    AskUser,
    CompleteGoal,
    FinalAnswer,
    PushGoal,
    Schedule,
    Stop,
    Thought,
    ToolCall,
)
from agentic_kernel_engine.plans.decision import ALLOW
from agentic_kernel_engine.plans.ending import PlannerError
from agentic_kernel_engine.plans.limits import Limits
from agentic_kernel_engine.plans.plan import Plan, Usage
from agentic_kernel_engine.plans.transcript import Notice, Turn, UserMessage
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import ScriptedPlanner, Streamed
from agentic_kernel_engine.tools.scheduler import SequentialScheduler
from agentic_kernel_engine.tools.tool import Tool, ToolContext, tool

from ..scripting import Runner, World, new_task

SUM = ToolCall("add", {"a": 1, "b": 2})


def reason(task: Task) -> Any:
    return task.metadata.get("engine/stop_reason")


async def test_a_final_answer_ends_the_task_well(runner: Runner) -> None:
    task = await runner.run(FinalAnswer({"sum": 3}))
    assert (task.status, task.result, reason(task)) == ("success", {"sum": 3}, "final")


async def test_a_step_leaves_its_plan_its_decisions_and_its_observations(
    runner: Runner, world: World
) -> None:
    task = await runner.run(Plan((SUM,), text="let me see", usage=Usage(10, 5)), FinalAnswer(3))
    events = await runner.events(task)
    types = [event.type for event in events]
    assert types == [
        "task.dispatched", "run.started",
        "plan.made", "plan.decided", "step.observed",
        "plan.made", "plan.decided", "step.observed", "run.stopped", "task.completed",
    ]  # fmt: skip
    assert events[4].data["observations"] == [{"output": 3, "tool": "add"}]
    assert world.done == ["add 1 2"]
    async with Host(store=runner.store) as host:
        done = await host.outcome(task.id)
    assert (done.answer, done.reason, done.usage) == (3, "final", Usage(10, 5))


def started(events: Sequence[Event]) -> Mapping[str, Any]:
    return next(event.data for event in events if event.type == vocabulary.RUN_STARTED)


async def test_the_beginning_of_a_run_names_its_tools(runner: Runner) -> None:
    """So another program sees that it cannot go on with the Task, before any of them is called."""
    told = started(await runner.events(await runner.run(FinalAnswer(3))))
    assert told["tools"] == ["add", "write", "put", "fail"]
    bare = started(await runner.events(await runner.run(FinalAnswer(3), tools=[])))
    assert "tools" not in bare


class Growing:
    """A registry whose list grows while a Loop has it."""

    def __init__(self) -> None:
        self.all: list[Tool] = []

    def grow(self, number: int) -> None:
        for _ in range(number):

            @tool(name=f"n{len(self.all)}", effect="none")
            async def nothing() -> None:
                """Do nothing."""

            self.all.append(nothing)

    def tools(self) -> list[Tool]:
        return self.all

    def find(self, name: str) -> Tool | None:
        return None


async def test_the_beginning_of_a_run_names_the_tools_of_that_moment_and_at_most_100(
    runner: Runner,
) -> None:
    registry = Growing()
    async with runner.host(FinalAnswer(1), FinalAnswer(2), tools=registry) as host:
        for number, named in ((3, 3), (200, 100)):
            registry.grow(number)
            task = await host.run(new_task())
            told = started(await runner.events(task))
            assert told["tools"] == [f"n{index}" for index in range(named)]


async def test_a_batch_gives_its_observations_in_the_order_of_its_calls(runner: Runner) -> None:
    calls = [ToolCall("add", {"a": n, "b": n}, id=f"c{n}") for n in range(5)]
    task = await runner.run(calls, FinalAnswer("done"))
    events = await runner.events(task)
    observed = next(e for e in events if e.type == vocabulary.STEP_OBSERVED)
    assert [each["output"] for each in observed.data["observations"]] == [0, 2, 4, 6, 8]
    assert [each["call"] for each in observed.data["observations"]] == [f"c{n}" for n in range(5)]


async def test_the_planner_sees_what_was_said_and_done(runner: Runner) -> None:
    seen: list[Any] = []

    def look(context: Context) -> Any:
        seen.extend(context.transcript)
        return FinalAnswer(None)

    await runner.run(SUM, Thought("hm"), look)
    assert [type(entry) for entry in seen] == [UserMessage, Turn, Turn]
    assert seen[0].text == "do it"
    assert seen[1].observations[0].output == 3


async def test_what_goes_wrong_with_a_tool_is_an_observation(runner: Runner) -> None:
    codes: list[str] = []

    def look(context: Context) -> Any:
        codes.extend(o.error for e in context.transcript[1:] for o in e.observations)  # type: ignore[union-attr]
        return FinalAnswer(None)

    calls = [
        ToolCall("fail"), ToolCall("nowhere"), ToolCall("add", {"a": "one", "b": 2}),
        ToolCall("add", {"a": 1}),
    ]  # fmt: skip
    await runner.run(calls, look)
    assert codes == [
        "handler_error", "unknown_tool", "schema_validation_failed", "schema_validation_failed",
    ]  # fmt: skip


async def test_goals_are_a_stack(runner: Runner) -> None:
    depths: list[list[str]] = []

    def look(then: Any) -> Any:
        def answer(context: Context) -> Any:
            depths.append(list(context.goals))
            return then

        return answer

    task = await runner.run(
        PushGoal("outer"), look(PushGoal("inner")), look(CompleteGoal()), look(CompleteGoal()),
        look(CompleteGoal()), look(FinalAnswer(None)),
    )  # fmt: skip
    assert depths == [["outer"], ["outer", "inner"], ["outer"], [], []]
    events = await runner.events(task)
    assert replay(events).goals == ()
    assert replay(events).spent.failures == 1, "there was no goal left to complete"


async def test_a_stop_ends_the_task_without_an_answer(runner: Runner) -> None:
    task = await runner.run(Stop("nothing to do"))
    assert task.status is TaskStatus.FAILURE
    assert task.failure is not None
    assert (task.failure.code, task.failure.message) == ("engine/stopped", "nothing to do")
    assert reason(task) == "stopped"


async def test_a_final_answer_must_fit_the_output_schema(runner: Runner) -> None:
    schema = {"type": "object", "required": ["sum"], "properties": {"sum": {"type": "integer"}}}
    task = await runner.run(FinalAnswer("three"), FinalAnswer({"sum": 3}), output_schema=schema)
    assert task.result == {"sum": 3}
    assert replay(await runner.events(task)).spent.failures == 1


async def test_a_fault_of_the_planner_keeps_its_code(runner: Runner) -> None:
    task = await runner.run(PlannerError("acme/overloaded", "later", {"retry_after_ms": 100}))
    assert task.failure is not None
    assert (task.failure.code, task.failure.message) == ("acme/overloaded", "later")
    assert task.failure.metadata == {"retry_after_ms": 100}
    assert reason(task) == "error"


@pytest.mark.parametrize(
    "answer",
    [None, "text", 3, {"tool": "add"}, [None], Plan((None,))],  # type: ignore[arg-type]
)
async def test_an_answer_that_is_no_plan_is_a_fault(runner: Runner, answer: Any) -> None:
    task = await runner.run(answer)
    assert task.failure is not None
    assert task.failure.code == "engine/bad_plan"
    assert reason(task) == "error"


@pytest.mark.parametrize(
    "bad", [float("nan"), "\ud800", 1 << 70, object()], ids=["nan", "surrogate", "huge", "object"]
)
async def test_arguments_that_cannot_be_stored_are_a_fault(runner: Runner, bad: Any) -> None:
    task = await runner.run(ToolCall("add", {"a": bad}))
    assert task.failure is not None
    assert task.failure.code == "engine/bad_plan"


async def test_an_empty_answer_is_told_to_the_planner_and_is_no_progress(runner: Runner) -> None:
    seen: list[Any] = []

    def look(context: Context) -> Any:
        seen.extend(context.transcript)
        return FinalAnswer(None)

    await runner.run((), look)
    assert isinstance(seen[-1], Notice)
    task = await runner.run(*[()] * 50, limits=Limits(max_non_progress=3, max_reflections=0))
    assert task.failure is not None
    assert task.failure.code == "engine/no_progress"


async def test_a_stream_is_passed_on_piece_by_piece(runner: Runner) -> None:
    task = await runner.run(Streamed("The ", "sum ", "is 3.", plan=FinalAnswer(3)))
    events = await runner.events(task)
    assert [e.data["text"] for e in events if e.type == "run.delta"] == ["The sum is 3."]
    assert task.result == 3


async def test_a_question_pauses_until_it_is_answered(runner: Runner) -> None:
    heard: list[str] = []

    def listen(context: Context) -> Any:
        heard.extend(e.text for e in context.transcript if isinstance(e, UserMessage))
        return FinalAnswer("thanks")

    async with runner.host(AskUser("which?"), listen) as host:
        task = new_task()
        await host.dispatch(task)
        paused = await host.wait(task.id, TaskStatus.PAUSED)
        waiting: Any = paused.metadata["engine/waiting_for"]
        assert (waiting["kind"], waiting["question"]) == ("question", "which?")
        assert reason(paused) == "interrupt"
        await host.answer(task.id, "the second", by="ann")
        done = await host.wait(task.id)
    assert done.result == "thanks"
    assert heard == ["do it", "the second"]
    assert done.metadata["engine/waiting_for"] is None


MOMENTS = [
    "", "0001-01-01T00:00:00+12:00", "2026-11-22", "2026-11-22T03:21:29",
    "2026-11-22T03:21:29+25:00", "9999-12-31T23:59:59+00:00", "9999-12-31T23:59:59-12:00", "never",
    "soon",
]  # fmt: skip


@pytest.mark.parametrize("at", MOMENTS)
async def test_a_moment_that_is_none_is_told_to_the_planner(runner: Runner, at: str) -> None:
    task = await runner.run(Schedule(at), FinalAnswer("done"))
    assert task.result == "done"
    assert replay(await runner.events(task)).observations[0].error == "schema_validation_failed"


async def test_a_scheduled_task_is_woken_by_its_host(runner: Runner) -> None:
    at = (datetime.now(UTC) + timedelta(seconds=0.2)).isoformat()
    async with runner.host(Schedule(at, "later"), FinalAnswer("woken")) as host:
        task = new_task()
        await host.dispatch(task)
        paused = await host.wait(task.id, TaskStatus.PAUSED)
        assert paused.metadata["engine/waiting_for"] == {
            "kind": "schedule", "at": at, "reason": "later",
        }  # fmt: skip
        assert (await host.wait(task.id)).result == "woken"


async def test_only_the_first_action_that_pauses_is_done(runner: Runner) -> None:
    batch = [AskUser("one?"), Thought("hm"), AskUser("two?"), FinalAnswer("early")]
    async with runner.host(batch, FinalAnswer("done")) as host:
        task = new_task()
        await host.dispatch(task)
        paused = await host.wait(task.id, TaskStatus.PAUSED)
        waiting: Any = paused.metadata["engine/waiting_for"]
        assert waiting["question"] == "one?"
        await host.answer(task.id, "yes")
        assert (await host.wait(task.id)).result == "done"
    assert replay(await runner.events(task)).actions == [batch[0], FinalAnswer("done")]


async def test_what_a_task_waited_for_is_not_said_any_more_once_it_went_on(
    runner: Runner,
) -> None:
    """Not even where it is paused again right after."""
    async with runner.host(AskUser("one?"), Thought("hm"), FinalAnswer("done")) as host:
        task = new_task()
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        await host.post(task.id, {"type": vocabulary.STEP})
        assert (await host.answer(task.id, "yes")).changed
        again = await host.wait(task.id, TaskStatus.PAUSED)
    assert again.status is TaskStatus.PAUSED
    assert again.metadata["engine/waiting_for"] is None


async def test_an_exception_that_nobody_expected_ends_the_run_on_record(runner: Runner) -> None:
    class Blind:
        def visible(self, tool: Any, context: Context) -> bool:
            if context.step:
                raise RuntimeError("blind")
            return True

        async def authorize(self, action: Any, context: Context) -> Any:
            return ALLOW

    task = await runner.run(Plan((SUM,), usage=Usage(10, 5)), policy=Blind())
    assert task.failure is not None
    assert task.failure.code == "engine/unhandled_error"
    told = replay(await runner.events(task))
    assert (told.reason, told.spent.output_tokens, told.steps) == ("error", 5, 1)


async def test_an_answer_to_one_question_does_not_answer_the_next(runner: Runner) -> None:
    heard: list[str] = []

    def listen(context: Context) -> Any:
        heard.extend(e.text for e in context.transcript if isinstance(e, UserMessage))
        return FinalAnswer("thanks")

    async with runner.host(AskUser("one?"), AskUser("two?"), listen) as host:
        task = new_task()
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        version = (await host.record(task.id)).version
        assert (await host.answer(task.id, "one", at_version=version)).changed
        await host.wait(task.id, TaskStatus.PAUSED)
        assert not (await host.answer(task.id, "one again", at_version=version)).changed
        await host.answer(task.id, "two")
        await host.wait(task.id)
    assert heard == ["do it", "one", "two"]


async def test_a_scheduler_that_loses_a_result_fails_the_run_and_nothing_is_said_to_be_skipped(
    runner: Runner, world: World
) -> None:
    class Loses(SequentialScheduler):
        async def run(self, calls: Any, concurrent: Any) -> Any:
            return (await super().run(calls, concurrent))[:-1]

    batch = [ToolCall("write", {"text": "a"}), ToolCall("write", {"text": "b"})]
    done = await runner.run(batch, FinalAnswer("done"), scheduler=Loses())
    assert done.status is TaskStatus.FAILURE
    assert world.done == ["write a", "write b"]
    assert "step.observed" not in [event.type for event in await runner.events(done)]


async def test_of_several_answers_to_one_question_the_first_counts(runner: Runner) -> None:
    heard: list[str] = []

    def listen(context: Context) -> Any:
        heard.extend(e.text for e in context.transcript if isinstance(e, UserMessage))
        return FinalAnswer("thanks")

    async with runner.host(AskUser("which?"), listen) as host:
        task = new_task()
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        await host.post(task.id, {"type": "engine/answer", "text": "one"})
        await host.post(task.id, {"type": "engine/answer", "text": "two"})
        await host.resume(task.id)
        await host.wait(task.id)
    assert heard == ["do it", "one"]
    types = [event.type for event in await runner.events(task)]
    assert (types.count("question.answered"), types.count("approval.ignored")) == (1, 1)


@pytest.mark.parametrize("order", [("write", "add"), ("add", "write")])
async def test_an_effect_is_prepared_wherever_it_stands_in_its_batch(
    runner: Runner, order: tuple[str, ...]
) -> None:
    prepared: list[bool] = []

    @tool(effect="write")
    async def write(context: ToolContext) -> None:
        """Look whether this effect is on record."""
        history = await runner.store.events(context.task_id)
        prepared.append(any(b"effects.prepared" in text for _, text in history))

    @tool(effect="none")
    async def add() -> None:
        """Do nothing."""

    await runner.run([ToolCall(name) for name in order], FinalAnswer(1), tools=[write, add])
    assert prepared == [True]


async def test_an_observer_hears_each_event_of_a_run_once_and_the_last_ones_as_well(
    runner: Runner, world: World
) -> None:
    observer = InMemoryObserver()
    loop = Loop(ScriptedPlanner(SUM, FinalAnswer(3)), world.tools())
    async with Host(loop, runner.store, observer=observer) as host:
        task = await host.run(new_task())
    stored = [event.type for event in await runner.events(task)]
    heard = [event.type for _, event in observer.events]
    assert stored[-2:] == [vocabulary.RUN_STOPPED, "task.completed"]
    assert [each for each in heard if each in stored] == stored
