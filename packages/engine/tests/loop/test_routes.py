"""The matrix decision × action, cell by cell."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from agentic_kernel import TaskStatus
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
    kind_of,
)
from agentic_kernel_engine.plans.decision import ALLOW, ROUTES, Decision, Route, Verdict
from agentic_kernel_engine.seams.planner import Context

from ..scripting import Runner, World, new_task

ONE_OF_EACH: dict[type[Action], Action] = {
    ToolCall: ToolCall("add", {"a": 1, "b": 2}),
    Delegate: Delegate("join", child="nobody"),
    Thought: Thought("hm"),
    PushGoal: PushGoal("inner"),
    CompleteGoal: CompleteGoal(),
    FinalAnswer: FinalAnswer("this"),
    AskUser: AskUser("which?"),
    Schedule: Schedule("2999-01-01T00:00:00+00:00"),
    Stop: Stop("enough"),
}
LEADS_TO = {
    Route.CALL: "goes on",
    Route.DELEGATE: "goes on",
    Route.RECORD: "goes on",
    Route.REFUSE: "goes on",
    Route.FINISH: "final",
    Route.STOP: "stopped",
    Route.ASK: "question",
    Route.SLEEP: "schedule",
    Route.APPROVE: "approval",
}


class AboutTheSecond:
    """A policy that allows every step but the second, about which it says something else."""

    def __init__(self, verdict: Verdict) -> None:
        self._decision = Decision(verdict, "as the policy says")

    async def authorize(self, action: Action, context: Context) -> Decision:
        return self._decision if context.step == 1 else ALLOW


def test_every_cell_is_there() -> None:
    assert set(ONE_OF_EACH) == set(ACTIONS)
    assert all(set(row) == set(ACTIONS) for row in ROUTES.values())
    assert set(ROUTES) == {"allow", "deny", "stop", "require_approval"}


@pytest.mark.parametrize(
    ("verdict", "kind"), list(product(ROUTES, ACTIONS)),
    ids=lambda each: each if isinstance(each, str) else each.__struct_config__.tag,
)  # fmt: skip
async def test_each_cell_does_what_it_says(
    runner: Runner, world: World, verdict: Any, kind: type[Action]
) -> None:
    action, route = ONE_OF_EACH[kind], ROUTES[verdict][kind]
    script = (PushGoal("outer"), action, FinalAnswer("went on"))
    async with runner.host(*script, policy=AboutTheSecond(verdict)) as host:
        task = new_task()
        await host.dispatch(task)
        done = await host.wait(task.id, TaskStatus.PAUSED)
    events = await runner.events(task)
    waiting: Any = done.metadata.get("engine/waiting_for")
    came_to = (
        waiting["kind"] if done.status is TaskStatus.PAUSED
        else "goes on" if done.result == "went on"
        else done.metadata["engine/stop_reason"]
    )  # fmt: skip
    assert came_to == LEADS_TO[route]
    if route is Route.APPROVE:
        assert [each["type"] for each in waiting["requests"]] == [kind_of(action)]
    if route in (Route.REFUSE, Route.STOP) and kind is not Stop:
        assert action not in replay(events).actions, "what was not done is not among the done"
    assert bool(world.done) is (route is Route.CALL)
