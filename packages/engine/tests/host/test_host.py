"""The Host's edges, conveniences, and what it does with whatever a substrate may do."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import (
    CannotStart,
    Failure,
    IllegalTransition,
    InvalidValue,
    Query,
    Runtime,
    Task,
    TaskExists,
    TaskNotFound,
    TaskStatus,
)
from agentic_kernel_engine import (
    CompositeObserver,
    Event,
    Host,
    HostClosed,
    InMemoryObserver,
    Job,
    MemoryStore,
    Record,
    Router,
    StreamingObserver,
    TaskFailed,
    rerun,
)

from ..conftest import Acting, NewTask, TappedStore


async def answer(job: Job) -> Any:
    return job.task.instructions


async def test_the_public_names_are_these() -> None:
    assert set(engine.__all__) == {
        "Accepting", "Acting", "Cleaning", "CompositeObserver", "Conflict", "ConsoleObserver",
        "Cursor", "Done", "Event", "EventId", "Host", "HostClosed", "HostGone", "HostOptions",
        "InMemoryObserver", "InboxFull", "Job", "Limiting", "Limits", "Loop", "MemoryStore",
        "Metered", "Observer", "Outcome", "Principal", "Reading", "ReadyRuntime", "Receipt",
        "Record", "Router", "RunEnded", "Search", "SearchOptions", "StateUnreadable", "StopReason",
        "Store", "StoreError", "StoreTraits", "StreamingObserver", "Substrate", "TaskEvent",
        "TaskFailed", "Terms", "UnknownOutcome", "Unreadable", "WaitingFor", "WrongEventLoop",
        "agent_from_json", "agent_to_json", "decode_change", "decode_record", "drain_on_signals",
        "encode_change", "encode_record", "event_from_json", "event_to_json", "host_of",
        "owner_name", "rerun", "task_from_json", "task_to_json", "tool", "waiting_for",
    }  # fmt: skip


async def test_a_host_is_a_runtime_and_a_query(acting: type[Acting]) -> None:
    host = Host(acting(answer))
    assert isinstance(host, Runtime)
    assert isinstance(host, Query)


async def test_a_host_works_without_async_with(new_task: NewTask, acting: type[Acting]) -> None:
    host = Host(acting(answer))
    assert (await host.run(new_task(instructions="hello"))).result == "hello"
    await host.close()
    await host.close()
    with pytest.raises(HostClosed):
        await host.dispatch(new_task())


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (TaskFailed("acme/full", "no room", {"retry_after_ms": 5}), "acme/full", "no room"),
        (ValueError("odd"), "engine/unhandled_error", "ValueError: odd"),
        (ValueError("nul\0 and \ud800"), "engine/unhandled_error", "ValueError"),
        (TaskFailed("", "", None), "engine/bad_result", "empty"),
        (TaskFailed("a/b", "c", {"x": {1}}), "engine/bad_result", "set"),
        (TaskFailed("a/b", cast(Any, None)), "engine/bad_result", "message: must be a string"),
        (asyncio.CancelledError(), "engine/cancelled", "cancelled itself"),
        (ExceptionGroup("g", [ValueError("1")]), "engine/unhandled_error", "ExceptionGroup"),
    ],
)
async def test_whatever_a_substrate_raises_is_a_failure_on_the_task(
    new_task: NewTask, acting: type[Acting], raised: BaseException, code: str, said: str
) -> None:
    async def act(job: Job) -> Any:
        raise raised

    async with Host(acting(act)) as host:
        done = await host.run(new_task())
    assert done.failure is not None
    assert done.failure.code == code
    assert re.search(said, done.failure.message)


async def test_a_substrate_that_is_no_coroutine_fails_its_task(new_task: NewTask) -> None:
    class Plain:
        def execute(self, job: Job) -> Any:
            return "not awaitable"

    async with Host(Plain()) as host:
        done = await host.run(new_task())
    assert done.failure is not None
    assert done.failure.code == "engine/unhandled_error"


async def test_none_is_a_result(new_task: NewTask, acting: type[Acting]) -> None:
    async def act(job: Job) -> Any:
        return None

    async with Host(acting(act)) as host:
        done = await host.run(new_task())
    assert done.status is TaskStatus.SUCCESS
    assert done.result is None


async def test_dispatch_refuses_without_a_trace(new_task: NewTask, acting: type[Acting]) -> None:
    class Choosy:
        async def accept(self, task: Task) -> None:
            if task.instructions == "no":
                raise CannotStart("not this one", task.id)

        async def execute(self, job: Job) -> Any:
            return None

    async with Host(Choosy(), runtime_kinds={"test"}, max_in_flight=1) as host:
        started = await host.run(new_task())
        for task, error in [
            (new_task(instructions="no"), CannotStart),
            (new_task(runtime_kind="other"), CannotStart),
            (new_task(id=started.id), TaskExists),
            (started, IllegalTransition),
        ]:
            with pytest.raises(error):
                await host.dispatch(task)
        assert [task.id for task in await host.find()] == [started.id]
        assert (await host.run(new_task())).status is TaskStatus.SUCCESS, "a slot was lost"
    with pytest.raises(CannotStart, match="control plane"):
        async with Host() as control:
            await control.dispatch(new_task())


async def test_every_verb_refuses_an_unknown_id(acting: type[Acting]) -> None:
    async with Host(acting(answer)) as host:
        for call in (
            host.pause("?"), host.resume("?"), host.kill("?"), host.complete("?", 1),
            host.fail("?", Failure("a/b", "c")), host.get("?"), host.record("?"), host.wait("?"),
            host.claim("?"), host.post("?", {"type": "a"}), host.rerun("?"),
        ):  # fmt: skip
            with pytest.raises(TaskNotFound):
                await call
        with pytest.raises(TaskNotFound):
            async for _ in host.stream("?"):
                pass


async def test_bad_arguments_are_refused(new_task: NewTask, acting: type[Acting]) -> None:
    for arguments in ({"max_in_flight": 0}, {"runtime_kinds": "test"}):
        with pytest.raises(InvalidValue):
            Host(acting(answer), **arguments)
    async with Host(acting(answer)) as host:
        done = await host.run(new_task())
        for call in (
            host.find(limit=0), host.resume(done.id, cast(Any, 7)), host.get(cast(Any, 7)),
            host.dispatch(cast(Any, "task")), host.post(done.id, {"type": "pause"}),
            host.post(done.id, {"no": "type"}), host.fail(done.id, cast(Any, "failure")),
        ):  # fmt: skip
            with pytest.raises(InvalidValue):
                await call
        with pytest.raises(IllegalTransition):
            await host.post(done.id, {"type": "late"})


async def test_find_pages_in_order_of_id(new_task: NewTask, acting: type[Acting]) -> None:
    async with Host(acting(answer)) as host:
        ids = sorted([(await host.run(new_task(id=f"t{n:03}"))).id for n in range(25)])
        pages, after = [], None
        while page := await host.find(status=TaskStatus.SUCCESS, after=after, limit=10):
            pages.append([task.id for task in page])
            after = pages[-1][-1]
        assert [len(page) for page in pages] == [10, 10, 5]
        assert [id for page in pages for id in page] == ids
        assert not await host.find(status=TaskStatus.PAUSED)


async def test_wait_for_a_status_ends_with_the_task_too(
    new_task: NewTask, acting: type[Acting]
) -> None:
    async with Host(acting(answer)) as host:
        done = await host.run(new_task())
        assert await host.wait(done.id, TaskStatus.PAUSED) == done


async def test_rerun_is_a_new_task_with_its_lineage(
    new_task: NewTask, acting: type[Acting]
) -> None:
    async with Host(acting(answer)) as host:
        done = await host.run(new_task(instructions="again", metadata={"given": 1}))
        clone = rerun(done, "acme")
        assert clone.status is TaskStatus.NOT_STARTED
        assert clone.id != done.id
        assert dict(clone.metadata) == {"given": 1, "acme/lineage_of": done.id}
        assert (await host.run(clone)).result == "again"
        other = await host.rerun(done.id)
        assert other.metadata["engine/lineage_of"] == done.id
    for scope in ("", "a/b", "a b", "a\n", "a\u3164", "\u202e", 5, None, b"a", ["a"]):
        with pytest.raises(InvalidValue, match="scope"):
            rerun(done, cast(Any, scope))
    others: list[Any] = [None, 5, done.id, {}]
    for wrong in others:
        with pytest.raises(InvalidValue, match="task: must be a Task"):
            rerun(wrong)


async def test_a_router_sends_each_kind_to_its_runtime(
    new_task: NewTask, acting: type[Acting]
) -> None:
    async def other(job: Job) -> Any:
        if not job.task.supplements:
            await job.pause(None)
        return f"other: {job.task.supplements[0]}"

    store = MemoryStore()
    async with (
        Host(acting(answer), store, runtime_kinds={"a"}) as one,
        Host(acting(other), store, runtime_kinds={"b"}, interval=60) as two,
        Host(acting(answer)) as apart,
    ):
        router = Router({"a": one, "b": two, "c": apart})
        assert isinstance(router, Runtime)
        assert isinstance(router, Query)
        unknown = new_task(runtime_kind="?")
        with pytest.raises(CannotStart, match="a, b, c"):
            await router.dispatch(unknown)
        assert not await router.get_many([unknown.id])
        # The last Runtime has the first id.
        tasks = {
            kind: new_task(id=f"task {place}", runtime_kind=kind, instructions=kind)
            for kind, place in zip("abc", "231", strict=True)
        }
        for task in tasks.values():
            await router.dispatch(task)
        await two.wait(tasks["b"].id, TaskStatus.PAUSED)
        await router.resume(tasks["b"].id, "extra")
        assert (await two.wait(tasks["b"].id)).result == "other: extra"
        await apart.wait(tasks["c"].id)
        assert (await router.get(tasks["c"].id)).result == "c"
        assert len(await router.get_many([task.id for task in tasks.values()])) == 3
        ids = sorted(task.id for task in tasks.values())
        assert [task.id for task in await router.find()] == ids
        reached: list[str] = []
        while page := await router.find(after=reached[-1] if reached else None, limit=1):
            reached += [task.id for task in page]
        assert reached == ids
        await router.kill(tasks["a"].id)
        with pytest.raises(TaskNotFound):
            await router.pause("?")
    with pytest.raises(InvalidValue):
        Router({})


async def test_an_observer_that_fails_touches_nothing_and_keeps_nothing_from_others(
    new_task: NewTask, acting: type[Acting]
) -> None:
    class Faulty:
        def observe(self, task_id: str, event: Event) -> None:
            raise RuntimeError("no")

    memory, streaming = InMemoryObserver(), StreamingObserver(capacity=3)
    async with Host(
        acting(answer), observer=CompositeObserver(Faulty(), memory, streaming)
    ) as host:
        done = await host.run(new_task())
        await host.run(new_task())
    assert done.status is TaskStatus.SUCCESS
    assert memory.types(done.id) == ["task.dispatched", "task.completed"]
    streaming.close()
    assert len([event async for event in streaming]) == 3
    assert streaming.dropped == 1


async def test_a_store_that_fails_a_run_is_named(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    full = [engine.StoreError("no space left")] * 3

    async def fail(after: Record) -> None:
        if full:
            raise full.pop()

    async def act(job: Job) -> Any:
        await job.commit(1)

    tapped.before_commit = fail
    async with Host(acting(act), tapped) as host:
        done = await host.run(new_task())
    assert done.failure is not None
    assert done.failure.code == "engine/store_error"
    assert "no space left" in done.failure.message


async def test_prune_removes_old_ends_whole_and_nothing_else(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store = MemoryStore()
    async with Host(acting(answer), store) as host:
        done = [await host.run(new_task()) for _ in range(5)]
        now = datetime.now(UTC)
        assert await store.prune(now - timedelta(days=1)) == 0
        assert await store.prune(now + timedelta(days=1), limit=3) == 3
        assert await store.prune(now + timedelta(days=1)) == 2
        assert not await host.find()
        with pytest.raises(TaskNotFound):
            await host.get(done[0].id)
        assert (await host.run(new_task(id=done[0].id))).status is TaskStatus.SUCCESS
