"""R20: a Task's history joined with what its run emits, once and in order, from any Host."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentic_kernel import Failure, InvalidValue, Task, TaskNotFound, TaskStatus
from agentic_kernel_engine import Host, HostClosed, Job, Loop, MemoryStore, StoreTraits
from agentic_kernel_engine.events import Event, TaskEvent
from agentic_kernel_engine.host import news
from agentic_kernel_engine.plans.action import AskUser, FinalAnswer, ToolCall
from agentic_kernel_engine.record import owner_name
from agentic_kernel_engine.seams.planners import ScriptedPlanner
from agentic_kernel_engine.tools.tool import tool

from ..conftest import Acting, NewTask, Until

BRISK: dict[str, Any] = {"interval": 0.01, "grace": 0.0}


class Slow(MemoryStore):
    """A store that suspends its callers, by chance for several turns of the event loop."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._chance = random.Random(seed)

    traits = StoreTraits()

    async def _rest(self) -> None:
        for _ in range(self._chance.randrange(4)):
            await asyncio.sleep(0)

    async def commit(self, *given: Any) -> None:
        await self._rest()
        await super().commit(*given)
        await self._rest()

    async def events(self, *given: Any, **more: Any) -> Any:
        await self._rest()
        found = await super().events(*given, **more)
        await self._rest()
        return found

    async def load(self, task_id: str) -> Any:
        await self._rest()
        found = await super().load(task_id)
        await self._rest()
        return found


class Counting:
    """Emits numbered events, and commits now and then."""

    def __init__(self, seed: int, count: int = 60) -> None:
        self._chance = random.Random(seed)
        self._count = count

    async def execute(self, job: Job) -> int:
        begin = job.state or 0
        for number in range(begin, self._count):
            if self._chance.random() < 0.5:
                job.emit(Event("test.live", {"n": number}))
                events = []
            else:
                events = [Event("test.durable", {"n": number})]
            if events or self._chance.random() < 0.3:
                await job.checkpoint(number + 1, events)
            if self._chance.random() < 0.3:
                await asyncio.sleep(0)
        return self._count


async def read(events: AsyncIterator[TaskEvent], wait: random.Random | None = None) -> list[Any]:
    found = []
    async for event in events:
        found.append(event)
        if wait is not None and wait.random() < 0.3:
            await asyncio.sleep(0)
    return found


def numbers(events: list[Any]) -> list[int]:
    return [event.data["n"] for event in events if "n" in event.data]


class SlowToAnswer(MemoryStore):
    """A store that writes at once and answers after several looks of the polling."""

    traits = StoreTraits()

    async def commit(self, *given: Any) -> None:
        await super().commit(*given)
        await asyncio.sleep(0.05)


@pytest.mark.rule("R20")
@pytest.mark.parametrize("checkpoints", [0, 1])
async def test_an_event_comes_once_if_the_watch_sees_its_commit_before_the_run_does(
    new_task: NewTask, checkpoints: int
) -> None:
    class Saying:
        async def execute(self, job: Job) -> None:
            job.emit(Event("test.live", {"n": 0}))
            for number in range(checkpoints):
                await job.checkpoint(number)

    async with Host(Saying(), SlowToAnswer(), **BRISK) as host, asyncio.timeout(20):
        assert numbers(await read(host.run_stream(new_task()))) == [0]


@pytest.mark.rule("R20")
@pytest.mark.parametrize("seed", range(40))
async def test_every_event_comes_once_and_in_order(new_task: NewTask, seed: int) -> None:
    """Readers that begin before, during and after the run, here and on another Host."""
    store = Slow(seed)
    chance = random.Random(seed)
    async with Host(Counting(seed), store, **BRISK) as host, Host(store=store, **BRISK) as other:
        task = new_task()
        first = asyncio.create_task(read(host.run_stream(task), random.Random(seed)))
        readers = []
        for _ in range(4):
            for _ in range(chance.randrange(12)):
                await asyncio.sleep(0)
            for each in (host, other):
                if task.id in await each.get_many([task.id]):
                    readers.append(asyncio.create_task(read(each.watch(task.id), chance)))
        async with asyncio.timeout(20):
            everything = [await first, *[await reader for reader in readers]]
            everything.append(await read(other.watch(task.id)))
    for found in everything:
        assert numbers(found) == list(range(60))
        assert (found[0].type, found[-1].type) == ("task.dispatched", "task.completed")
        ids = [event.id for event in found if event.id is not None]
        assert ids == sorted(set(ids))
        assert {event.task_id for event in found} == {task.id}
    assert any(event.id is None for event in everything[0])
    assert all(event.id is not None for event in everything[-1])


