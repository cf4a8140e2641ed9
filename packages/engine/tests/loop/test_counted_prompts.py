"""A prompt is counted only if the bound of its tokens would pass a limit."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Host, Limits, Loop, MemoryStore
from agentic_kernel_engine.plans.action import FinalAnswer, Thought
from agentic_kernel_engine.plans.plan import Plan, Usage
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.tools.deadline import BoundedStream, DeadlinePassed

from ..scripting import new_task


class Counts:
    """A planner whose forecast is a wide bound, and which can have its prompt counted."""

    def __init__(self, counted: Any = 53, *answers: Any) -> None:
        self.counted = counted
        self.asked = 0
        self.answers = list(answers or [FinalAnswer("hi")])
        self.seen: list[int | None] = []

    def worst_case(self, context: Context) -> Usage:
        known = context.prompt_tokens
        return Usage(1_100 if known is None else min(known, 1_100), 100)

    async def count(self, context: Context) -> int | None:
        self.asked += 1
        if isinstance(self.counted, Exception):
            raise self.counted
        given: int | None = self.counted
        return given

    async def plan(self, context: Context) -> Plan:
        self.seen.append(context.prompt_tokens)
        return Plan((self.answers.pop(0),), usage=Usage(50, 10))


async def ended(planner: Counts, **limits: Any) -> Any:
    async with Host(Loop(planner, limits=Limits(**limits))) as host:
        return await host.run(new_task())


@pytest.mark.parametrize("limit", ["max_input_tokens", "max_total_tokens"])
async def test_a_short_prompt_under_a_small_limit_is_counted_and_sent(limit: str) -> None:
    planner = Counts()
    done = await ended(planner, **{limit: 500})
    assert (done.result, planner.asked, planner.seen) == ("hi", 1, [53])


async def test_a_prompt_whose_bound_fits_is_not_counted() -> None:
    planner = Counts()
    assert (await ended(planner, max_input_tokens=2_000)).result == "hi"
    assert (await ended(Counts())).result == "hi"
    assert (planner.asked, planner.seen) == (0, [None])


@pytest.mark.parametrize("counted", [None, 600])
async def test_a_prompt_that_does_not_fit_or_cannot_be_counted_is_not_sent(counted: Any) -> None:
    planner = Counts(counted)
    done = await ended(planner, max_input_tokens=500)
    assert done.failure.code == "engine/max_tokens"
    assert f"may use up {counted or 1100}" in done.failure.message.replace(",", "")
    assert (planner.asked, planner.seen) == (1, [])


@pytest.mark.parametrize("counted", [-1, "many"])
async def test_a_count_that_is_none_fails_the_run(counted: Any) -> None:
    done = await ended(Counts(counted), max_input_tokens=500)
    assert done.failure.code == "engine/bad_forecast"


async def test_each_prompt_is_counted_anew_and_its_reservation_is_durable() -> None:
    reserved: list[Any] = []

    class Watching(MemoryStore):
        async def commit(self, before: Any, after: Any, *more: Any) -> Any:
            if after.state:
                reserved.append(json.loads(after.state).get("reserved"))
            return await super().commit(before, after, *more)

    class Looking(Counts):
        async def plan(self, context: Context) -> Plan:
            durable.append(reserved[-1]["input_tokens"])
            return await super().plan(context)

    durable: list[int] = []
    planner = Looking(53, Thought("one"), FinalAnswer("two"))
    async with Host(Loop(planner, limits=Limits(max_input_tokens=500)), Watching()) as host:
        assert (await host.run(new_task())).result == "two"
    assert (planner.asked, planner.seen) == (2, [53, 53])
    assert durable == [53, 53]


async def test_a_hook_that_changes_the_context_has_it_counted_again() -> None:
    class Longer:
        async def before_model(self, context: Context) -> None:
            context.instructions = ["More."]

    planner = Counts()
    loop = Loop(planner, limits=Limits(max_input_tokens=500), middleware=[Longer()])
    async with Host(loop) as host:
        assert (await host.run(new_task())).result == "hi"
    assert planner.asked == 2


class Hangs(Counts):
    """Its vendor does not answer the first count."""

    def __init__(self) -> None:
        super().__init__()
        self.began = asyncio.Event()
        self.cancelled = False

    async def count(self, context: Context) -> int | None:
        if not self.began.is_set():
            self.began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
        return await super().count(context)


async def test_max_seconds_cancels_a_count() -> None:
    planner = Hangs()
    async with asyncio.timeout(5):
        done = await ended(planner, max_input_tokens=500, max_seconds=0.05)
    assert done.failure.code == "engine/timeout"
    assert (planner.cancelled, planner.seen) == (True, [])


async def test_a_pause_interrupts_a_count_which_is_made_again_after_it() -> None:
    planner = Hangs()
    async with Host(Loop(planner, limits=Limits(max_input_tokens=500))) as host, asyncio.timeout(5):
        task = new_task()
        await host.dispatch(task)
        await planner.began.wait()
        await host.pause(task.id)
        await host.wait(task.id, TaskStatus.PAUSED)
        assert (planner.cancelled, planner.asked) == (True, 0)
        await host.resume(task.id)
        assert (await host.wait(task.id)).result == "hi"
    assert (planner.asked, planner.seen) == (1, [53])


async def test_a_planner_without_time_for_its_stream_leaves_no_coroutine() -> None:
    class NoTime:
        @property
        def seconds_left(self) -> float:
            return 0.0

    async def pieces() -> Any:
        yield FinalAnswer("hi")

    stream = BoundedStream(pieces(), NoTime(), "a stream")
    with pytest.raises(DeadlinePassed):
        await anext(stream)
    await stream.aclose()
    del stream
    gc.collect()
