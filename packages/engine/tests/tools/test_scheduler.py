"""The calls of a batch: order, neighbours, the limit, and threads that outlive the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.plans.observation import Observation
from agentic_kernel_engine.tools.scheduler import ParallelScheduler, SequentialScheduler

Call = Callable[[], Coroutine[Any, Any, Observation]]


class Calls:
    """Calls that wait until they are let go, and what became of them."""

    def __init__(self, count: int) -> None:
        self.gates = [asyncio.Event() for _ in range(count)]
        self.log: list[str] = []
        self.calls: list[Call] = [self._call(index) for index in range(count)]

    @property
    def running(self) -> set[int]:
        begun = {int(each[1:]) for each in self.log if each[0] == "+"}
        return begun - {int(each[1:]) for each in self.log if each[0] != "+"}

    def _call(self, index: int) -> Call:
        async def call() -> Observation:
            self.log.append(f"+{index}")
            try:
                await self.gates[index].wait()
            except asyncio.CancelledError:
                self.log.append(f"x{index}")
                raise
            self.log.append(f"-{index}")
            return Observation(index)

        return call


async def turns() -> None:
    """Let everything that can go on go on."""
    for _ in range(20):
        await asyncio.sleep(0)


def outputs(observations: list[Observation]) -> list[Any]:
    return [each.output for each in observations]


async def test_the_results_keep_the_order_of_the_calls_whichever_is_done_first() -> None:
    batch = Calls(3)
    run = asyncio.create_task(ParallelScheduler().run(batch.calls, [True] * 3))
    for index in (2, 0, 1):
        await turns()
        batch.gates[index].set()
    assert outputs(await run) == [0, 1, 2]
    assert batch.log == ["+0", "+1", "+2", "-2", "-0", "-1"]


async def test_a_call_that_may_not_run_beside_others_waits_and_is_waited_for() -> None:
    batch = Calls(5)
    run = asyncio.create_task(ParallelScheduler().run(batch.calls, [True, True, False, True, True]))
    seen = []
    for group in ({0, 1}, {2}, {3, 4}):
        await turns()
        seen.append(batch.running)
        for index in group:
            batch.gates[index].set()
    assert outputs(await run) == [0, 1, 2, 3, 4]
    assert seen == [{0, 1}, {2}, {3, 4}]


async def test_no_more_than_the_limit_run_at_the_same_time() -> None:
    batch = Calls(6)
    run = asyncio.create_task(ParallelScheduler(2).run(batch.calls, [True] * 6))
    widest = 0
    for index in range(6):
        await turns()
        widest = max(widest, len(batch.running))
        batch.gates[index].set()
    assert outputs(await run) == list(range(6))
    assert widest == 2


async def test_the_sequential_scheduler_runs_one_after_the_other() -> None:
    batch = Calls(3)
    for gate in batch.gates:
        gate.set()
    assert outputs(await SequentialScheduler().run(batch.calls, [True] * 3)) == [0, 1, 2]
    assert batch.log == ["+0", "-0", "+1", "-1", "+2", "-2"]


@pytest.mark.parametrize("scheduler", [ParallelScheduler(), SequentialScheduler()])
async def test_no_calls_give_no_observations(scheduler: Any) -> None:
    assert await scheduler.run([], []) == []


@pytest.mark.parametrize("concurrent", [True, False])
async def test_one_call_is_awaited_where_it_is_asked_for(concurrent: bool) -> None:
    tasks = []

    async def call() -> Observation:
        tasks.append(asyncio.current_task())
        return Observation()

    await ParallelScheduler().run([call], [concurrent])
    assert tasks == [asyncio.current_task()]


@pytest.mark.parametrize("limit", [1, 2, 8])
async def test_a_cancellation_ends_every_call_before_it_passes_on(limit: int) -> None:
    batch = Calls(4)
    run = asyncio.create_task(ParallelScheduler(limit).run(batch.calls, [True] * 4))
    await turns()
    begun = batch.running
    assert len(begun) == min(limit, 4)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert not batch.running
    assert {int(each[1:]) for each in batch.log if each[0] == "+"} == begun
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_call_that_takes_its_time_to_end_is_waited_for_through_a_second_cancellation() -> (
    None
):
    let_go = asyncio.Event()
    log: list[str] = []

    async def slow() -> Observation:
        try:
            await asyncio.Event().wait()
        finally:
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    log.append("again")
            log.append("ended")
        raise AssertionError("unreachable")

    quick = Calls(1)
    run = asyncio.create_task(ParallelScheduler().run([slow, *quick.calls], [True, True]))
    await turns()
    run.cancel()
    await turns()
    assert quick.log == ["+0", "x0"]
    run.cancel()
    await turns()
    assert not run.done()
    assert log == ["again"]
    let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert log == ["again", "ended"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_exception_ends_the_others_and_is_raised_as_itself() -> None:
    batch = Calls(2)

    async def broken() -> Observation:
        await asyncio.sleep(0)
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await ParallelScheduler().run([batch.calls[0], broken, batch.calls[1]], [True] * 3)
    assert sorted(batch.log) == ["+0", "+1", "x0", "x1"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_of_two_exceptions_the_earlier_call_gives_its_own() -> None:
    async def broken(text: str) -> Observation:
        raise RuntimeError(text)

    calls: list[Call] = [lambda: broken("first"), lambda: broken("second")]
    with pytest.raises(RuntimeError, match="first"):
        await ParallelScheduler().run(calls, [True, True])


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(InvalidValue, match="limit: is"):
        ParallelScheduler(limit)
