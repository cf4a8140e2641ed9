"""Middleware that changes a call: Policy decides about it again, a person about no other."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Event
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.plans.action import Action, FinalAnswer, ToolCall
from agentic_kernel_engine.plans.decision import ALLOW, Decision, deny, require_approval, stop
from agentic_kernel_engine.plans.observation import Observation
from agentic_kernel_engine.seams.middlewares import Cache, ToolTimeout
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import ScriptedPlanner
from agentic_kernel_engine.seams.policies import BasicPolicy
from agentic_kernel_engine.tools.call import Invocation

from ..conftest import Crash
from ..scripting import Runner, World, last_turn, new_task

WRITE = ToolCall("write", {"text": "approved"})
Change = Callable[[Invocation], object]


class Changes:
    """A middleware that does something to every call before it is made."""

    def __init__(self, change: Change) -> None:
        self._change = change

    async def before_tool(self, invocation: Invocation) -> None:
        self._change(invocation)


def replaced(invocation: Invocation) -> None:
    invocation.arguments = {"text": "changed"}


def in_place(invocation: Invocation) -> None:
    invocation.arguments["text"] = "changed"  # type: ignore[index]


def by_way_of_the_call(invocation: Invocation) -> None:
    invocation.call.arguments["text"] = "changed"  # type: ignore[index]


def with_one_more(invocation: Invocation) -> None:
    invocation.arguments = {**invocation.arguments, "more": 1}


def another_tool(invocation: Invocation) -> None:
    invocation.tool = next(each for each in World().tools() if each.name == "put")


def another_handler(invocation: Invocation) -> None:
    tool = copy.copy(invocation.tool)
    tool.handler = World().tools()[2].handler
    invocation.tool = tool


def another_effect(invocation: Invocation) -> None:
    tool = copy.copy(invocation.tool)
    tool.effect = "none"
    invocation.tool = tool


def nothing(invocation: Invocation) -> None:
    invocation.arguments = {"text": "approved"}


CHANGES = [replaced, in_place, by_way_of_the_call, with_one_more]
OTHER_TOOLS = [another_tool, another_handler, another_effect]


async def observed(runner: Runner, task: Task) -> dict[str, Any]:
    first = next(e for e in await runner.events(task) if e.type == "step.observed")
    return dict(first.data["observations"][0])


class OnlyThis:
    """Wants an approval of the first call as it is, and of nothing else."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        return require_approval("as it is") if action == WRITE else ALLOW


async def approved(runner: Runner, *middleware: Any, **options: Any) -> Task:
    """A run whose first call a person approves."""
    task = new_task()
    options = {"policy": BasicPolicy(approve=["write"]), **options}
    async with runner.host(WRITE, FinalAnswer("done"), middleware=middleware, **options) as host:
        await host.dispatch(task)
        paused = await host.wait(task.id, TaskStatus.PAUSED)
        waiting: Any = paused.metadata["engine/waiting_for"]
        await host.approve(task.id, waiting["requests"][0]["digest"], by="ann")
        return await host.wait(task.id)


@pytest.mark.parametrize("policy", [BasicPolicy(approve=["write"]), OnlyThis()], ids=["any", "one"])
@pytest.mark.parametrize("change", [*CHANGES, *OTHER_TOOLS], ids=lambda each: each.__name__)
async def test_what_a_person_approved_is_done_as_it_was_approved_or_not_at_all(
    runner: Runner, world: World, change: Change, policy: Any
) -> None:
    """Also where the policy would ask nobody about what middleware made of it."""
    done = await approved(runner, Changes(change), policy=policy)
    assert done.result == "done"
    assert world.done == []
    seen = await observed(runner, done)
    assert seen["error"] == "policy_denied"
    assert "middleware" in seen["message"]
    assert replay(await runner.events(done)).spent.tool_calls == 0


@pytest.mark.parametrize("middleware", [Changes(nothing), ToolTimeout(5)], ids=["same", "timeout"])
async def test_what_leaves_an_approved_call_as_it_was_stops_nothing(
    runner: Runner, world: World, middleware: Any
) -> None:
    done = await approved(runner, middleware)
    assert done.result == "done"
    assert world.done == ["write approved"]


async def test_an_observation_in_the_place_of_an_approved_call_is_no_call(
    runner: Runner, world: World
) -> None:
    class Answers:
        async def before_tool(self, invocation: Invocation) -> Observation:
            invocation.arguments = {"text": "changed"}
            return Observation("from elsewhere")

    done = await approved(runner, Answers())
    assert (done.result, world.done) == ("done", [])
    assert (await observed(runner, done)) == {"output": "from elsewhere"}


async def test_a_changed_call_may_end_the_run_like_any_other_that_is_denied(
    runner: Runner, world: World
) -> None:
    done = await approved(runner, Changes(replaced), on_deny="end")
    assert done.failure is not None
    assert (done.failure.code, world.done) == ("engine/denied", [])