@pytest.mark.rule("R20")
@pytest.mark.parametrize("seed", range(10))
async def test_a_reader_goes_on_after_a_cursor(new_task: NewTask, seed: int) -> None:
    store = Slow(seed)
    async with Host(Counting(seed), store, **BRISK) as host:
        task = new_task()
        await host.run(task)
        whole = await read(host.watch(task.id))
        for event in whole[::7]:
            rest = await read(host.watch(task.id, after=event.id))
            assert rest == whole[whole.index(event) + 1 :]


@pytest.mark.rule("R20")
async def test_what_is_emitted_is_seen_at_once_and_a_kill_ends_the_reading(
    new_task: NewTask, until: Until
) -> None:
    async def act(job: Job) -> None:
        job.emit(Event("test.live", {"n": 1}))
        await asyncio.sleep(60)

    async with Host(Acting(act), **BRISK) as host:
        task = new_task()
        found: list[Any] = []

        async def follow() -> None:
            async for event in host.run_stream(task):
                found.append(event)

        reading = asyncio.create_task(follow())
        await until(lambda: [event.type for event in found][-1:] == ["test.live"])
        await host.kill(task.id)
        await reading
        assert [event.type for event in found] == ["task.dispatched", "test.live", "task.killed"]


@pytest.mark.rule("R20")
async def test_a_reader_that_is_far_behind_reads_from_the_store(
    new_task: NewTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news, "MOST_BEHIND", 10)
    go_on = asyncio.Event()

    async def act(job: Job) -> None:
        await go_on.wait()
        for number in range(200):
            job.emit(Event("test.live", {"n": number}))
            if number % 50 == 49:
                await job.checkpoint(number)

    async with Host(Acting(act), **BRISK) as host:
        task = new_task()
        await host.dispatch(task)
        found: list[Any] = []
        async for event in host.watch(task.id):
            if not found:
                go_on.set()
                await host.wait(task.id)
            found.append(event)
    assert sorted(set(numbers(found))) == list(range(200))
    assert found[-1].type == "task.completed"


async def test_children_are_read_too(new_task: NewTask) -> None:
    async def child(job: Job) -> str:
        job.emit(Event("test.live", {"n": 1}))
        await asyncio.sleep(0.02)
        await job.checkpoint(1)
        return "done"

    store = MemoryStore()
    async with Host(Acting(child), store, runtime_kinds=["child"], **BRISK) as below:
        tools = [below.as_tool(name="ask", description="Ask.")]
        script = ScriptedPlanner(
            ToolCall("ask", {"instructions": "do"}), ToolCall("ask", {"instructions": "more"}),
            FinalAnswer(1),
        )  # fmt: skip
        async with Host(Loop(script, tools), store, runtime_kinds=["test"], **BRISK) as host:
            task = new_task()
            found = await read(host.run_stream(task, children=True))
            children = {record.task.id for record in await store.find(parent=task.id)}
    assert len(children) == 2
    for task_id in (task.id, *children):
        own = [event.type for event in found if event.task_id == task_id]
        assert (own[0], own[-1]) == ("task.dispatched", "task.completed")
    assert {event.task_id for event in found} == {task.id, *children}
    assert sum("n" in event.data for event in found) == 2


async def test_children_are_found_whenever_the_watch_begins(
    new_task: NewTask, until: Until
) -> None:
    """After the parent's last event, after a cursor, and while a child outlives its parent."""
    go_on = asyncio.Event()

    async def family(job: Job) -> str:
        if "child" in job.task.instructions:
            await go_on.wait()
            return "late"
        await job.commit("begun")
        await job.spawn(new_task(instructions="child", id=f"{job.task.id}-child"))
        await job.commit("spawned")
        return "early"

    async with Host(Acting(family), **BRISK) as host:
        task = new_task(id="parent")
        ended = await host.run(task)
        assert ended.result == "early"
        last = [event.id async for event in host.watch(task.id)][-1]
        readers = [
            asyncio.create_task(read(host.watch(task.id, after, children=True)))
            for after in (None, last)
        ]
        await asyncio.sleep(0.05)
        assert not any(reader.done() for reader in readers)
        go_on.set()
        for reader in readers:
            found = [event.type for event in await reader if event.task_id == "parent-child"]
            assert (found[0], found[-1]) == ("task.dispatched", "task.completed")


