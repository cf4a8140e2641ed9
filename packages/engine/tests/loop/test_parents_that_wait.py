"""A parent waits for its children: it goes on even if a host dies before it can wake it (R13)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from agentic_kernel import Kill, Pause, Task, TaskStatus, apply
from agentic_kernel_engine import Host, Loop, MemoryStore, Record
from agentic_kernel_engine.host.change import successor
from agentic_kernel_engine.plans.action import AskUser, FinalAnswer, ToolCall
from agentic_kernel_engine.tools.tool import tool
from agentic_kernel_engine.waiting import asked

from ..approving import AskForWrites, write
from ..conftest import Crash, TappedStore
from ..crashing import Line
from ..delegating import Held, Roles, join, spawn, told
from ..families import WAYS, Family, approval, asks
from ..scripting import Runner, World, new_task


async def test_a_decision_that_lands_with_the_pause_lets_the_task_go_on(world: World) -> None:
    """The first of two approvals lets the Task go on; the second comes as it pauses again."""
    store = TappedStore()
    loop = Loop(Roles(it=[[write("a"), write("b")], FinalAnswer("both")]), world.tools(),
                AskForWrites())  # fmt: skip
    async with Host(loop, store, grace=0, interval=0.01) as host, Host(store=store) as control:
        task = new_task(instructions="it")
        await host.dispatch(task)
        one, other = (await asks(host, task))["requests"]

        async def late(record: Record) -> None:
            if record.task.status is TaskStatus.PAUSED:
                store.before_commit = None
                await control.approve(task.id, other["digest"])

        store.before_commit = late
        await host.approve(task.id, one["digest"])
        async with asyncio.timeout(10):
            assert (await host.wait(task.id)).result == "both"
    assert world.done == ["write a", "write b"]


async def test_an_answer_that_lands_with_the_pause_lets_the_task_go_on() -> None:
    store = TappedStore()
    loop = Loop(Roles(it=[AskUser("which?"), FinalAnswer("answered")]))
    async with Host(loop, store, grace=0, interval=0.01) as host, Host(store=store) as control:
        task = new_task(instructions="it")

        async def late(record: Record) -> None:
            if record.task.status is TaskStatus.PAUSED:
                store.before_commit = None
                await control.answer(task.id, "this")

        store.before_commit = late
        async with asyncio.timeout(10):
            assert (await host.run(task)).result == "answered"


@pytest.mark.parametrize("decided", ["approved", "answered"])
async def test_who_dies_after_a_decision_leaves_no_task_that_asks_for_it_again(
    decided: str, crash: Crash
) -> None:
    """It was to pause as well: so it does, and says nothing of a decision that was used."""
    reached, store = asyncio.Event(), MemoryStore()

    @tool(effect="write", name="write")
    async def never(text: str) -> None:
        """Write a text, for ever."""
        reached.set()
        await asyncio.Event().wait()

    asked_first = [AskUser("which?")] if decided == "answered" else []
    planner = Roles(it=[*asked_first, write("a"), FinalAnswer("done")])
    loop = Loop(planner, [never], AskForWrites() if decided == "approved" else None)
    first = Host(loop, Line(store), grace=0, interval=0.01)
    task = new_task(instructions="it")
    async with Host(store=store) as control, asyncio.timeout(10):
        await first.dispatch(task)
        waiting = await asks(first, task)
        if decided == "approved":
            await control.approve(task.id, waiting["requests"][0]["digest"])
        else:
            await control.answer(task.id, "this")
        await reached.wait()
        await crash(first)
        await control.pause(task.id)
        async with Host(loop, store, grace=0, interval=0.01) as second:
            assert asked(await second.wait(task.id, TaskStatus.PAUSED)) is None
            await second.resume(task.id)
            assert (await second.wait(task.id)).result == "done"


def let_go(record: Record) -> bool:
    """The child was decided about."""
    return record.parent is not None and record.task.status is TaskStatus.RUNNING


def over(record: Record) -> bool:
    """The child was killed."""
    return record.parent is not None and record.task.status is TaskStatus.CANCELLED


@pytest.mark.parametrize("landed", [let_go, over])
@WAYS
async def test_who_dies_after_deciding_about_a_child_leaves_no_parent_behind(
    way: str, landed: Callable[[Record], bool], world: World, crash: Crash
) -> None:
    store = TappedStore()
    family = Family(way, 1, world, store)
    async with family.hosts() as (host, *_):
        task = new_task(instructions="writes")
        await host.dispatch(task)
        (request,) = (await asks(host, task))["requests"]
        control = Host(store=Line(store))
        reached, gone = asyncio.Event(), asyncio.Event()

        async def cut(record: Record) -> None:
            if landed(record) and not reached.is_set():
                reached.set()
                await gone.wait()

        store.after_commit = cut
        child, verdict = request["task"], approval(request["digest"], True)
        deciding = asyncio.create_task(
            control.kill(child) if landed is over else control.decide(child, verdict)
        )
        async with asyncio.timeout(10):
            await reached.wait()
        await crash(control)
        gone.set()
        await asyncio.wait([deciding], timeout=10)
        async with asyncio.timeout(10):
            done = await host.wait(task.id)
    assert done.status is TaskStatus.SUCCESS
    assert world.done == ([] if landed is over else ["write a"])


@WAYS
async def test_a_parent_that_paused_as_its_child_went_on_is_found_by_the_next_host(
    way: str, world: World
) -> None:
    """Both were committed, and nobody was left to see that the one is no longer for the other."""
    family = Family(way, 1, world)
    task = new_task(instructions="writes")
    async with family.hosts() as (host, *_):
        await host.dispatch(task)
        (request,) = (await asks(host, task))["requests"]
        parent = await family.store.load(task.id)
    async with Host(store=family.store) as control:
        await control.approve(request["task"], request["digest"])
    # The parent as if its pause had been committed a moment later.
    latest = await family.store.load(task.id)
    paused = apply(latest.task, Pause(), latest.task.created_at)
    await family.store.commit(latest, successor(latest, task=paused, state=parent.state))
    async with family.hosts() as (host, *_), asyncio.timeout(10):
        assert (await host.wait(task.id)).result[0] == ""
    assert world.done == ["write a"]


@pytest.mark.rule("R13")
async def test_a_paused_child_of_a_killed_parent_is_killed_by_the_next_host(
    runner: Runner, crash: Crash
) -> None:
    """The kill of the parent landed, and its sweep did not."""
    held = Held()
    planner = Roles(
        root=[spawn("child"), join, told], child=[ToolCall("hold"), FinalAnswer("late")]
    )
    store = runner.store
    async with runner.host(planner=planner, tools=[held.tool()]) as host:
        task = new_task(instructions="root")
        await host.dispatch(task)
        await held.reached.wait()
        (child,) = await store.find(parent=task.id)
        await host.pause(child.task.id)
        held.go.set()
        await host.wait(child.task.id, TaskStatus.PAUSED)
    await killed_alone(store, task)
    async with runner.host(planner=planner, tools=[held.tool()]) as host, asyncio.timeout(10):
        assert (await host.wait(child.task.id)).status is TaskStatus.CANCELLED


async def killed_alone(store: MemoryStore, task: Task) -> None:
    record = await store.load(task.id)
    killed = apply(record.task, Kill(), record.task.created_at)
    await store.commit(record, successor(record, task=killed, owner=None))
