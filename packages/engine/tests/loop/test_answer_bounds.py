"""Bounds of one answer: how much it may ask for and how long it may be; and garbage from seams."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Host
from agentic_kernel_engine.loop import tool_progress
from agentic_kernel_engine.plans.action import (
    AskUser,
    FinalAnswer,
    PushGoal,
    Thought,
    ToolCall,
    kind_of,
)
from agentic_kernel_engine.plans.decision import Decision, require_approval
from agentic_kernel_engine.plans.limits import Limits
from agentic_kernel_engine.plans.plan import Delta, Plan, Usage
from agentic_kernel_engine.plans.transcript import Notice
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import Streamed
from agentic_kernel_engine.tools.tool import ToolContext, tool

from ..scripting import Runner, World, last_turn, new_task


def write(text: str) -> ToolCall:
    return ToolCall("write", {"text": text})


def told(context: Context) -> str:
    entry = context.transcript[-1]
    assert isinstance(entry, Notice)
    return entry.text


# How many actions


@pytest.mark.parametrize("count", [129, 20_000, 100_000])
@pytest.mark.parametrize("action", [write("x"), Thought("hm"), FinalAnswer(1)], ids=kind_of)
async def test_of_an_answer_with_too_many_calls_nothing_is_done_and_the_planner_can_recover(
    runner: Runner, world: World, count: int, action: Any
) -> None:
    texts: list[str] = []

    def recover(context: Context) -> Any:
        texts.append(told(context))
        return [write("one"), FinalAnswer("recovered")]

    done = await runner.run([action] * count, recover)
    assert done.result == "recovered"
    assert world.done == ["write one"]
    (text,) = texts
    assert f"had {count:,} calls, and one answer may have 128" in text
    assert "Nothing of it was done. Give fewer at once" in text
    events = await runner.events(done)
    made = [event.data for event in events if event.type == "plan.made"]
    assert made[0]["actions"] == []


async def test_as_many_calls_as_the_limit_are_done_and_the_limit_can_be_set(
    runner: Runner, world: World
) -> None:
    script = ([write(str(n)) for n in range(3)], FinalAnswer("done"))
    limits = Limits(max_calls_per_answer=3)
    assert (await runner.run(*script, limits=limits)).result == "done"
    assert len(world.done) == 3
    limits = Limits(max_calls_per_answer=2)
    assert (await runner.run(script[0], FinalAnswer("late"), limits=limits)).result == "late"
    assert len(world.done) == 3


async def test_what_the_refused_answer_used_up_is_counted(runner: Runner) -> None:
    plan = Plan((write("x"),) * 129, text="many", usage=Usage(10, 20))
    done = await runner.run(plan, FinalAnswer("done"))
    async with Host(store=runner.store) as host:
        found = await host.outcome(done.id)
    assert (found.usage.input_tokens, found.usage.output_tokens) == (10, 20)


async def test_a_planner_that_never_learns_is_stopped(runner: Runner, world: World) -> None:
    done = await runner.run(*[[write("x")] * 500] * 40)
    assert done.failure is not None
    assert done.failure.code == "engine/no_progress"
    assert world.done == []


async def test_middleware_cannot_pass_the_bound(runner: Runner, world: World) -> None:
    class Multiply:
        async def after_model(self, context: Context, plan: Plan) -> Plan | None:
            return None if context.step else Plan(plan.actions * 200)

    done = await runner.run(write("x"), FinalAnswer("done"), middleware=[Multiply()])
    assert (done.result, world.done) == ("done", [])


# How long it may be


class Asking:
    """A policy that wants an approval of every call."""

    async def authorize(self, action: Any, context: Context) -> Decision:
        return require_approval("") if isinstance(action, ToolCall) else Decision("allow")


MB = 1_000_000
LONG: dict[str, Any] = {
    "a thought of 8 MB": Thought("x" * 8 * MB),
    "arguments of 8 MB": write("x" * 8 * MB),
    "many that are long together": [write("x" * MB)] * 9,
    "a question of 8 MB": AskUser("x" * 8 * MB),
    "text of 8 MB": Plan((write("x"),), text="x" * 8 * MB),
    "reasoning of 8 MB": Plan((write("x"),), reasoning="\x01" * 2 * MB),
    "provider of 8 MB": Plan((write("x"),), provider={"impl": "x" * 8 * MB}),
    "a final answer over 8 MB": FinalAnswer("x" * 9 * MB),
    "an id": ToolCall("write", {"text": "x"}, "x" * MB),
    "a name": ToolCall("x" * MB),
}


@pytest.mark.parametrize("answer", LONG.values(), ids=LONG)
@pytest.mark.parametrize("policy", [None, Asking()], ids=["allowed", "approved"])
async def test_an_answer_that_is_too_long_ends_the_run_with_a_code_and_does_nothing(
    runner: Runner, world: World, answer: Any, policy: Any
) -> None:
    done = await runner.run(answer, policy=policy)
    assert done.failure is not None
    assert done.failure.code == "engine/bad_plan"
    assert "cannot be stored" in done.failure.message
    assert world.done == []


async def test_a_final_answer_of_nearly_8_mb_is_taken(runner: Runner) -> None:
    done = await runner.run(FinalAnswer("x" * 7_900_000))
    assert len(done.result) == 7_900_000


async def test_what_is_too_long_to_be_shown_for_an_approval_is_denied_and_the_planner_is_told(
    runner: Runner, world: World
) -> None:
    script = (
        [write("x" * 600_000), write("y" * 600_000)],
        lambda context: FinalAnswer([each.error for each in last_turn(context).observations]),
    )
    async with runner.host(*script, policy=Asking()) as host:
        await host.dispatch(task := new_task())
        paused = await host.wait(task.id, TaskStatus.PAUSED)
        (request,) = paused.metadata["engine/waiting_for"]["requests"]
        await host.approve(task.id, request["digest"])
        done = await host.wait(task.id)
    assert done.result == ["", "policy_denied"]
    assert world.done == ["write " + "x" * 600_000]


STREAMS: dict[str, list[str]] = {
    "of three bytes each": ["€" * MB] * 3,
    "that are escaped": ["\x01" * MB],
    "of text": ["x" * MB] * 5,
}


@pytest.mark.parametrize("pieces", STREAMS.values(), ids=STREAMS)
async def test_pieces_are_counted_by_what_they_take_up(runner: Runner, pieces: list[str]) -> None:
    done = await runner.run(Streamed(*pieces, plan=FinalAnswer("done")))
    assert done.failure is not None
    assert done.failure.code == "engine/endless_answer"
    assert "4,000,000 bytes of JSON" in done.failure.message


async def test_results_that_are_too_long_together_are_left_out_and_the_planner_is_told(
    runner: Runner,
) -> None:
    @tool(effect="write")
    async def large(n: int) -> str:
        return "x" * 900_000

    def see(context: Context) -> Any:
        return FinalAnswer([each.error for each in last_turn(context).observations])

    calls = [ToolCall("large", {"n": n}) for n in range(12)]
    done = await runner.run(calls, see, tools=[large])
    assert done.result == ["", "", *["output_schema_failed"] * 10]


async def test_the_name_of_a_call_that_cannot_be_made_is_cut(runner: Runner) -> None:
    def see(context: Context) -> Any:
        return FinalAnswer([each.tool for each in last_turn(context).observations])

    calls = [ToolCall("n" * 81, refused="no such form"), ToolCall("u" * 81)]
    done = await runner.run(calls, see)
    assert done.result == ["n" * 80, "u" * 80]


async def test_goals_are_bounded(runner: Runner) -> None:
    def see(context: Context) -> Any:
        return FinalAnswer([each.error for each in last_turn(context).observations])

    done = await runner.run([PushGoal("x" * 60_000), PushGoal("y" * 60_000)], see)
    assert done.result == ["", "schema_validation_failed"]


async def test_reports_of_tools_are_bounded_between_two_commits(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_progress, "PROGRESS", 10_000)

    @tool(effect="none")
    async def chatty(context: ToolContext) -> None:
        for n in range(1_000):
            context.progress(n)

    done = await runner.run(ToolCall("chatty"), FinalAnswer("done"), tools=[chatty])
    assert done.result == "done"
    reports = [e.data["report"] for e in await runner.events(done) if e.type == "tool.progress"]
    assert 50 < len(reports) < 110
    assert reports[-1] == "(more was reported than is kept of one step)"


async def test_reports_that_fill_their_bound_exactly_are_kept(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each counts with its JSON text, the tool's name and 100 bytes more."""
    monkeypatch.setattr(tool_progress, "PROGRESS", 3 * (len("1") + len("chatty") + 100))

    @tool(effect="none")
    async def chatty(context: ToolContext) -> None:
        for _ in range(3):
            context.progress(1)

    done = await runner.run(ToolCall("chatty"), FinalAnswer("done"), tools=[chatty])
    reports = [e.data["report"] for e in await runner.events(done) if e.type == "tool.progress"]
    assert reports == [1, 1, 1]


