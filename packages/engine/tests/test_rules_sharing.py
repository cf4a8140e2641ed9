"""R8–R16: several hosts on one store, what waits, what is taken over, what is stored."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import CannotStart, Kill, TaskExists, TaskStatus, apply
from agentic_kernel_engine import InMemoryObserver, Job, MemoryStore, Record
from agentic_kernel_engine.codec import decode_change, encode_change, encode_record
from agentic_kernel_engine.mutators import successor

from .conftest import Acting, Crash, NewTask, TappedStore, Until

Host = partial(engine.Host, grace=0)
PAUSED, RUNNING, SUCCESS = TaskStatus.PAUSED, TaskStatus.RUNNING, TaskStatus.SUCCESS
CANCELLED = TaskStatus.CANCELLED


async def forever(job: Job) -> Any:
    await asyncio.Event().wait()


@pytest.mark.rule("R8")
async def test_a_remote_kill_reaches_a_run_that_never_commits(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store = MemoryStore()
    unwound = asyncio.Event()

    async def act(job: Job) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            unwound.set()

    async with Host(acting(act), store, interval=0.01) as worker, Host(store=store) as control:
        task = new_task()
        await worker.dispatch(task)
        assert (await control.kill(task.id)).changed
        await unwound.wait()


@pytest.mark.rule("R8")
async def test_one_look_serves_all_the_runs_of_a_host(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    async with Host(acting(forever), tapped, interval=60) as host:
        for _ in range(50):
            await host.dispatch(new_task())
        before = tapped.count("changed"), tapped.count("load")
        await host._watch.notice()
        assert tapped.count("changed") - before[0] == 1
        assert tapped.count("load") == before[1], "an unchanged record was loaded"


@pytest.mark.rule("R9")
async def test_drain_leaves_tasks_running_and_claimable_and_another_host_goes_on(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store = MemoryStore()
    stepping = asyncio.Event()

    async def act(job: Job) -> Any:
        n = job.state or 0
        while n < 3 or job.task.id in held:
            n += 1
            stepping.set()
            await asyncio.sleep(0)
            await job.checkpoint(n)
        return n

    task = new_task()
    held = {task.id}
    async with Host(acting(act), store) as first:
        await first.dispatch(task)
        await stepping.wait()
        await first.drain()
        record = await first.record(task.id)
        assert record.task.status is RUNNING
        assert record.owner is None
        assert record.step > 0
        with pytest.raises(CannotStart, match="draining"):
            await first.dispatch(new_task())
    held.clear()
    async with Host(acting(act), store) as second:
        done = await second.wait(task.id)
    assert done.status is SUCCESS
    assert done.result >= record.step


@pytest.mark.rule("R9")
async def test_drain_with_pause_pauses(new_task: NewTask, acting: type[Acting]) -> None:
    async def act(job: Job) -> Any:
        while True:
            await asyncio.sleep(0)
            await job.checkpoint("here")

    async with Host(acting(act)) as host:
        tasks = [new_task() for _ in range(5)]
        for task in tasks:
            await host.dispatch(task)
        await host.drain(pause=True)
        records = [await host.record(task.id) for task in tasks]
    assert {record.task.status for record in records} == {PAUSED}
    assert {record.owner for record in records} == {None}


@pytest.mark.rule("R9")
@pytest.mark.parametrize("pause", [True, False])
async def test_drain_lets_go_of_runs_that_reach_no_safe_point(
    new_task: NewTask, acting: type[Acting], pause: bool
) -> None:
    async with Host(acting(forever), unwind_timeout=1) as host:
        task = new_task()
        await host.dispatch(task)
        await asyncio.sleep(0)
        await host.drain(pause=pause, timeout=0.01)
        record = await host.record(task.id)
    assert record.task.status is (PAUSED if pause else RUNNING)
    assert record.owner is None


@pytest.mark.rule("R9")
async def test_a_control_planes_resume_is_taken_up_by_a_host_that_serves_the_kind(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store = MemoryStore()

    async def act(job: Job) -> Any:
        if not job.task.supplements:
            await job.pause(None)
        return list(job.task.supplements)

    async with (
        Host(acting(act), store, runtime_kinds={"test"}, interval=0.01) as worker,
        Host(acting(forever), store, runtime_kinds={"other"}, interval=0.01) as other,
        Host(store=store) as control,
    ):
        task = new_task()
        await worker.dispatch(task)
        await control.wait(task.id, PAUSED)
        assert (await other.resume(task.id, "go")).changed
        done = await control.wait(task.id)
        assert done.result == ["go"]
        events = [event async for event in control.stream(task.id)]
    claims = [event.data["by"] for event in events if event.type == "task.claimed"]
    assert claims == [worker.name]


@pytest.mark.rule("R9")
async def test_dispatch_takes_its_slot_before_anything_is_durable(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    async with Host(acting(forever), tapped, max_in_flight=1) as host:
        await host.dispatch(new_task())
        writes = len([call for call in tapped.calls if call in ("insert", "commit")])
        refused = new_task()
        with pytest.raises(CannotStart, match="max_in_flight is 1"):
            await host.dispatch(refused)
        assert len([call for call in tapped.calls if call in ("insert", "commit")]) == writes
        assert not await host.get_many([refused.id])


@pytest.mark.rule("R9")
async def test_run_waits_for_a_slot_and_a_cancelled_wait_takes_none(
    new_task: NewTask, acting: type[Acting]
) -> None:
    at_once = []

    async def act(job: Job) -> Any:
        at_once.append(len(host._runs.live))
        await asyncio.sleep(0)
        return "done"

    async with Host(acting(act), max_in_flight=2) as host:
        waits = [asyncio.ensure_future(host.run(new_task())) for _ in range(10)]
        await asyncio.sleep(0)
        waits[5].cancel()
        results: list[Any] = await asyncio.gather(*waits, return_exceptions=True)
        assert isinstance(results[5], asyncio.CancelledError)
        assert all(task.status is SUCCESS for task in results[:5] + results[6:])
        assert max(at_once) <= 2
        assert (await host.run(new_task())).status is SUCCESS


@pytest.mark.rule("R9")
async def test_a_child_uses_its_parents_slot(new_task: NewTask, acting: type[Acting]) -> None:
    async def act(job: Job) -> Any:
        if job.task.instructions == "child":
            return "from the child"
        child = new_task(instructions="child")
        await job.commit({"child": child.id})
        await job.spawn(child)
        return (await job.join(child.id)).result

    async with Host(acting(act), max_in_flight=1) as host:
        assert (await host.run(new_task())).result == "from the child"


@pytest.mark.rule("R10")
async def test_resume_withdraws_a_pause_that_waits_and_drops_the_extra(
    new_task: NewTask, acting: type[Acting]
) -> None:
    go = asyncio.Event()

    async def act(job: Job) -> Any:
        await go.wait()
        await job.checkpoint("past")
        return list(job.task.supplements)

    async with Host(acting(act)) as host:
        task = new_task()
        await host.dispatch(task)
        await host.pause(task.id)
        receipt = await host.resume(task.id, "dropped")
        assert receipt.effect == "withdrawn"
        assert not receipt.changed
        assert not receipt.snapshot.supplements
        go.set()
        done = await host.wait(task.id)
    assert done.status is SUCCESS
    assert done.result == []


@pytest.mark.rule("R10")
async def test_without_a_living_owner_the_pauser_commits(
    new_task: NewTask, acting: type[Acting], crash: Crash
) -> None:
    store = MemoryStore()
    worker = Host(acting(forever), store)
    task = new_task()
    await worker.dispatch(task)
    await crash(worker)
    async with Host(store=store) as control:
        assert (await control.pause(task.id)).changed
        record = await control.record(task.id)
    assert record.task.status is PAUSED
    assert record.owner is None


@pytest.mark.rule("R10")
async def test_entry_with_a_pause_that_waits_commits_it_before_executing(
    new_task: NewTask, acting: type[Acting], crash: Crash
) -> None:
    store = MemoryStore()
    worker = Host(acting(forever), store, interval=60)
    task = new_task()
    await worker.dispatch(task)
    assert (await worker.pause(task.id)).effect == "requested"
    await crash(worker)
    entered = []

    async def act(job: Job) -> Any:
        entered.append(job)

    async with Host(acting(act), store, claims=False) as successor:
        assert (await successor.claim(task.id)).effect == "claimed"
        record = await successor.record(task.id)
        assert record.task.status is PAUSED
        assert record.inbox == ()
        assert not entered


@pytest.mark.rule("R10")
async def test_a_result_before_the_pause_commit_wins(
    new_task: NewTask, acting: type[Acting]
) -> None:
    go = asyncio.Event()

    async def act(job: Job) -> Any:
        await go.wait()
        return "first"

    async with Host(acting(act)) as host:
        task = new_task()
        await host.dispatch(task)
        await host.pause(task.id)
        go.set()
        done = await host.wait(task.id)
    assert done.result == "first"


@pytest.mark.rule("R10")
async def test_a_result_after_the_pause_commit_is_dropped_with_an_event(
    new_task: NewTask, acting: type[Acting], until: Until
) -> None:
    observer = InMemoryObserver()
    entries = []
    hold = asyncio.Event()

    async def act(job: Job) -> Any:
        entries.append(job)
        if len(entries) > 1:
            await hold.wait()
            return "of the next run"
        with contextlib.suppress(asyncio.CancelledError):
            await job.pause("kept")
        return "late"

    async with Host(acting(act), observer=observer) as host:
        task = new_task()
        await host.dispatch(task)
        await until(lambda: "run.result_dropped" in observer.types(task.id))
        record = await host.record(task.id)
        assert record.task.status is PAUSED
        assert record.state == b'"kept"'
        await host.resume(task.id)
        hold.set()
        assert (await host.wait(task.id)).result == "of the next run"
        types = [event.type async for event in host.stream(task.id)]
    assert types.count("run.result_dropped") == 1


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

    worker = Host(acting(act), store)
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
async def test_attempts_count_entries_without_progress(
    new_task: NewTask, acting: type[Acting], crash: Crash
) -> None:
    store = MemoryStore()
    task = new_task()
    first = Host(acting(forever), store)
    await first.dispatch(task)
    hosts = [first]
    for expected in (1, 2):
        await crash(hosts[-1])
        hosts.append(Host(acting(forever), store, claims=False))
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


@pytest.mark.rule("R13")
async def test_a_child_recorded_by_the_prepare_is_spawned_once(
    new_task: NewTask, acting: type[Acting], crash: Crash
) -> None:
    store = MemoryStore()
    spawned = []
    gate = asyncio.Event()

    async def act(job: Job) -> Any:
        if job.task.instructions == "child":
            await gate.wait()
            return "child's"
        state = job.state
        if state is None:
            state = {"child": new_task().id}
            await job.commit(state)
        child = new_task(id=state["child"], instructions="child")
        spawned.append((await job.spawn(child)).changed)
        return (await job.join(child.id)).result

    first = Host(acting(act), store)
    task = new_task()
    await first.dispatch(task)
    while not spawned:
        await asyncio.sleep(0.001)
    await crash(first)
    gate.set()
    async with Host(acting(act), store) as second:
        assert (await second.wait(task.id)).result == "child's"
    assert spawned == [True, False]


@pytest.mark.rule("R13")
async def test_an_id_of_somebody_elses_task_is_no_child(
    new_task: NewTask, acting: type[Acting]
) -> None:
    other = new_task(instructions="other")

    async def act(job: Job) -> Any:
        if job.task.id == other.id:
            return "other"
        await job.spawn(new_task(id=other.id))

    async with Host(acting(act)) as host:
        await host.run(other)
        failed = await host.run(new_task())
    assert failed.failure is not None
    assert failed.failure.metadata["type"] == TaskExists.__name__


@pytest.mark.rule("R13")
async def test_kill_sweeps_the_children_and_theirs(
    new_task: NewTask, acting: type[Acting], until: Until
) -> None:
    depth = {"root": "child", "child": "grandchild"}
    born = []

    async def act(job: Job) -> Any:
        born.append(job.task.id)
        below = depth.get(job.task.instructions)
        if below:
            child = new_task(instructions=below)
            await job.commit(child.id)
            await job.spawn(child)
        await asyncio.Event().wait()

    async with Host(acting(act)) as host:
        task = new_task(instructions="root")
        await host.dispatch(task)
        await until(lambda: len(born) == 3)
        await host.kill(task.id)
        assert {(await host.get(id)).status for id in born} == {CANCELLED}


@pytest.mark.rule("R13")
async def test_a_child_checks_its_parent_on_entry(
    new_task: NewTask, acting: type[Acting], crash: Crash
) -> None:
    store = MemoryStore()
    born = []

    async def act(job: Job) -> Any:
        born.append(job.task.id)
        if job.task.instructions == "root":
            child = new_task(instructions="child")
            await job.commit(child.id)
            await job.spawn(child)
        await asyncio.Event().wait()

    first = Host(acting(act), store)
    task = new_task(instructions="root")
    await first.dispatch(task)
    while len(born) < 2:
        await asyncio.sleep(0.001)
    await crash(first)
    # The kill lands and its sweep does not: only the parent's own record changes.
    record = await store.load(task.id)
    killed = apply(record.task, Kill(), record.task.created_at)
    await store.commit(record, successor(record, task=killed, owner=None))
    async with Host(acting(act), store, interval=0.01) as second:
        assert (await second.wait(born[1])).status is CANCELLED
    assert len(born) == 2, "the orphan was executed"


@pytest.mark.rule("R14")
async def test_a_living_owner_is_not_taken_over_and_a_dead_one_is_by_one_claimer(
    new_task: NewTask, acting: type[Acting], crash: Crash
) -> None:
    store = MemoryStore()
    entries = []

    async def act(job: Job) -> Any:
        entries.append(job)
        await asyncio.Event().wait()

    owner = Host(acting(act), store)
    task = new_task()
    await owner.dispatch(task)
    claimers = [Host(acting(act), store, claims=False) for _ in range(5)]
    refused = await asyncio.gather(*(host.claim(task.id) for host in claimers))
    assert {receipt.effect for receipt in refused} == {"none"}
    await crash(owner)
    receipts = await asyncio.gather(*(host.claim(task.id) for host in claimers))
    assert sorted(receipt.effect for receipt in receipts) == ["claimed"] + ["none"] * 4
    await asyncio.sleep(0)
    assert len(entries) == 2
    for host in claimers:
        await host.close()


@pytest.mark.rule("R14")
async def test_a_host_is_alive_before_the_first_commit_that_names_it(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    async with Host(acting(forever), tapped) as host:
        await host.dispatch(new_task())
    assert tapped.calls.index("join") < tapped.calls.index("insert")


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


class SlowReads(MemoryStore):
    """A store whose reads take longer than a run needs from one commit to the next."""

    async def load(self, task_id: str) -> Record:
        record = await super().load(task_id)
        for _ in range(20):
            await asyncio.sleep(0)
        return record


@pytest.mark.rule("R7")
@pytest.mark.parametrize("whose", ["the run's own host", "another host"])
async def test_a_run_that_commits_without_a_pause_starves_nobody(
    new_task: NewTask, acting: type[Acting], whose: str
) -> None:
    store = SlowReads()

    async def act(job: Job) -> Any:
        while True:
            await asyncio.sleep(0)
            await job.commit("on and on")

    async with Host(acting(act), store) as worker, Host(store=store) as other:
        task = new_task()
        await worker.dispatch(task)
        caller = worker if whose == "the run's own host" else other
        async with asyncio.timeout(5):
            assert (await caller.pause(task.id)).effect == "requested"
            assert (await caller.resume(task.id)).effect == "withdrawn"
            assert (await caller.kill(task.id)).changed