async def test_a_watch_refuses_what_it_cannot_read(new_task: NewTask) -> None:
    async with Host(store=MemoryStore(), **BRISK) as host:
        for wrong in (("x", 5), ("x", "1")):
            with pytest.raises(InvalidValue):
                host.watch(*wrong)
        with pytest.raises(InvalidValue):
            host.watch("x", children="yes")  # type: ignore[arg-type]
        for children in (False, True):
            with pytest.raises(TaskNotFound):
                await anext(host.watch("x", children=children))
            assert not host._news._followers


async def test_closing_the_host_ends_a_watch(new_task: NewTask, until: Until) -> None:
    async def act(job: Job) -> None:
        await asyncio.sleep(60)

    host = Host(Acting(act), **BRISK)
    task = new_task()
    await host.dispatch(task)
    readers = [
        asyncio.create_task(read(host.watch(task.id, children=children)))
        for children in (False, True)
    ]
    await asyncio.sleep(0.05)
    await host.close()
    for reader in readers:
        with pytest.raises(HostClosed):
            await reader


# One step of a new Task, and a caller that may cancel its run


async def test_a_new_task_does_one_step(new_task: NewTask) -> None:
    script = ScriptedPlanner(ToolCall("none", {}), FinalAnswer(1))
    async with Host(Loop(script), **BRISK) as host:
        task = new_task()
        receipt = await host.step(task)
        assert receipt.effect == "transition"
        paused = await host.wait(task.id, TaskStatus.PAUSED)
        assert (await host.outcome(task.id)).usage is not None
        assert paused.status is TaskStatus.PAUSED
        with pytest.raises(InvalidValue, match="is set when a Task is dispatched"):
            await host.step(task.id, limits={"max_cost": 1})
        await host.step(task.id)
        assert (await host.wait(task.id)).result == 1


@pytest.mark.parametrize("loop", [True, False])
async def test_a_caller_may_cancel_its_own_run(new_task: NewTask, loop: bool) -> None:
    class Endless:
        async def plan(self, context: Any) -> Any:
            done = context.task.supplements
            return FinalAnswer(1) if done else ToolCall("count", {"n": context.step})

    @tool
    async def count(n: int) -> int:
        await asyncio.sleep(0)
        return n

    class Counter:
        async def execute(self, job: Job) -> int:
            number = job.state or 0
            while not job.task.supplements:
                number += 1
                await job.checkpoint(number)
                await asyncio.sleep(0)
            return 1

    asked = 0

    def enough() -> bool:
        nonlocal asked
        asked += 1
        return asked > 2

    async with Host(Loop(Endless(), [count]) if loop else Counter(), **BRISK) as host:
        task, other = new_task(), new_task()
        await host.dispatch(other)
        paused = await host.run(task, should_cancel=enough)
        assert paused.status is TaskStatus.PAUSED
        assert paused.metadata["engine/stop_reason"] == "cancelled"
        assert (await host.get(other.id)).status is TaskStatus.RUNNING
        await host.resume(task.id, "on")
        assert (await host.wait(task.id)).result == 1
        asked = 0
        third: Task = new_task()
        seen = [event.type async for event in host.run_stream(third, should_cancel=enough)]
        assert seen[-1] == "task.paused"
        with pytest.raises(InvalidValue):
            await host.run(new_task(), should_cancel=True)  # type: ignore[arg-type]


async def test_a_run_returns_when_the_loop_s_own_should_cancel_has_paused_its_task(
    new_task: NewTask,
) -> None:
    cancelled = True
    script = ScriptedPlanner(FinalAnswer(1))
    loop = Loop(script, should_cancel=lambda: cancelled)
    async with Host(loop, **BRISK) as host, asyncio.timeout(5):
        task = await host.run(new_task())
        assert task.status is TaskStatus.PAUSED
        assert task.metadata["engine/stop_reason"] == "cancelled"
        seen = [event.type async for event in host.run_stream(new_task(), children=True)]
        assert seen[-1] == "task.paused"
        cancelled = False
        await host.resume(task.id)
        assert (await host.wait(task.id)).result == 1