async def test_a_crash_between_approval_and_call_lets_no_changed_call_through(
    runner: Runner, world: World, crash: Crash
) -> None:
    """The one who goes on has the middleware; the one who asked had none."""
    reached = asyncio.Event()

    class Holds:
        async def before_tool(self, invocation: Invocation) -> None:
            reached.set()
            await asyncio.Event().wait()

    policy = BasicPolicy(approve=["put"])
    script, task = (ToolCall("put", {"text": "approved"}), FinalAnswer("done")), new_task()
    host = runner.mortal(*script, policy=policy, middleware=[Holds()])
    await host.dispatch(task)
    paused = await host.wait(task.id, TaskStatus.PAUSED)
    waiting: Any = paused.metadata["engine/waiting_for"]
    await host.approve(task.id, waiting["requests"][0]["digest"])
    await reached.wait()
    await crash(host)
    async with runner.host(*script, policy=policy, middleware=[Changes(replaced)]) as second:
        assert (await second.wait(task.id)).result == "done"
    assert world.done == []


class Judging:
    """A policy that decides by the text of a call, and notes what it was asked."""

    def __init__(self, changed: Decision | Exception) -> None:
        self.changed = changed
        self.asked: list[Any] = []

    async def authorize(self, action: Action, context: Context) -> Decision:
        if not isinstance(action, ToolCall):
            return ALLOW
        self.asked.append(dict(action.arguments))
        if action == WRITE:
            return ALLOW
        if isinstance(self.changed, Exception):
            raise self.changed
        return self.changed


@pytest.mark.parametrize("change", CHANGES[:3], ids=lambda each: each.__name__)
@pytest.mark.parametrize(
    ("decision", "result", "error", "wrote"),
    [
        (ALLOW, "done", "", ["write changed"]),
        (deny("no such text"), "done", "policy_denied", []),
        (require_approval("ask"), "done", "policy_denied", []),
        (stop("that is too much"), None, "skipped", []),
        (OSError("no rules"), "done", "policy_denied", []),
    ],
    ids=["allow", "deny", "require_approval", "stop", "raises"],
)
async def test_policy_decides_about_changed_arguments_and_what_it_says_holds(
    runner: Runner, world: World, change: Change, decision: Any, result: Any, error: str,
    wrote: list[str],
) -> None:  # fmt: skip
    policy = Judging(decision)
    done = await runner.run(WRITE, FinalAnswer("done"), policy=policy, middleware=[Changes(change)])
    seen = await observed(runner, done)
    assert done.result == result
    assert seen.get("error", "") == error
    assert world.done == wrote
    assert policy.asked == [{"text": "approved"}, {"text": "changed"}]
    if isinstance(decision, Decision) and decision.reason and result:
        assert decision.reason in seen["message"]


async def test_policy_is_asked_once_about_what_nobody_changed(runner: Runner) -> None:
    policy = Judging(deny("no"))
    middleware = [Changes(nothing), ToolTimeout(5)]
    done = await runner.run(WRITE, FinalAnswer("done"), policy=policy, middleware=middleware)
    assert done.result == "done"
    assert policy.asked == [{"text": "approved"}]


@pytest.mark.parametrize("change", OTHER_TOOLS, ids=lambda each: each.__name__)
async def test_no_other_tool_takes_the_place_of_the_one_that_is_on_record(
    runner: Runner, world: World, change: Change
) -> None:
    done = await runner.run(WRITE, FinalAnswer("done"), middleware=[Changes(change)])
    assert (done.result, world.done) == ("done", [])
    assert (await observed(runner, done))["error"] == "policy_denied"


@pytest.mark.parametrize(
    "arguments",
    [{"text": float("nan")}, {"text": object()}, {"text": b"x"}, {5: "x"}, None, "text"],
    ids=range(6),
)
async def test_arguments_that_are_no_json_reach_no_tool(
    runner: Runner, world: World, arguments: Any
) -> None:
    def change(invocation: Invocation) -> None:
        invocation.arguments = arguments

    done = await runner.run(WRITE, FinalAnswer("done"), middleware=[Changes(change)])
    assert (done.result, world.done) == ("done", [])
    assert (await observed(runner, done))["error"] == "schema_validation_failed"


def plans(events: list[Event]) -> list[Any]:
    return [event.data["actions"][0] for event in events if event.type == "plan.made"]


async def test_what_middleware_does_to_arguments_in_place_changes_no_record(
    runner: Runner, world: World
) -> None:
    """Not the transcript that the planner sees, and not an answer that a cache keeps."""
    seen: list[Any] = []

    def look(context: Context) -> Action:
        seen.append(last_turn(context).plan.actions[0])
        return FinalAnswer("done")

    cache = Cache()
    for _ in range(2):
        planner = ScriptedPlanner(ToolCall("write", {"text": "approved"}), look)
        done = await runner.run(planner=planner, middleware=[cache, Changes(in_place)])
        assert plans(await runner.events(done))[0]["arguments"] == {"text": "approved"}
    assert seen == [WRITE]
    assert world.done == ["write changed"] * 2
