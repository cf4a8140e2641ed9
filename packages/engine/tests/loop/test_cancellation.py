"""A run cut short at every point of its step, in this process: killed, closed or cancelled."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Event, Host, MemoryStore, Record
from agentic_kernel_engine import events as host_events
from agentic_kernel_engine.events import from_stored
from agentic_kernel_engine.loop.loop import Loop
from agentic_kernel_engine.loop.replay import replay
from agentic_kernel_engine.plans import vocabulary
from agentic_kernel_engine.plans.action import FinalAnswer, ToolCall
from agentic_kernel_engine.plans.observation import Observation
from agentic_kernel_engine.plans.plan import Plan, Usage
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import ScriptedPlanner
from agentic_kernel_engine.tools.call import Invocation
from agentic_kernel_engine.tools.tool import Tool, ToolContext, tool

from ..closing import draining
from ..conftest import Until
from ..scripting import new_task

BEFORE_PLAN, ANSWERED, PREPARED, TOOL, RETURNED, SETTLED = POINTS = (
    "before plan", "after the model's answer", "after prepare", "in the tool",
    "after it and before settle", "after settle",
)  # fmt: skip
IN_DOUBT = (PREPARED, TOOL, RETURNED)
"""The points at which a step is prepared and not settled."""
WORST = Usage(100, 50)
STEPS = (
    (ToolCall("write", {"text": "alone"}),),
    (ToolCall("write", {"text": "beside"}), ToolCall("look", {"text": "on"})),
)
SCRIPT = [*(Plan(calls, usage=Usage(10, 5)) for calls in STEPS), FinalAnswer("done")]


class Cut:
    """Holds a run up at one passing of one point; from then on it comes no further than the next.

    Args:
        point: Where.
        at: At which passing, 0 being the first: both steps pass every point.
    """

    def __init__(self, point: str, at: int) -> None:
        self.reached = asyncio.Event()
        self.released = asyncio.Event()
        self.over = asyncio.Event()
        """Set when all points are passed freely again."""
        self.root: asyncio.Task[Any] | None = None
        """The run's own."""
        self.trace: list[tuple[str, str]] = []
        """The events, in order."""
        self._point = point
        self.at = at
        self._passed: Counter[str] = Counter()

    async def passes(self, point: str) -> None:
        if self.reached.is_set():
            await self.over.wait()
        elif (point, self._passed[point]) == (self._point, self.at):
            self.reached.set()
            await self.released.wait()
        self._passed[point] += 1

    def free(self) -> None:
        """Let everything pass."""
        self.over.set()
        self.released.set()

    def count(self, what: str) -> int:
        return sum(line[0] == what for line in self.trace)

    # As a middleware

    async def before_model(self, context: Context) -> None:
        self.root = asyncio.current_task()
        await self.passes(BEFORE_PLAN)
        self.trace.append(("asked", str(context.step)))

    async def after_model(self, context: Context, plan: Plan) -> None:
        await self.passes(ANSWERED)

    async def after_tool(self, invocation: Invocation, observation: Observation) -> None:
        await self.passes(RETURNED)


class CutStore(MemoryStore):
    """A store that can be held up when a commit has landed and its caller does not know."""

    def __init__(self, cut: Cut) -> None:
        super().__init__()
        self._cut = cut

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        await super().commit(before, after, events)
        types = {from_stored((after.version, i), text).type for i, text in enumerate(events)}
        if host_events.TASK_KILLED in types:
            self._cut.trace.append(("killed", ""))
        if vocabulary.EFFECTS_PREPARED in types:
            await self._cut.passes(PREPARED)
        if vocabulary.STEP_OBSERVED in types and vocabulary.RUN_STOPPED not in types:
            await self._cut.passes(SETTLED)


def tools(cut: Cut) -> list[Tool]:
    async def act(context: ToolContext) -> None:
        cut.trace.append(("begun", context.key))
        try:
            await cut.passes(TOOL)
        except asyncio.CancelledError:
            cut.trace.append(("cancelled", context.key))
            raise
        cut.trace.append(("finished", context.key))

    @tool(effect="write")
    async def write(text: str, context: ToolContext) -> str:
        """Must not happen twice."""
        await act(context)
        return f"write {text}"

    @tool(effect="read")
    async def look(text: str, context: ToolContext) -> str:
        """May happen twice."""
        await act(context)
        return f"look {text}"

    return [write, look]


def host_of(cut: Cut, store: MemoryStore, **options: Any) -> Host:
    planner = ScriptedPlanner(*SCRIPT, worst=WORST)
    loop = Loop(planner, tools(cut), middleware=[cut])
    return Host(loop, store, **{"grace": 0, "interval": 0.005, **options})


@pytest.fixture(params=POINTS)
def point(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[0, 1], ids=["alone", "batch"])
def cut(point: str, request: pytest.FixtureRequest) -> Cut:
    return Cut(point, request.param)


@pytest.fixture
def step(cut: Cut) -> int:
    """The step in which the run is cut."""
    return cut.at