async def test_a_run_waits_through_every_other_pause(new_task: NewTask) -> None:
    script = ScriptedPlanner(AskUser("which?"), AskUser("and?"), FinalAnswer(1))
    async with Host(Loop(script), **BRISK) as host, asyncio.timeout(5):
        running = asyncio.create_task(host.run(task := new_task()))
        await asyncio.sleep(0.1)
        for text in ("a", "b"):
            await host.wait(task.id, TaskStatus.PAUSED)
            assert not running.done()
            await host.answer(task.id, text, by="ann")
        assert (await running).result == 1


async def test_a_caller_may_cancel_while_its_run_waits_for_a_child(new_task: NewTask) -> None:
    cancelled = False

    async def child(job: Job) -> None:
        await asyncio.sleep(60)

    store = MemoryStore()
    async with Host(Acting(child), store, runtime_kinds=["child"], **BRISK) as below:
        tools = [below.as_tool(name="ask", description="Ask.")]
        script = ScriptedPlanner(ToolCall("ask", {"instructions": "do"}), FinalAnswer(1))
        async with Host(Loop(script, tools), store, runtime_kinds=["test"], **BRISK) as host:
            running = asyncio.create_task(host.run(new_task(), should_cancel=lambda: cancelled))
            await asyncio.sleep(0.1)
            cancelled = True
            async with asyncio.timeout(2):
                assert (await running).status is TaskStatus.PAUSED


async def test_an_async_function_is_no_predicate(new_task: NewTask) -> None:
    async def always() -> bool:
        return False

    class Always:
        async def __call__(self) -> bool:
            return False

    async with Host(Counting(1), **BRISK) as host:
        for wrong in (always, Always()):
            for verb in (host.run, host.dispatch):
                with pytest.raises(InvalidValue, match="is an async function"):
                    await verb(new_task(), should_cancel=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue):
        Loop(ScriptedPlanner(), should_cancel=always)  # type: ignore[arg-type]


async def test_a_bad_should_cancel_is_refused_before_the_host_joins_its_store(
    new_task: NewTask,
) -> None:
    host = Host(Counting(1), **BRISK)
    for verb in (host.run, host.dispatch):
        with pytest.raises(InvalidValue, match="should_cancel"):
            await verb(new_task(), should_cancel=True)  # type: ignore[arg-type]
    assert not await host.store.alive(owner_name(host.name, 1))
    await host.close()


@pytest.mark.parametrize("verb", ["kill", "complete", "fail"])
async def test_an_end_is_known_at_once_while_its_run_unwinds(
    new_task: NewTask, acting: type[Acting], verb: str
) -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def act(job: Job) -> Any:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await left.wait()

    arguments = {"kill": (), "complete": ("done",), "fail": (Failure("a/b", "c"),)}[verb]
    async with Host(acting(act), interval=60, grace=0) as host:
        task = new_task()
        await host.dispatch(task)
        await begun.wait()
        await getattr(host, verb)(task.id, *arguments)
        async with asyncio.timeout(5):
            assert (await host.wait(task.id)).status.terminal
        left.set()


@pytest.mark.parametrize("verb", ["run_stream", "stream", "watch"])
@pytest.mark.parametrize("children", [False, True])
@pytest.mark.parametrize("count", [1, 3, 5])
async def test_a_reader_that_is_closed_leaves_nothing_behind(
    new_task: NewTask, acting: type[Acting], verb: str, *, children: bool, count: int
) -> None:
    """Neither an asyncio task, nor a follower, nor a generator that goes only later."""

    async def act(job: Job) -> None:
        for number in range(3):
            await job.checkpoint(number, [Event("test.durable", {"n": number})])
        while True:
            job.emit(Event("test.live", {}))
            await asyncio.sleep(0)

    more: dict[str, Any] = {} if verb == "stream" else {"children": children}
    async with Host(acting(act), Slow(1), **BRISK) as host:
        task = new_task()
        if verb != "run_stream":
            await host.dispatch(task)
        before = asyncio.all_tasks()
        reader: Any = getattr(host, verb)(task if verb == "run_stream" else task.id, **more)
        for _ in range(min(count, 4) if verb == "stream" else count):
            await anext(reader)
        await reader.aclose()
        names = {str(each.get_coro()) for each in asyncio.all_tasks() - before}
        assert not [name for name in names if "_into" in name or "async_generator" in name]
        assert (host._news._followers, host._news._waiting) == ({}, {})
        await host.kill(task.id)
