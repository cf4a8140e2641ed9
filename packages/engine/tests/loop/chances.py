"""Shared by random runs: a planner and a person that do anything, and a Loop to look into."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from agentic_kernel import Task
from agentic_kernel_engine import Host, Job
from agentic_kernel_engine.loop.loop import Loop
from agentic_kernel_engine.loop.run import LoopRun
from agentic_kernel_engine.plans.action import (
    Action,
    AskUser,
    CompleteGoal,
    FinalAnswer,
    PushGoal,
    Stop,
    Thought,
    ToolCall,
)
from agentic_kernel_engine.plans.decision import ALLOW, Decision, deny, require_approval, stop
from agentic_kernel_engine.plans.plan import Plan, Usage
from agentic_kernel_engine.seams.planner import Context


class Chance:
    """A planner and a policy that do anything; what they do at a step is decided by the seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def worst_case(self, context: Context) -> Usage:
        return Usage(20, 10, cost=0.1)

    async def plan(self, context: Context) -> Any:
        await asyncio.sleep(0)
        draw = random.Random(f"{self.seed}/{context.step}")
        usage = Usage(draw.randint(0, 20), draw.randint(0, 10), cost=draw.random() / 10)
        many = draw.choice([0, 1, 1, 1, 2, 4])
        return Plan(tuple(self._action(draw) for _ in range(many)), usage=usage)

    def _action(self, draw: random.Random) -> Action:
        actions: list[Action] = [
            ToolCall("add", {"a": draw.randint(0, 9), "b": 1}),
            ToolCall("write", {"text": str(draw.randint(0, 9))}),
            ToolCall("put", {"text": "x"}),
            ToolCall("fail"),
            ToolCall("nowhere"),
            Thought("hm"),
            PushGoal("more"),
            CompleteGoal(),
            AskUser("which?"),
            *([FinalAnswer("done")] if draw.random() < 0.3 else []),
            *([Stop("enough")] if draw.random() < 0.2 else []),
        ]
        return draw.choice(actions)

    async def authorize(self, action: Action, context: Context) -> Decision:
        draw = random.Random(f"{self.seed}/{context.step}/{action}").random()
        if draw < 0.1:
            return deny("no")
        if draw < 0.2:
            return require_approval("ask")
        return stop("that is too much") if draw < 0.22 else ALLOW


class Witnessed(Loop):
    """A loop that shows the state in which its last entry ended."""

    last: LoopRun | None = None

    async def step(self, run: LoopRun) -> None:
        self.last = run
        await super().step(run)

    async def execute(self, job: Job) -> Any:
        self.last = None
        return await super().execute(job)


async def decide(draw: random.Random, host: Host, task: Task) -> None:
    """A person's act on a paused Task."""
    waiting = task.metadata.get("engine/waiting_for")
    if isinstance(waiting, Mapping) and waiting["kind"] == "approval":
        request = draw.choice(list(waiting["requests"]))
        verb = draw.choice([host.approve, host.deny])
        await verb(task.id, request["digest"], by="somebody")
    elif isinstance(waiting, Mapping) and waiting["kind"] == "question" and draw.random() < 0.5:
        await host.answer(task.id, "the first")
    else:
        await host.resume(task.id, draw.choice([None, "go on"]))
