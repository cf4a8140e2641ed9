"""``max_seconds`` over runs that were cut: the time that their stored events show is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Event, EventId, Host, MemoryStore, Store
from agentic_kernel_engine.loop.loop import Loop
from agentic_kernel_engine.loop.lost_time import lost_seconds
from agentic_kernel_engine.plans.action import FinalAnswer, ToolCall
from agentic_kernel_engine.plans.limits import Limits
from agentic_kernel_engine.plans.plan import Delta, Plan
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.tools.tool import tool

from ..conftest import Crash, Until
from ..crashing import Line
from ..scripting import new_task

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
HOST, OWNER = "h", "h:1"


class Clock:
    """The time of a Host and of its Loop; it moves only if a test moves it."""

    seconds = 0.0

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


class Talks:
    """A planner whose streams last `SPAN` seconds after their first piece, and then hang or end."""

    SPAN = 2.0

    def __init__(self, clock: Clock, lives: int) -> None:
        self._clock = clock
        self._lives = lives
        self.remaining: list[float | None] = []

    async def plan(self, context: Context) -> AsyncIterator[Any]:
        self.remaining.append(context.remaining.seconds)
        yield Delta("so far")
        await asyncio.sleep(0.2)  # The first piece is flushed.
        self._clock.seconds += self.SPAN
        yield Delta(", and further")
        if len(self.remaining) <= self._lives:
            await asyncio.Event().wait()
        yield Plan((FinalAnswer("done"),))


def host_of(loop: Loop, store: Store, clock: Clock) -> Host:
    return Host(loop, store, claims=False, grace=0, interval=60, clock=clock.now)


async def stored_deltas(store: MemoryStore, task: Task) -> int:
    async with Host(store=store, interval=60) as reader:
        events = (await reader.outcome(task.id)).events
    return sum(event.type == "run.delta" for event in events)


async def live_and_crash(
    planner: Talks, store: MemoryStore, clock: Clock, crash: Crash, limits: Limits, lives: int
) -> Task:
    """Let a Task stream in some lives, each of which is cut after its second piece is stored."""
    task = new_task()
    for life in range(lives):
        host = host_of(Loop(planner, limits=limits, clock=clock.monotonic), Line(store), clock)
        if life:
            await host.claim(task.id)
        else:
            await host.dispatch(task)
        for _ in range(1000):
            if await stored_deltas(store, task) == 2 * (life + 1):
                break
            await asyncio.sleep(0.01)
        await crash(host)
        clock.seconds += 1_000  # No process works on the Task.
    return task


async def test_time_that_flushed_text_shows_counts_after_each_crash(crash: Crash) -> None:
    clock, store = Clock(), MemoryStore()
    planner, limits = Talks(clock, lives=2), Limits(max_seconds=5)
    task = await live_and_crash(planner, store, clock, crash, limits, lives=2)
    async with host_of(Loop(planner, limits=limits, clock=clock.monotonic), store, clock) as host:
        await host.claim(task.id)
        done = await host.wait(task.id)
    assert planner.remaining == [5.0, 3.0, 1.0]
    assert done.failure is not None
    assert done.failure.code == "engine/timeout"
    assert "the run worked for 6 seconds" in done.failure.message


async def test_a_run_whose_time_is_used_up_by_lost_runs_asks_for_nothing(crash: Crash) -> None:
    clock, store = Clock(), MemoryStore()
    planner, limits = Talks(clock, lives=1), Limits(max_seconds=2)
    task = await live_and_crash(planner, store, clock, crash, Limits(max_seconds=9), lives=1)
    async with host_of(Loop(planner, limits=limits, clock=clock.monotonic), store, clock) as host:
        await host.claim(task.id)
        done = await host.wait(task.id)
    assert done.failure is not None
    assert done.failure.code == "engine/timeout"
    assert planner.remaining == [9.0]


@pytest.mark.parametrize("effect", ["none", "write"])
async def test_time_in_a_call_that_a_closing_host_cuts_is_counted(
    until: Until, effect: Any
) -> None:
    clock, store, called = Clock(), MemoryStore(), list[str]()

    class Calls:
        async def plan(self, context: Context) -> Plan:
            remaining.append(context.remaining.seconds)
            return Plan((FinalAnswer("done") if context.step else ToolCall("work"),))

    @tool(effect=effect, idempotent=True)
    async def work() -> str:
        called.append("begun")
        if len(called) == 1:
            clock.seconds += 2
            await asyncio.Event().wait()
        return "worked"

    remaining: list[float | None] = []
    loop = Loop(Calls(), [work], limits=Limits(max_seconds=5), clock=clock.monotonic)
    task = new_task()
    async with host_of(loop, store, clock) as host:
        await host.dispatch(task)
        await until(lambda: called)
    clock.seconds += 1_000
    async with host_of(loop, store, clock) as host:
        await host.claim(task.id)
        done = await host.wait(task.id)
    assert done.status is TaskStatus.SUCCESS
    assert remaining[0] == 5.0
    assert remaining[-1] == 3.0


class History:
    """The events of a Task, of which each line is one version."""

    def __init__(self, *versions: Sequence[tuple[float, str]] | None) -> None:
        self.events: list[Event] = []
        for number, version in enumerate(versions, 1):
            for index, (at, kind) in enumerate(version or ()):
                data: dict[str, Any] = {"by": OWNER}
                if kind.endswith("!"):  # A verb of the Host wrote it for the run.
                    kind, data = kind[:-1], {"by": OWNER, "act": 1}
                elif kind.endswith("?"):  # Another Host wrote it.
                    kind, data = kind[:-1], {"by": "other", "act": 1}
                moment = EPOCH + timedelta(seconds=at)
                self.events.append(Event(kind, data, moment, EventId(number, index)))


BEGUN = [(0, "task.dispatched")]
STEP = [(10, "plan.made"), (10, "step.observed")]
CASES: dict[str, tuple[History, float]] = {
    "nothing after the commit": (History(BEGUN, STEP, [(99, "task.claimed")]), 0),
    "text after the commit": (History(BEGUN, STEP, [(12, "run.delta")], [(14, "run.delta")]), 4),
    "text in the commit": (History(BEGUN, [(4, "run.delta"), *STEP], [(99, "task.claimed")]), 0),
    "the silence before a crash": (
        History(BEGUN, STEP, [(12, "run.delta")], [(99, "task.claimed")]), 2
    ),
    "two crashes without a commit": (
        History(
            BEGUN, STEP, [(12, "run.delta")], [(20, "task.claimed")], [(23, "run.delta")],
            [(99, "task.claimed")],
        ), 5
    ),
    "a crash that is counted already": (
        History(
            BEGUN, STEP, [(12, "run.delta")], [(20, "task.claimed")], [(21, "run.entered")],
            [(24, "run.delta")], [(99, "task.claimed")],
        ), 3
    ),
    "a commit without events before the text": (
        History(BEGUN, STEP, None, [(12, "run.delta")], [(13, "run.delta")]), 1
    ),
    "a commit without events after the text": (
        History(BEGUN, STEP, [(12, "run.delta")], [(20, "task.claimed")], None,
                [(99, "task.claimed")]), 0
    ),
    "a pause": (
        History(BEGUN, [*STEP, (10, "task.paused")], [(50, "task.resumed")], [(53, "run.delta")]), 3
    ),
    "a release at a safe point": (
        History(BEGUN, [*STEP, (10, "task.released")], [(50, "task.claimed")]), 0
    ),
    "a release that cut the run": (
        History(BEGUN, STEP, [(16, "task.released!")], [(50, "task.claimed")]), 6
    ),
    "a pause of a Task whose run had died": (
        History(BEGUN, STEP, [(12, "run.delta")], [(80, "task.paused?")], [(99, "task.resumed")]), 2
    ),
    "decisions of others": (
        History(BEGUN, STEP, [(12, "run.delta")], [(80, "task.decision_posted?")],
                [(90, "task.pause_requested?")], [(99, "task.claimed")]), 2
    ),
    "a report before its commit": (
        History(BEGUN, [(4, "tool.progress")], [(12, "run.delta")], [(13, "run.delta")]), 1
    ),
    "a turn's end before its commit": (
        History(BEGUN, [(4, "run.turn")], [(12, "run.delta")], [(13, "run.delta")]), 1
    ),
    "no commit at all": (History(BEGUN, [(3, "run.delta")], [(99, "task.claimed")]), 3),
    "a clock that was set back": (History(BEGUN, STEP, [(2, "run.delta")]), 0),
    "no events": (History(), 0),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(CASES))
def test_the_lost_time_is_what_the_history_shows(case: str) -> None:
    history, seconds = CASES[case]
    assert lost_seconds(history.events) == seconds
