"""R11, R12, R15, R16: what of a run is stored, when, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import InvalidValue, TaskStatus
from agentic_kernel_engine import Event, InMemoryObserver, Job, MemoryStore, Record, StoreError
from agentic_kernel_engine.stored import decode_change, encode_change, encode_record

from ..conftest import Acting, Crash, NewTask
from ..crashing import Line

Host = partial(engine.Host, grace=0)
PAUSED = TaskStatus.PAUSED
RUNNING = TaskStatus.RUNNING
SUCCESS = TaskStatus.SUCCESS


async def forever(job: Job) -> Any:
    await asyncio.Event().wait()


@pytest.mark.rule("R11")
@pytest.mark.parametrize("killer", ["local", "remote"])
async def test_a_kill_keeps_the_text_in_progress(
    new_task: NewTask, acting: type[Acting], killer: str
) -> None:
    store = MemoryStore()
    said = asyncio.Event()

    async def act(job: Job) -> Any:
        for piece in ("Once ", "upon "):
            job.emit({"type": "run.delta", "text": piece})
        await job.checkpoint(1)
        job.emit({"type": "run.delta", "text": "a time"})
        job.note("test/heard", True)
        said.set()
        await asyncio.Event().wait()

    async with Host(acting(act), store) as worker, Host(store=store) as control:
        task = new_task()
        await worker.dispatch(task)
        await said.wait()
        done = (await (worker if killer == "local" else control).kill(task.id)).snapshot
    expected = "Once upon a time" if killer == "local" else "Once upon "
    assert done.metadata["test/partial_output"] == expected
    assert ("test/heard" in done.metadata) is (killer == "local")


@pytest.mark.rule("R11")
@pytest.mark.parametrize("kind", ["\u3164", "a\ufe0f", "a b", "a/b", "\u202e", "k\n"], ids=ascii)
async def test_a_kind_that_is_no_scope_keeps_no_task_from_being_killed(
    new_task: NewTask, acting: type[Acting], kind: str
) -> None:
    said = asyncio.Event()

    async def act(job: Job) -> Any:
        job.emit({"type": "run.delta", "text": "half"})
        said.set()
        await asyncio.Event().wait()

    async with Host(acting(act)) as host:
        task = new_task(runtime_kind=kind)
        await host.dispatch(task)
        await said.wait()
        done = (await host.kill(task.id)).snapshot
    assert done.metadata["engine/partial_output"] == "half"


@pytest.mark.rule("R11")
async def test_text_in_progress_is_stored_once_and_deltas_in_a_row_as_one(
    new_task: NewTask, acting: type[Acting]
) -> None:
    async def act(job: Job) -> Any:
        for n in range(50):
            for piece in range(20):
                job.emit({"type": "run.delta", "text": f"word{piece} "})
            await job.checkpoint(n)
        return "done"

    observer = InMemoryObserver()
    async with Host(acting(act), observer=observer) as host:
        done = await host.run(new_task())
        deltas = [event async for event in host.stream(done.id) if event.type == "run.delta"]
    live = [event for _, event in observer.events if event.type == "run.delta"]
    assert len(live) == 1000
    assert all(event.id is None for event in live), "a delta was told twice"
    assert len(deltas) == 50
    assert sum(len(event.data["text"]) for event in deltas) == sum(
        len(event.data["text"]) for event in live
    )


@pytest.mark.rule("R12")
async def test_a_decision_is_consumed_in_the_commit_that_acts_on_it(
    new_task: NewTask, acting: type[Acting], crash: Crash
) -> None:
    store = MemoryStore()
    acted = []

    async def act(job: Job) -> Any:
        while not job.inbox:
            await asyncio.sleep(0)
        (decision,) = job.inbox
        acted.append(decision["granted"])
        if len(acted) == 1:
            await asyncio.Event().wait()
        await job.commit("settled", consumed=[decision["id"]])
        assert not job.inbox
        return "done"

    worker = Host(acting(act), Line(store))
    task = new_task()
    await worker.dispatch(task)
    async with Host(store=store) as control:
        number = await control.post(task.id, {"type": "acme/approval", "granted": True})
        assert (await control.record(task.id)).inbox[0]["id"] == number
        while not acted:
            await asyncio.sleep(0.001)
        await crash(worker)
        assert (await control.record(task.id)).inbox, "a decision that nobody acted on is gone"
    async with Host(acting(act), store) as successor:
        assert (await successor.wait(task.id)).status is SUCCESS
        assert (await successor.record(task.id)).inbox == ()
    assert acted == [True, True]


@pytest.mark.rule("R12")
async def test_attempts_count_runs_without_progress(
    new_task: NewTask, acting: type[Acting], crash: Crash
) -> None:
    store = MemoryStore()
    task = new_task()
    first = Host(acting(forever), Line(store))
    await first.dispatch(task)
    assert (await store.load(task.id)).attempts == 1
    hosts = [first]
    for expected in (2, 3):
        await crash(hosts[-1])
        hosts.append(Host(acting(forever), Line(store), claims=False))
        await hosts[-1].claim(task.id)
        assert (await store.load(task.id)).attempts == expected
    await crash(hosts[-1])

    async def act(job: Job) -> Any:
        await job.commit("progress")
        await asyncio.Event().wait()

    async with Host(acting(act), store, claims=False) as last:
        await last.claim(task.id)
        while (await store.load(task.id)).step == 0:
            await asyncio.sleep(0)
        assert (await store.load(task.id)).attempts == 0


@pytest.mark.rule("R12")
async def test_a_task_whose_runs_keep_dying_is_set_aside(
    new_task: NewTask, acting: type[Acting], crash: Crash
) -> None:
    store = MemoryStore()
    task = new_task()
    begun = 0

    async def act(job: Job) -> Any:
        nonlocal begun
        begun += 1
        await asyncio.Event().wait()

    for attempt in range(1, 4):
        worker = Host(acting(act), Line(store), claims=False, max_attempts=3)
        await (worker.dispatch(task) if attempt == 1 else worker.claim(task.id))
        while begun < attempt:
            await asyncio.sleep(0)
        await crash(worker)
    async with Host(acting(act), store, max_attempts=3) as last:
        done = await last.wait(task.id)
    assert begun == 3
    assert done.failure is not None
    assert (done.failure.code, done.failure.metadata["attempts"]) == (
        "engine/attempts_exhausted", 3,
    )  # fmt: skip


@pytest.mark.rule("R12")
async def test_a_task_that_the_store_kept_from_running_is_not_blamed_alone(
    new_task: NewTask, acting: type[Acting], crash: Crash
) -> None:
    """Each acquisition is counted, and then the store refuses to read the parent."""

    class Refusing(MemoryStore):
        left = 0

        async def load_many(self, task_ids: Collection[str]) -> Mapping[str, Record]:
            if self.left and "parent" in task_ids:
                self.left -= 1
                raise StoreError("down")
            return await super().load_many(task_ids)

    now = [datetime(2030, 1, 1, tzinfo=UTC)]

    def clock() -> datetime:
        now[0] += timedelta(minutes=1)
        return now[0]

    store = Refusing()
    task = new_task()
    first = Host(acting(forever), Line(store), clock=clock)
    await first.spawn(task, "parent")
    await crash(first)
    store.left = 2
    async with Host(acting(forever), store, max_attempts=2, clock=clock) as last:
        done = await last.wait(task.id)
    assert store.left == 0
    assert done.failure is not None
    assert done.failure.code == "engine/attempts_exhausted"
    for reason in ("the process died", "cancelled from outside", "the store failed"):
        assert reason in done.failure.message


@pytest.mark.rule("R12")
async def test_a_run_that_commits_or_is_let_go_is_no_lost_attempt(
    new_task: NewTask, acting: type[Acting], crash: Crash
) -> None:
    store = MemoryStore()
    task = new_task()

    async def step_and_hang(job: Job) -> Any:
        await job.commit(job.task.id)
        await asyncio.Event().wait()

    worker = Host(acting(step_and_hang), Line(store), max_attempts=1)
    await worker.dispatch(task)
    for _ in range(3):
        while (await store.load(task.id)).attempts:
            await asyncio.sleep(0)
        await crash(worker)
        worker = Host(acting(step_and_hang), Line(store), claims=False, max_attempts=1)
        assert (await worker.claim(task.id)).effect == "claimed"
    while (await store.load(task.id)).attempts:
        await asyncio.sleep(0)
    await crash(worker)
    for _ in range(3):
        async with Host(acting(forever), store, claims=False, max_attempts=1, grace=0.0) as going:
            await going.claim(task.id)
    assert (await store.load(task.id)).task.status is RUNNING


@pytest.mark.parametrize("attempts", [0, -1])
async def test_a_limit_of_attempts_below_one_is_refused(attempts: int) -> None:
    with pytest.raises(InvalidValue, match="max_attempts"):
        Host(max_attempts=attempts)


@pytest.mark.rule("R15")
async def test_going_on_needs_the_state_and_the_history_from_its_cursor(
    new_task: NewTask, acting: type[Acting]
) -> None:
    pages = []

    async def act(job: Job) -> Any:
        state = job.state or {"cursor": None, "turn": 0}
        cursor = None if state["cursor"] is None else tuple(state["cursor"])
        pages.append([e.data["n"] for e in await job.history(cursor) if e.type == "acme.turn"])
        turn = state["turn"]
        if turn == 2:
            return "done"
        last = (await job.history())[-1].id
        assert last is not None
        await job.pause(
            {"cursor": list(last), "turn": turn + 1}, [{"type": "acme.turn", "n": turn}]
        )

    async with Host(acting(act)) as host:
        task = new_task()
        await host.dispatch(task)
        for _ in range(2):
            await host.wait(task.id, PAUSED)
            await host.resume(task.id)
        await host.wait(task.id)
        ids: list[Any] = [event.id async for event in host.stream(task.id)]
    assert pages == [[], [0], [1]]
    assert ids == sorted(set(ids))


@pytest.mark.rule("R15")
async def test_a_stream_from_an_event_gives_each_later_event_once(
    new_task: NewTask, acting: type[Acting]
) -> None:
    async def act(job: Job) -> Any:
        for n in range(30):
            await job.commit(n, [{"type": "acme.a", "n": n}, {"type": "acme.b", "n": n}])
            await asyncio.sleep(0)
        return "done"

    async with Host(acting(act)) as host:
        task = new_task()
        await host.dispatch(task)
        whole = [event async for event in host.stream(task.id)]
        middle = whole[25].id
        rest = [event async for event in host.stream(task.id, after=middle)]
    assert rest == whole[26:]
    assert [e.data["n"] for e in whole if e.type == "acme.a"] == list(range(30))


@pytest.mark.rule("R16")
async def test_a_change_holds_neither_the_input_nor_what_was_stored_before(
    new_task: NewTask, acting: type[Acting]
) -> None:
    changes = []

    class Watching(MemoryStore):
        async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
            await super().commit(before, after, events)
            text = encode_change(before, after)
            assert decode_change(before, text) == after
            changes.append(text)

    async def act(job: Job) -> Any:
        n = job.state or 0
        if n < 30:
            await job.pause(n + 1)
        return "done"

    store = Watching()
    async with Host(acting(act), store) as host:
        task = new_task(instructions="I" * 10_000, metadata={"given": "M" * 10_000})
        await host.dispatch(task)
        for n in range(30):
            await host.wait(task.id, PAUSED)
            await host.resume(task.id, f"extra {n} " + "E" * 200)
        done = await host.wait(task.id)
        assert len(encode_record(await host.record(done.id))) > 20_000
    assert len(done.supplements) == 30
    assert max(map(len, changes)) < 500


@pytest.mark.parametrize("more", [{}, {"type": "of its own"}], ids=str)
async def test_a_delta_keeps_the_moment_that_it_was_given(
    new_task: NewTask, acting: type[Acting], more: dict[str, Any]
) -> None:
    moment = datetime(2020, 1, 2, tzinfo=UTC)

    async def act(job: Job) -> None:
        job.emit(Event("run.delta", {"text": "then", **more}, moment))
        job.emit(Event("run.delta", {"text": "now", "channel": "other", **more}))

    async with Host(acting(act), MemoryStore()) as host:
        done = await host.run(new_task())
        told = [each async for each in host.stream(done.id) if each.type == "run.delta"]
    assert [(each.data["text"], each.at == moment) for each in told] == [
        ("then", True), ("now", False)
    ]  # fmt: skip
    assert all(each.data.get("type") == more.get("type") for each in told)
