"""Replay: what the log tells of a run agrees with the run, whatever happened in it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from agentic_kernel import IllegalTransition, Task, TaskStatus
from agentic_kernel_engine import Host, Job, MemoryStore
from agentic_kernel_engine.loop.loop import Loop
from agentic_kernel_engine.loop.replay import replay
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
from agentic_kernel_engine.plans.ending import PlannerError
from agentic_kernel_engine.plans.limits import Limits
from agentic_kernel_engine.plans.plan import Plan, Usage
from agentic_kernel_engine.seams.compactor import WindowCompactor
from agentic_kernel_engine.seams.governor import SessionMemoryGovernor
from agentic_kernel_engine.seams.memories import InMemoryMemory
from agentic_kernel_engine.seams.memory import Scope
from agentic_kernel_engine.seams.middlewares import Fallback, Retry
from agentic_kernel_engine.seams.planner import Context

from ..conftest import Crash
from .conftest import World, new_task

TRIALS = 300
NO_SEAMS: Mapping[str, Any] = {}


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


class Faltering(Chance):
    """The same, where many calls fail before they answer."""

    async def plan(self, context: Context) -> Any:
        if random.Random(f"{self.seed}/{context.step}/{context.failures}").random() < 0.4:
            await asyncio.sleep(0)
            raise PlannerError("test/busy", "busy")
        return await super().plan(context)


def every_seam(seed: int) -> dict[str, Any]:
    """Memory, a governor, a compactor, and calls that fail, are made again or by somebody else."""
    retry = Retry(["test/busy"], times=2, first=0, longest=0)
    return {
        "planner": Faltering(seed),
        "memory": InMemoryMemory(),
        "governor": SessionMemoryGovernor(max_items=5),
        "compactor": WindowCompactor(max_entries=6, max_bytes=4_000, keep=2, summary=400),
        "middleware": [retry, Fallback(Faltering(seed + 1), Chance(seed))],
    }


async def play(
    seed: int, crash: Crash, seams: Mapping[str, Any]
) -> tuple[Task, Witnessed, MemoryStore]:
    """One run: paused, answered, approved, crashed and retuned at random, until it ends."""
    draw, world, store = random.Random(seed), World(), MemoryStore()
    chance = Chance(seed)
    options = {"planner": chance, **seams}
    limits = Limits(
        max_iterations=draw.choice([8, 30]),
        max_tool_calls=draw.choice([None, 6]),
        max_failures=draw.choice([None, 3]),
        max_output_tokens=draw.choice([None, 60]),
        max_goal_depth=draw.choice([2, 8]),
    )
    on_deny = draw.choice(["observe", "end"])
    loops: list[Witnessed] = []

    def host() -> Host:
        loops.append(
            Witnessed(tools=world.tools(), policy=chance, limits=limits, on_deny=on_deny, **options)
        )
        return Host(loops[-1], store, grace=0, interval=0.001)

    here, task = host(), new_task()
    await here.dispatch(task)
    for _ in range(200):
        for _ in range(draw.randint(0, 30)):
            await asyncio.sleep(0)
        now = await here.get(task.id)
        if now.status.terminal:
            break
        if now.status is TaskStatus.PAUSED:
            await decide(draw, here, now)
        elif draw.random() < 0.15:
            await here.pause(task.id)
        elif draw.random() < 0.1:
            await crash(here)
            here = host()
            await here.claim(task.id)
        elif draw.random() < 0.05:
            with suppress(IllegalTransition):  # it may have ended since the look
                await here.retune(task.id, max_iterations=draw.randint(1, 20))
    else:
        await here.kill(task.id)
    done = await here.wait(task.id)
    await here.close()
    return done, loops[-1], store


async def decide(draw: random.Random, host: Host, task: Task) -> None:
    """What a person does about a paused Task."""
    waiting = task.metadata.get("engine/waiting_for")
    if isinstance(waiting, Mapping) and waiting["kind"] == "approval":
        request = draw.choice(list(waiting["requests"]))
        verb = draw.choice([host.approve, host.deny])
        await verb(task.id, request["digest"], by="somebody")
    elif isinstance(waiting, Mapping) and waiting["kind"] == "question" and draw.random() < 0.5:
        await host.answer(task.id, "the first")
    else:
        await host.resume(task.id, draw.choice([None, "go on"]))


async def agree(seed: int, crash: Crash, seams: Mapping[str, Any] = NO_SEAMS) -> str:
    """Why the run ended, once its log agrees with it."""
    done, loop, store = await play(seed, crash, seams)
    async with Host(store=store) as host:
        events = [event async for event in host.stream(done.id)]
    again = replay(events)
    assert again.status == done.status
    assert len(again.actions) == len(again.observations)
    if loop.last is None or done.status is TaskStatus.CANCELLED:
        return str(done.status)
    live = loop.last.state
    assert str(again.reason) == done.metadata["engine/stop_reason"]
    assert again.steps == live.step
    assert again.goals == live.goals
    told, was = msgspec.structs.asdict(again.spent), msgspec.structs.asdict(live.spent)
    for either in (told, was):
        either.pop("seconds")
        either["cost"] = round(either["cost"], 9)
    assert told == was
    if done.failure is None or "unhandled" not in done.failure.code:
        assert again.transcript == loop.last.transcript[1:]
    if loop.last.limits.max_output_tokens is not None:
        assert live.spent.output_tokens <= loop.last.limits.max_output_tokens
    noted, lost = ([e for e in events if e.type == f"memory.{what}"] for what in ("noted", "lost"))
    if "memory" in seams and again.reason is not None:
        assert not lost
        known = {
            item["id"] for item in (await seams["memory"].export(Scope(session=done.id)))["items"]
        }
        assert known == {id for event in noted for id in event.data["items"]}
    return str(again.reason)


async def test_the_log_agrees_with_the_run(crash: Crash) -> None:
    reasons = [await agree(seed, crash) for seed in range(TRIALS)]
    assert len(set(reasons)) > 6, sorted(set(reasons))


async def test_the_log_agrees_with_the_run_with_every_seam_in_place(crash: Crash) -> None:
    reasons = [await agree(seed, crash, every_seam(seed)) for seed in range(60)]
    assert len(set(reasons)) > 5, sorted(set(reasons))


@pytest.mark.torture
async def test_the_log_agrees_with_two_thousand_runs_with_every_seam(crash: Crash) -> None:
    for seed in range(20_000, 22_000):
        await agree(seed, crash, every_seam(seed))


@pytest.mark.torture
async def test_the_log_agrees_with_two_thousand_runs(crash: Crash) -> None:
    for seed in range(10_000, 12_000):
        await agree(seed, crash)
