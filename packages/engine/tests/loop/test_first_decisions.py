"""The first decision about an action counts; a Task that runs on says no longer why it paused."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from agentic_kernel import InvalidValue, TaskStatus
from agentic_kernel_engine import Host, Loop
from agentic_kernel_engine.plans import vocabulary
from agentic_kernel_engine.plans.action import FinalAnswer, ToolCall
from agentic_kernel_engine.plans.decision import Decision, require_approval
from agentic_kernel_engine.providers import Asked, actions_of
from agentic_kernel_engine.seams.child_tasks import ChildTasks
from agentic_kernel_engine.seams.memories import InMemoryMemory
from agentic_kernel_engine.seams.middleware import Recovery
from agentic_kernel_engine.seams.middlewares import Retry, ToolTimeout
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import ScriptedPlanner

from ..scripting import Runner, World, last_turn, new_task

WRITE = ToolCall("write", {"text": "x"})


class Asking:
    async def authorize(self, action: Any, context: Context) -> Decision:
        return require_approval("") if isinstance(action, ToolCall) else Decision("allow")


@pytest.mark.rule("R12")
@pytest.mark.parametrize("first", [False, True])
async def test_a_later_decision_about_the_same_action_changes_nothing(
    runner: Runner, world: World, first: bool
) -> None:
    script, task = (WRITE, FinalAnswer("done")), new_task()
    async with runner.host(*script, policy=Asking()) as host:
        await host.dispatch(task)
        paused = await host.wait(task.id, TaskStatus.PAUSED)
    digest = paused.metadata["engine/waiting_for"]["requests"][0]["digest"]
    async with Host(store=runner.store) as control:
        for granted in (first, not first):
            decision = {"type": vocabulary.APPROVAL, "digest": digest, "granted": granted}
            await control.post(task.id, {**decision, "by": "ann", "why": ""})
        await control.resume(task.id)
    async with runner.host(*script, policy=Asking()) as host:
        done = await host.wait(task.id)
    assert done.result == "done"
    assert world.done == (["write x"] if first else [])
    types = [event.type for event in await runner.events(done)]
    assert types.count("approval.given") == int(first)
    assert types.count("approval.refused") == int(not first)
    assert types.count("approval.ignored") == 1


async def test_a_task_that_runs_on_says_no_longer_why_it_paused(runner: Runner) -> None:
    seen: list[Any] = []

    async def look(context: Context) -> None:
        seen.append((await runner.store.load(context.task.id)).task.metadata)

    class Looking(ScriptedPlanner):
        async def plan(self, context: Context) -> Any:
            await look(context)
            return (WRITE, ToolCall("add", {"a": 1, "b": 2}), FinalAnswer("done"))[context.step]

    class Once(Asking):
        async def authorize(self, action: Any, context: Context) -> Decision:
            return Decision("allow") if context.step else await super().authorize(action, context)

    async with runner.host(planner=Looking(), policy=Once()) as host:
        await host.dispatch(task := new_task())
        paused = await host.wait(task.id, TaskStatus.PAUSED)
        assert paused.metadata["engine/stop_reason"] == "interrupt"
        request = paused.metadata["engine/waiting_for"]["requests"][0]
        await host.approve(task.id, request["digest"])
        done = await host.wait(task.id)
    assert done.metadata["engine/stop_reason"] == "final"
    assert [each.get("engine/stop_reason") for each in seen] == [None, None, None]
    assert "engine/stop_reason" in seen[1]


async def test_a_key_that_a_model_wrote_twice_is_refused_and_the_model_is_told(
    runner: Runner, world: World
) -> None:
    texts = ['{"text": "a", "text": "b"}', '{"text": {"deep": 1, "deep": 2}}', '{"text": "c"}']
    actions, _ = actions_of([Asked(f"call-{n}", "write", t) for n, t in enumerate(texts)], ())

    def see(context: Context) -> Any:
        return FinalAnswer([each.message for each in last_turn(context).observations])

    done = await runner.run(list(actions), see)
    assert world.done == ["write c"]
    assert "have the key 'text' twice in one object; nothing was done" in done.result[0]
    assert "have the key 'deep' twice" in done.result[1]
    assert done.result[2] == ""


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"planner": None}, "planner"),
        ({"planner": ScriptedPlanner}, "planner"),
        ({"policy": object()}, "policy"),
        ({"scheduler": 5}, "scheduler"),
        ({"limits": {"max_iterations": 3}}, "limits"),
        ({"principal": "ann"}, "principal"),
        ({"threads": 32}, "threads"),
        ({"tools": None}, "tools"),
        ({"tools": "write"}, "tools"),
        ({"capabilities": object()}, "capabilities"),
        ({"capabilities": {"acme/a": []}}, "capabilities"),
        ({"delegation": ChildTasks}, "delegation"),
        ({"delegation": "children"}, "delegation"),
        ({"compactor": 5}, "compactor"),
        ({"memory": []}, "memory"),
        ({"memory": InMemoryMemory(), "governor": object()}, "governor"),
        ({"middleware": 5}, "middleware"),
        ({"middleware": "retry"}, "middleware"),
        ({"middleware": [object()]}, "middleware[0]"),
        ({"middleware": [Retry(["a"]), Retry]}, "middleware[1]"),
        ({"middleware": [SimpleNamespace(before_model=5)]}, "middleware[0].before_model"),
        ({"should_cancel": True}, "should_cancel"),
        ({"clock": 5.0}, "clock"),
        ({"ids": "id"}, "ids"),
        ({"parallel_tools": 1}, "parallel_tools"),
        ({"seed_memory": 5}, "seed_memory"),
        ({"on_deny": "x" * 10_000}, "on_deny"),
    ],
)
def test_a_loop_with_a_wrong_part_is_refused_by_its_name(wrong: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Loop(**{"planner": ScriptedPlanner(), **wrong})
    assert refused.value.path == path
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("value", [True, "3", math.nan, math.inf, -1, 1e10, None, [], 10**400])
def test_a_time_of_a_middleware_that_is_none_is_refused(value: Any) -> None:
    for make, path in (
        (lambda: Retry(["a"], first=value), "first"),
        (lambda: Retry(["a"], longest=value), "longest"),
        (lambda: ToolTimeout(value), "seconds"),
        (lambda: Recovery("retry", delay=value), "delay"),
    ):
        with pytest.raises(InvalidValue) as refused:
            make()
        assert refused.value.path == path
