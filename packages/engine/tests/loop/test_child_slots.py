"""Children and max_in_flight (R9): a child uses its parent's slot, so that one slot is enough."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Host, Limits, Loop, MemoryStore
from agentic_kernel_engine.plans.action import FinalAnswer, Schedule, ToolCall
from agentic_kernel_engine.seams.planner import Context

from ..approving import AskForWrites, write
from ..conftest import Crash, LookedAt, Until
from ..crashing import Line
from ..delegating import Held, Late, Roles, join, last, spawn, told
from ..families import asks
from ..scripting import World, new_task

pytestmark = pytest.mark.rule("R9")
CHAIN: dict[str, list[Any]] = {
    "root": [spawn("child"), join, told],
    "child": [spawn("leaf"), join, told],
}


def one(loop: Loop, store: MemoryStore) -> Host:
    return Host(loop, Line(store), max_in_flight=1, grace=0, interval=0.01)


def deepest(output: Any) -> Any:
    """The answer of the leaf, out of those of its parents."""
    while isinstance(output, list):
        output = output[1]["result"] if isinstance(output[1], dict) else output[1]
    return output


async def test_a_child_of_a_child_runs_in_the_one_slot() -> None:
    planner = Roles(**CHAIN, leaf=[FinalAnswer("leaf's")])
    async with one(Loop(planner), MemoryStore()) as host, asyncio.timeout(10):
        assert deepest((await host.run(new_task(instructions="root"))).result) == "leaf's"


async def test_children_are_taken_over_into_the_slot_of_their_parent(crash: Crash) -> None:
    """Three Tasks of a dead process, and one slot; whichever is taken up first."""
    held, store = Held(), MemoryStore()
    planner = Roles(**CHAIN, leaf=[ToolCall("hold"), FinalAnswer("leaf's")])
    first = one(Loop(planner, [held.tool()]), store)
    task = new_task(instructions="root")
    await first.dispatch(task)
    await held.reached.wait()
    await crash(first)
    held.go.set()
    async with one(Loop(planner, [held.tool()]), store) as second, asyncio.timeout(10):
        assert deepest((await second.wait(task.id)).result) == "leaf's"


async def test_what_is_claimed_by_hand_brings_its_children(crash: Crash) -> None:
    """Also on a Host that takes up nothing by itself."""
    held, store = Held(), MemoryStore()
    planner = Roles(root=[spawn("child"), join, told], child=[ToolCall("hold"), FinalAnswer("it")])
    first = one(Loop(planner, [held.tool()]), store)
    task = new_task(instructions="root")
    await first.dispatch(task)
    await held.reached.wait()
    await crash(first)
    held.go.set()
    loop = Loop(planner, [held.tool()])
    async with (
        Host(loop, store, max_in_flight=1, claims=False, grace=0, interval=0.01) as second,
        asyncio.timeout(10),
    ):
        await second.claim(task.id)
        assert deepest((await second.wait(task.id)).result) == "it"


async def test_a_child_wakes_in_the_slot_of_its_parent() -> None:
    """It sleeps until a moment, while its parent holds the one slot and waits for it."""

    def sleep(context: Context) -> Any:
        return Schedule((datetime.now(UTC) + timedelta(milliseconds=50)).isoformat())

    planner = Roles(root=[spawn("child"), join, told], child=[sleep, FinalAnswer("awake")])
    async with one(Loop(planner), MemoryStore()) as host, asyncio.timeout(10):
        assert deepest((await host.run(new_task(instructions="root"))).result) == "awake"


async def test_a_child_that_was_let_go_elsewhere_is_taken_into_its_parents_slot() -> None:
    """It is resumed by a process that runs nothing, while its parent holds the one slot."""
    held, store = Held(), MemoryStore()
    planner = Roles(root=[spawn("child"), join, told], child=[ToolCall("hold"), FinalAnswer("it")])
    async with one(Loop(planner, [held.tool()]), store) as host, asyncio.timeout(10):
        task = new_task(instructions="root")
        await host.dispatch(task)
        await held.reached.wait()
        (child,) = await store.find(parent=task.id)
        await host.pause(child.task.id)
        held.go.set()
        await host.wait(child.task.id, TaskStatus.PAUSED)
        async with Host(store=store) as control:
            await control.resume(child.task.id)
        assert deepest((await host.wait(task.id)).result) == "it"


@pytest.mark.parametrize("decided", ["root", "leaf"])
@pytest.mark.parametrize("by", ["the host", "a control plane"])
async def test_an_approval_finds_its_way_through_one_slot(
    world: World, decided: str, by: str
) -> None:
    planner = Roles(**CHAIN, leaf=[write("a"), FinalAnswer("written")])
    store = MemoryStore()
    async with (
        one(Loop(planner, world.tools(), AskForWrites()), store) as host,
        Host(store=store) as control,
        asyncio.timeout(10),
    ):
        task = new_task(instructions="root")
        await host.dispatch(task)
        (request,) = (await asks(host, task))["requests"]
        whom = task.id if decided == "root" else request["task"]
        await (host if by == "the host" else control).approve(whom, request["digest"])
        assert deepest((await host.wait(task.id)).result) == "written"
    assert world.done == ["write a"]


class Itself:
    """A planner that has the tool ``self`` do it, down to a depth, where it writes."""

    def __init__(self, depth: int) -> None:
        self._depth = depth

    async def plan(self, context: Context) -> Any:
        if context.step == 1:
            return FinalAnswer([each.output for each in last(context)])
        if context.task.metadata.get("engine/depth", 0) < self._depth:
            return ToolCall("self", {"instructions": "more"})
        return write("a")


@pytest.mark.parametrize("asking", [False, True])
async def test_an_agent_that_calls_its_own_host_needs_no_second_slot(
    world: World, asking: bool
) -> None:
    tools = world.tools()
    policy = AskForWrites() if asking else None
    host = one(Loop(Itself(2), Late(tools), policy, limits=Limits(max_depth=2)), MemoryStore())
    tools.append(host.as_tool(name="self", description=""))
    async with host, asyncio.timeout(10):
        task = new_task()
        await host.dispatch(task)
        if asking:
            (request,) = (await asks(host, task))["requests"]
            await host.approve(task.id, request["digest"])
        assert (await host.wait(task.id)).result == [[["written"]]]
    assert world.done == ["write a"]


async def test_a_slot_is_free_again_once_parent_and_child_are_done() -> None:
    planner = Roles(root=[spawn("child"), FinalAnswer(1)], child=[FinalAnswer(2)])
    async with one(Loop(planner), MemoryStore()) as host, asyncio.timeout(10):
        for _ in range(5):
            await host.run(new_task(instructions="root"))
        for child in await host.store.find():
            await host.wait(child.task.id)
        await host.dispatch(new_task(instructions="root"))


async def test_a_run_without_children_asks_the_store_for_none(until: Until) -> None:
    class Counting(LookedAt):
        asked = 0

        async def find(self, **given: Any) -> Any:
            Counting.asked += given.get("parent") is not None
            return await super().find(**given)

    held = Held()
    loop = Loop(Roles(root=[ToolCall("hold"), FinalAnswer(1)]), [held.tool()])
    store = Counting()
    async with one(loop, store) as host:
        task = new_task(instructions="root")
        await host.dispatch(task)
        await held.reached.wait()
        enough = store.rounds + 3
        await until(lambda: store.rounds > enough)
        held.go.set()
        await host.wait(task.id)
    assert Counting.asked == 0