@pytest.mark.rule("R1", "R7", "R17")
async def test_after_a_kill_nothing_happens_any_more(point: str, cut: Cut, step: int) -> None:
    store = CutStore(cut)
    async with host_of(cut, store) as host:
        task = new_task()
        await host.dispatch(task)
        await cut.reached.wait()
        killing = asyncio.create_task(host.kill(task.id))
        if point in (PREPARED, SETTLED):
            # A kill waits for a write that is under way; the run comes to its next point.
            cut.released.set()
        receipt = await killing
        assert receipt.changed
        assert receipt.snapshot.status is TaskStatus.CANCELLED
        assert cut.root is not None
        await asyncio.wait([cut.root], timeout=5)
        assert cut.root.cancelled()
        events = (await host.outcome(task.id)).events
        record = await host.record(task.id)
    after = cut.trace[cut.trace.index(("killed", "")) + 1 :]
    assert {what for what, _ in after} <= {"cancelled"}
    begun = Counter(key for what, key in cut.trace if what == "begun")
    assert set(begun.values()) <= {1}
    ended = {key for what, key in cut.trace if what in ("finished", "cancelled")}
    assert ended == set(begun)
    if point == TOOL:
        assert cut.count("cancelled") == len(STEPS[step])
    assert events[-1].type == host_events.TASK_KILLED
    assert events[-1].id is not None
    assert (record.version, record.task) == (events[-1].id[0], receipt.snapshot)
    assert record.state is not None
    reserved = json.loads(record.state).get("reserved")
    assert (reserved is None) == (point in IN_DOUBT), "the call that was cut is on record"
    async with host_of(cut, store) as second:
        assert await second.recover() == []


@pytest.mark.rule("R6", "R14", "R17")
@pytest.mark.parametrize("way", ["closed", "cancelled"])
async def test_a_run_that_is_cut_goes_on_elsewhere(
    way: str, point: str, cut: Cut, step: int
) -> None:
    """Its host closes without grace, or its asyncio task is cancelled as at the loop's end."""
    store = CutStore(cut)
    task = new_task()
    host = host_of(cut, store)
    await host.dispatch(task)
    await cut.reached.wait()
    assert cut.root is not None
    if way == "closed":
        await host.close()
    else:
        cut.root.cancel()
        await asyncio.wait([cut.root], timeout=5)
    assert cut.root.cancelled()
    if point == TOOL:
        assert cut.count("cancelled") == len(STEPS[step])
    before = len(cut.trace)
    cut.free()
    async with host_of(cut, store) as second:
        done = await second.wait(task.id)
        events = (await second.outcome(task.id)).events
    await host.close()
    assert (done.status, done.result) == (TaskStatus.SUCCESS, "done")
    assert sum(event.type == host_events.TASK_CLAIMED for event in events) == 1
    begun = [key for what, key in cut.trace if what == "begun"]
    for index, call in enumerate(STEPS[step]):
        keys = [key for key in begun if key.startswith(f"{task.id}:{step}:{index}")]
        assert len(set(keys)) <= 1
        assert len(keys) <= (1 if call.tool == "write" else 2)
    doubted = point in IN_DOUBT
    if doubted:
        again = [key for what, key in cut.trace[before:] if what == "begun"]
        assert not any(key.startswith(f"{task.id}:{step}:0") for key in again)
    assert outputs(events) == [
        "indeterminate" if doubted and call.tool == "write" and number == step
        else f"{call.tool} {call.arguments['text']}"
        for number, calls in enumerate(STEPS) for call in calls
    ]  # fmt: skip
    forfeited = [e.data["forfeited"] for e in events if e.type == vocabulary.RUN_ENTERED]
    assert forfeited == ([] if doubted else [{"input_tokens": 100, "output_tokens": 50}])
    spent = replay(events).spent
    assert spent.iterations == len(SCRIPT) + len(forfeited) >= cut.count("asked")
    assert cut.count("asked") == len(SCRIPT) + (point == ANSWERED)
    assert spent.output_tokens == 5 * len(STEPS) + 50 * len(forfeited)


@pytest.mark.rule("R9", "R17")
async def test_a_run_that_is_given_time_leaves_nothing_in_doubt(cut: Cut, until: Until) -> None:
    """Its host closes with grace: it lets go at the next safe point, and forfeits nothing."""
    store = CutStore(cut)
    task = new_task()
    host = host_of(cut, store, grace=30, max_in_flight=1)
    await host.dispatch(task)
    await cut.reached.wait()
    closing = asyncio.create_task(host.close())
    await draining(host, new_task())
    cut.free()
    await closing
    assert (await store.load(task.id)).owner is None
    async with host_of(cut, store) as second:
        done = await second.wait(task.id)
        events = (await second.outcome(task.id)).events
    assert (done.status, done.result) == (TaskStatus.SUCCESS, "done")
    calls = [call for calls in STEPS for call in calls]
    assert outputs(events) == [f"{call.tool} {call.arguments['text']}" for call in calls]
    assert (cut.count("begun"), cut.count("finished")) == (len(calls), len(calls))
    assert cut.count("asked") == replay(events).spent.iterations == len(SCRIPT)
    assert not any(event.type == vocabulary.RUN_ENTERED for event in events)


def outputs(events: Sequence[Event]) -> list[Any]:
    """The results of the tool calls: each one's output, or its error."""
    seen = replay(events).observations[:-1]
    return [observation.error or observation.output for observation in seen]