# What makes no sense


class Gives:
    """A planner that gives something."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def plan(self, context: Context) -> Any:
        return self.given


class GivesSoon(Gives):
    async def plan(self, context: Context) -> Any:
        return self.given


class Streams(Gives):
    async def plan(self, context: Context) -> Any:
        yield self.given


GARBAGE: list[tuple[Callable[[Any], Any], Any, str]] = [
    (GivesSoon, None, "the planner gave a None; it must give an action, several, a Plan, or"),
    (GivesSoon, "text", "the planner gave a str; it must give an action"),
    (
        GivesSoon,
        [None],
        "actions[0] of the planner's answer is a None and no action; use one of",
    ),
    (GivesSoon, [[]], "actions[0] of the planner's answer is a list and no action"),
    (GivesSoon, Plan(None), "actions of the planner's Plan is a None; give a tuple"),  # type: ignore[arg-type]
    (GivesSoon, Plan((), text=5), "text: is a int; give a string"),  # type: ignore[arg-type]
    (Gives, None, "plan() of the planner gave a None, which cannot be awaited; write 'async def"),
    (Gives, FinalAnswer(1), "plan() of the planner gave a FinalAnswer, which cannot be awaited"),
    (Streams, None, "the planner gave a None; it must give an action"),
    (Streams, Delta("x"), "the planner's stream ended without a plan; it must give"),
    (Streams, Delta(5), "gave a bad Delta: Delta.text: is a int; give a string"),  # type: ignore[arg-type]
    (Streams, Delta("x", None), "gave a bad Delta: Delta.channel: is a None"),  # type: ignore[arg-type]
    (Streams, Delta("\ud800"), "gave a bad Delta: Delta.text: holds the lone surrogate"),
    (Streams, Delta("\0"), "gave a bad Delta: Delta.text: holds a NUL"),
]


@pytest.mark.parametrize(("kind", "given", "words"), GARBAGE, ids=range(len(GARBAGE)))
async def test_a_planner_that_gives_garbage_is_told_what_came_and_what_is_wanted(
    runner: Runner, kind: Any, given: Any, words: str
) -> None:
    done = await runner.run(planner=kind(given))
    assert done.failure is not None
    assert done.failure.code == "engine/bad_plan"
    assert words in done.failure.message


class Said:
    """A policy that says something."""

    def __init__(self, said: Any) -> None:
        self.said = said

    async def authorize(self, action: Any, context: Context) -> Any:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said if isinstance(action, ToolCall) else Decision("allow")


JUDGED: list[tuple[Any, str]] = [
    (None, "the policy Said gave None and no Decision for a tool_call; authorize must give a Dec"),
    (True, "gave a bool and no Decision"),
    ("allow", "gave a str and no Decision"),
    (Decision("perhaps"), "gave a Decision whose verdict is 'perhaps' for a tool_call; authorize"),  # type: ignore[arg-type]
    (Decision("allow", 5), "gave a Decision whose reason is 5"),  # type: ignore[arg-type]
    (ValueError("a bug"), "the policy failed: ValueError"),
]


@pytest.mark.parametrize(("said", "words"), JUDGED, ids=range(len(JUDGED)))
async def test_a_policy_that_gives_garbage_has_denied_and_the_log_says_so_once(
    runner: Runner, world: World, caplog: pytest.LogCaptureFixture, said: Any, words: str
) -> None:
    def see(context: Context) -> Any:
        return FinalAnswer(last_turn(context).observations[0].message)

    class Once(Said):
        async def authorize(self, action: Any, context: Context) -> Any:
            return Decision("allow") if context.step else await super().authorize(action, context)

    Once.__name__ = "Said"
    with caplog.at_level(logging.ERROR, "agentic_kernel_engine"):
        done = await runner.run(write("x"), see, policy=Once(said))
    assert words in done.result
    assert world.done == []
    (record,) = caplog.records
    assert record.getMessage() == f"task {done.id!r}, step 0: the policy Said failed"


async def test_a_reason_that_cannot_be_stored_as_it_is_is_made_fit(runner: Runner) -> None:
    policy = Said(Decision("deny", "no\0 \ud800" + "x" * 10_000))
    done = await runner.run(write("x"), FinalAnswer("done"), policy=policy)
    assert done.result == "done"
    (decided, _) = [e.data for e in await runner.events(done) if e.type == "plan.decided"]
    assert decided["decisions"][0]["reason"].startswith("no\\0 \\ud800xx")


async def test_a_scheduler_that_gives_too_few_observations_is_named(runner: Runner) -> None:
    class Forgetful:
        async def run(self, calls: Any, concurrent: Any) -> list[Any]:
            for each in calls:
                await each()
            return []

    done = await runner.run(write("x"), scheduler=Forgetful())
    assert done.failure is not None
    assert "the scheduler Forgetful gave 0 observations for 1 calls" in done.failure.message


def failing(*args: Any, **named: Any) -> Any:
    raise ValueError("a bug")


async def failing_soon(*args: Any) -> Any:
    failing()


class Fails:
    """Every seam, each of which fails."""

    plan = compact = staticmethod(failing)
    before_tool = recall = propose = supersede = staticmethod(failing_soon)
    tombstone = explain = export = restore = staticmethod(failing_soon)


class FailsToBegin:
    """Middleware that fails before the first step."""

    on_run_start = staticmethod(failing_soon)


BUGS: dict[str, tuple[dict[str, Any], str, bool]] = {
    "planner": ({"planner": Fails()}, "the planner", True),
    "middleware": ({"middleware": [Fails()]}, "the hook Fails.before_tool", True),
    "run": ({"middleware": [FailsToBegin()]}, "the hook FailsToBegin.on_run_start", True),
    "memory": ({"memory": Fails()}, "the memory (recall)", False),
    "compactor": ({"compactor": Fails()}, "the compactor Fails", False),
    "tools": ({"should_cancel": failing}, "the run", True),
}


@pytest.mark.parametrize(("options", "where", "ends"), BUGS.values(), ids=BUGS)
async def test_a_bug_is_logged_once_with_its_traceback_and_its_place(
    runner: Runner, caplog: pytest.LogCaptureFixture, options: Any, where: str, ends: bool
) -> None:
    with caplog.at_level(logging.ERROR, "agentic_kernel_engine"):
        done = await runner.run(write("x"), **options, limits=Limits(max_iterations=1))
    (record,) = [each for each in caplog.records if where in each.getMessage()][:1]
    assert record.getMessage() == f"task {done.id!r}, step 0: {where} failed"
    assert record.exc_text is not None
    assert 'raise ValueError("a bug")\nValueError: a bug' in record.exc_text
    assert done.failure is not None
    if ends:
        assert len(caplog.records) == 1
        metadata = done.failure.metadata or {}
        assert metadata["file"] == __file__
        assert metadata["line"] == failing.__code__.co_firstlineno + 1
