"""Replay: what the log tells of a run agrees with the run, whatever happened in it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from agentic_kernel import IllegalTransition, Task, TaskStatus
from agentic_kernel_engine import Host, Job, MemoryStore
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.loop.state import load
from agentic_kernel_engine.plans.action import FinalAnswer, ToolCall
from agentic_kernel_engine.plans.ending import PlannerError
from agentic_kernel_engine.plans.limits import Limits
from agentic_kernel_engine.seams.compactor import WindowCompactor
from agentic_kernel_engine.seams.memories import InMemoryMemory
from agentic_kernel_engine.seams.memory import Scope
from agentic_kernel_engine.seams.memory_governor import SessionMemoryGovernor
from agentic_kernel_engine.seams.middlewares import Fallback, Retry
from agentic_kernel_engine.seams.planner import Context

from ..conftest import Acting, Crash
from ..crashing import Line
from ..scripting import Runner, World, new_task
from .chances import Chance, Witnessed, decide

TRIALS = 300
NO_SEAMS: Mapping[str, Any] = {}


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
        return Host(loops[-1], Line(store), grace=0, interval=0.001)

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


async def test_the_outcome_has_the_state_that_the_run_left(runner: Runner) -> None:
    add = ToolCall("add", {"a": 1, "b": 2})
    async with runner.host(add, add, FinalAnswer(3)) as host:
        task = await host.run(new_task())
        found, record = await host.outcome(task.id), await host.record(task.id)
        assert record.state is not None
        assert found.state == json.loads(record.state)
        state = load(found.state)
        assert (state.step, state.spent.tool_calls) == (2, 2)


@pytest.mark.parametrize(("state", "shown"), [(None, None), ([1], None), ({"at": 1}, {"at": 1})])
async def test_the_outcome_has_the_state_of_any_substrate_if_it_is_a_mapping(
    acting: type[Acting], state: Any, shown: Any
) -> None:
    async def count(job: Job) -> None:
        await job.commit(state)

    async with Host(acting(count)) as host:
        task = await host.run(new_task())
        assert (await host.outcome(task.id)).state == shown
