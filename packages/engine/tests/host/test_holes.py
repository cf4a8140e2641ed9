"""Small guarantees of the Host that hold only if each of several lines is right."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import Complete, Dispatch, Kill, Pause, Task, TaskStatus, apply
from agentic_kernel_engine import (
    Job,
    MemoryStore,
    Principal,
    Record,
    StoreError,
    TaskFailed,
    UnknownOutcome,
)
from agentic_kernel_engine.events import Event
from agentic_kernel_engine.host.partial_output import partial_output
from agentic_kernel_engine.record import owner_name
from agentic_kernel_engine.waiting import WAITING_FOR, request_of

from ..conftest import Acting, LookedAt, NewTask, TappedStore, Until

Host = partial(engine.Host, grace=0, interval=0.01)
PAUSED = TaskStatus.PAUSED
CANCELLED = TaskStatus.CANCELLED


class Stubborn:
    """A run that does not unwind until it may."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.told = asyncio.Event()
        """It was told to unwind."""
        self.release = asyncio.Event()
        self.gone = False

    async def stay(self) -> None:
        self.begun.set()
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.told.set()
        self.gone = True


@pytest.mark.rule("R5")
async def test_a_commit_without_events_is_judged_by_its_step(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    """Its write is lost, and another host's takes its version: the state is still stored."""
    lost = 0

    async def act(job: Job) -> Any:
        await job.commit({"n": 1})
        stored.append((await tapped.load(job.task.id)).state)
        return "done"

    async with Host(acting(act), tapped) as host, Host(store=tapped) as other:

        async def lose(after: Record) -> None:
            nonlocal lost
            if after.step == 1 and not lost:
                lost = 1
                await other.post(after.task.id, {"type": "acme/x"})
                raise UnknownOutcome("no answer")

        stored: list[bytes | None] = []
        tapped.before_commit = lose
        assert (await host.run(new_task())).result == "done"
    assert lost == 1
    assert stored == [b'{"n":1}']


@pytest.mark.rule("R5")
async def test_a_claim_of_unknown_outcome_is_found_behind_a_later_write(
    new_task: NewTask, acting: type[Acting]
) -> None:
    class Answerless(MemoryStore):
        async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Any:
            await super().claim(task_id, host, events)
            await other.post(task_id, {"type": "acme/x"})
            raise UnknownOutcome("no answer")

    async def act(job: Job) -> Any:
        if job.fresh:
            await asyncio.Event().wait()
        return "done"

    store = Answerless()
    async with Host(acting(act), store, claims=False) as first:
        await first.dispatch(task := new_task())
    async with Host(store=store) as other, Host(acting(act), store, claims=False) as host:
        assert (await host.claim(task.id)).effect == "claimed"
        assert (await host.wait(task.id)).result == "done"


@pytest.mark.rule("R1")
@pytest.mark.parametrize("noticed", [True, False], ids=["noticed", "not noticed yet"])
async def test_a_kill_writes_nothing_of_a_run_that_has_lost_the_task(
    new_task: NewTask, acting: type[Acting], noticed: bool
) -> None:
    store, old, new = MemoryStore(), Stubborn(), Stubborn()

    async def act(job: Job) -> Any:
        job.note("acme/old", True)
        job.emit({"type": "run.delta", "text": "of the old run"})
        await old.stay()

    async def succeed(job: Job) -> Any:
        await new.stay()

    async with Host(acting(act), store, interval=0.01 if noticed else 60) as first:
        await first.dispatch(task := new_task())
        await old.begun.wait()
        await store.leave(first.name)
        async with Host(acting(succeed), store, claims=False) as second:
            await second.claim(task.id)
            await new.begun.wait()
            if noticed:
                await old.told.wait()
            assert (await first.kill(task.id)).changed
            killed = await second.get(task.id)
            types = [event.type for event in (await second.outcome(task.id)).events]
            new.release.set()
        old.release.set()
    assert killed.status is CANCELLED
    assert not killed.noted
    assert types == ["task.dispatched", "task.claimed", "task.killed"]


@pytest.mark.rule("R15")
async def test_a_stream_ends_with_the_end_whenever_that_comes(
    new_task: NewTask, acting: type[Acting]
) -> None:
    go_on = asyncio.Event()

    async def act(job: Job) -> Any:
        await job.commit(None, [{"type": "acme.one"}, {"type": "acme.two"}])
        await go_on.wait()
        return "done"

    async with Host(acting(act)) as host:
        await host.dispatch(task := new_task())
        seen = []
        async for event in host.stream(task.id):
            seen.append(event.type)
            if event.type == "acme.one":
                go_on.set()
                await host.wait(task.id)  # It ends between two events of one page.
    assert seen == ["task.dispatched", "acme.one", "acme.two", "task.completed"]


@pytest.mark.rule("R7")
async def test_what_is_noted_and_emitted_during_a_commit_is_in_the_next_one(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    held, release = asyncio.Event(), asyncio.Event()

    async def hold(after: Record) -> None:
        if after.step == 1:
            held.set()
            await release.wait()

    tapped.before_commit = hold
    steps: list[tuple[Any, list[str]]] = []

    async def look(job: Job) -> None:
        record = await tapped.load(job.task.id)
        notes = sorted(record.task.noted), record.task.metadata.get("acme/same")
        texts = [e.data["text"] for e in await job.history() if e.type == "run.delta"]
        steps.append((notes, texts))

    async def act(job: Job) -> Any:
        job.emit({"type": "run.delta", "text": "a"})
        job.note("acme/first", 1)
        job.note("acme/same", 1)
        async with asyncio.TaskGroup() as group:
            group.create_task(job.commit(1))
            await held.wait()
            job.emit({"type": "run.delta", "text": "b"})
            job.emit({"type": "run.delta", "text": "c"})
            job.note("acme/late", 1)
            job.note("acme/same", 2)
            release.set()
        await look(job)
        await job.commit(2)
        await look(job)

    async with Host(acting(act), tapped) as host:
        await host.run(new_task())
    assert steps == [
        ((["acme/first", "acme/same"], 1), ["a"]),
        ((["acme/first", "acme/late", "acme/same"], 2), ["a", "bc"]),
    ]


@pytest.mark.rule("R8")
async def test_a_foreign_kill_wakes_those_who_wait_though_the_run_does_not_unwind(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store, run = MemoryStore(), Stubborn()

    async def act(job: Job) -> Any:
        await run.stay()

    async with Host(acting(act), store) as host, Host(store=store) as other:
        await host.dispatch(task := new_task())
        waiting = asyncio.create_task(host.wait(task.id))
        await run.begun.wait()
        await other.kill(task.id)
        assert (await waiting).status is CANCELLED
        assert not run.gone
        run.release.set()


@pytest.mark.rule("R12")
async def test_a_resume_takes_the_moment_of_waking_away(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store = MemoryStore()

    async def act(job: Job) -> Any:
        await job.pause(None, due=datetime.now(UTC) + timedelta(days=1))

    async with Host(acting(act), store) as host:
        await host.dispatch(task := new_task())
        await host.wait(task.id, PAUSED)
    async with Host(store=store) as plane:
        assert (await store.load(task.id)).due_at is not None
        assert (await plane.resume(task.id)).changed
        record = await store.load(task.id)
    assert (record.due_at, record.owner, record.attempts) == (None, None, 0)


@pytest.mark.rule("R13")
async def test_a_paused_task_that_is_killed_while_its_run_unwinds_is_forsaken_once(
    new_task: NewTask, acting: type[Acting], until: Until
) -> None:
    forsaken: list[str] = []
    run = Stubborn()

    class Leaving(Acting):
        async def on_killed(self, task: Task, state: Any, events: Any) -> None:
            forsaken.append(task.id)

    async def act(job: Job) -> Any:
        try:
            await job.pause(None)
        finally:
            await run.stay()

    async with Host(Leaving(act)) as host:
        await host.dispatch(task := new_task())
        await run.begun.wait()
        assert (await host.get(task.id)).status is PAUSED
        assert (await host.kill(task.id)).changed
        await until(lambda: forsaken)
        run.release.set()
    assert forsaken == [task.id]


@pytest.mark.rule("R13")
async def test_a_task_that_is_completed_from_outside_is_not_forsaken(
    new_task: NewTask, acting: type[Acting]
) -> None:
    forsaken: list[str] = []

    class Leaving(Acting):
        async def on_killed(self, task: Task, state: Any, events: Any) -> None:
            forsaken.append(task.id)

    async def act(job: Job) -> Any:
        await asyncio.Event().wait()

    async with Host(Leaving(act)) as host:
        await host.dispatch(task := new_task())
        assert (await host.complete(task.id, 1)).changed
        assert not (await host.claim(task.id)).changed
    assert forsaken == []


@pytest.mark.rule("R9")
async def test_a_drain_begins_the_attempts_anew(new_task: NewTask, acting: type[Acting]) -> None:
    store, begun = MemoryStore(), asyncio.Event()

    async def act(job: Job) -> Any:
        begun.set()
        await asyncio.Event().wait()

    async with Host(acting(act), store) as host:
        await host.dispatch(task := new_task())
        await begun.wait()
        assert (await store.load(task.id)).attempts == 1
    record = await store.load(task.id)
    assert (record.owner, record.attempts) == (None, 0)


def test_input_is_no_note_of_the_tasks_own(new_task: NewTask) -> None:
    waits = {"kind": "question", "digest": "d"}
    given = new_task(metadata={"engine/waiting_for": waits, "test/partial_output": "mine"})
    said = [Event("run.delta", {"text": "x"})]
    assert request_of(given) is None
    assert partial_output(given, said) == {}
    noted = apply(new_task(), Kill(notes={"engine/waiting_for": waits}), datetime.now(UTC))
    assert request_of(noted) is not None
    assert partial_output(noted, said) == {"test/partial_output": "x"}


@pytest.mark.rule("R3")
async def test_a_resume_bound_to_an_earlier_pause_withdraws_no_later_request(
    new_task: NewTask, acting: type[Acting]
) -> None:
    go = asyncio.Event()

    async def act(job: Job) -> Any:
        if job.state is None:
            await job.pause(1)
        await go.wait()
        await job.checkpoint(2)

    async with Host(acting(act)) as host:
        await host.dispatch(task := new_task())
        await host.wait(task.id, PAUSED)
        shown = (await host.record(task.id)).version
        await host.resume(task.id, at_version=shown)
        assert (await host.pause(task.id)).effect == "requested"
        assert (await host.resume(task.id, at_version=shown)).effect == "none"
        go.set()
        assert (await host.wait(task.id, PAUSED)).status is PAUSED


@pytest.mark.rule("R13")
async def test_a_run_whose_task_another_host_killed_knows_that_and_is_forsaken(
    new_task: NewTask, acting: type[Acting], until: Until
) -> None:
    store, begun = MemoryStore(), asyncio.Event()
    killed: list[bool] = []
    forsaken: list[str] = []

    class Leaving(Acting):
        async def on_killed(self, task: Task, state: Any, events: Any) -> None:
            forsaken.append(task.id)

    async def act(job: Job) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            killed.append(job.killed)

    async with Host(Leaving(act), store) as host, Host(store=store) as plane:
        await host.dispatch(task := new_task())
        await begun.wait()
        await plane.kill(task.id)
        await until(lambda: forsaken)
    assert (killed, forsaken) == ([True], [task.id])


@pytest.mark.rule("R19")
async def test_no_commit_of_a_run_and_no_end_drops_what_is_written_once(
    new_task: NewTask,
) -> None:
    store = MemoryStore()
    task = apply(new_task(), Dispatch(), datetime.now(UTC))
    given = Record(task, parent="p", terms=b'{"tenant":"acme"}', realm="acme", form="loop/3")
    await store.insert(given)

    async def act(job: Job) -> Any:
        await job.commit(1)
        kept.append(written_once(await store.load(task.id)))
        return "done"

    def written_once(record: Record) -> tuple[Any, ...]:
        return record.parent, record.terms, record.realm, record.form

    class Reader(Acting):
        reads = ("loop/3",)

    kept: list[tuple[Any, ...]] = []
    async with Host(Reader(act), store, acts_for=Principal) as host:
        assert (await host.wait(task.id)).result == "done"
    assert [*kept, written_once(await store.load(task.id))] == 2 * [written_once(given)]


@pytest.mark.rule("R11")
@pytest.mark.parametrize(
    "ends",
    [
        "done", object(), TaskFailed("acme/no", "no"), RuntimeError("no"), StoreError("no"),
        asyncio.CancelledError(),
    ],
    ids=lambda ends: type(ends).__name__,
)  # fmt: skip
async def test_whatever_ends_a_run_its_notes_are_kept(
    new_task: NewTask, acting: type[Acting], ends: Any
) -> None:
    async def act(job: Job) -> Any:
        job.note("acme/seen", 1)
        if isinstance(ends, BaseException):
            raise ends
        return ends

    async with Host(acting(act)) as host:
        ended = await host.run(new_task())
    assert ended.status.terminal
    assert ended.metadata["acme/seen"] == 1


@pytest.mark.rule("R3")
async def test_waking_resumes_no_pause_but_the_one_that_was_due(
    new_task: NewTask, acting: type[Acting], until: Until
) -> None:
    entries: list[Job] = []

    class Overtaken(LookedAt):
        async def find(self, **filters: Any) -> Any:
            page = await super().find(**filters)
            if filters.get("due") is not None and page:
                await other.resume(task.id)
                await other.wait(task.id, PAUSED)
            return page

    async def act(job: Job) -> Any:
        entries.append(job)
        await job.pause(None, due=datetime.now(UTC) if len(entries) == 1 else None)

    store, task = Overtaken(), new_task()
    async with Host(acting(act), store, interval=60, claims=False) as other:
        await other.dispatch(task)
        await other.wait(task.id, PAUSED)
        rounds = store.rounds
        async with Host(acting(act), store, interval=0.001):
            await until(lambda: len(entries) == 2 and store.rounds > rounds + 2)
        assert (await store.load(task.id)).task.status is PAUSED
    assert len(entries) == 2


@pytest.mark.rule("R9")
async def test_a_restart_that_comes_too_late_gives_its_slot_back(
    new_task: NewTask, acting: type[Acting], until: Until
) -> None:
    task = apply(new_task(), Dispatch(), datetime.now(UTC))
    loads = 0

    class Overtaken(MemoryStore):
        async def load(self, task_id: str) -> Record:
            nonlocal loads
            loads += 1
            if loads == 2:  # The first look found it; the one that decides does not.
                await other.kill(task_id)
            return await super().load(task_id)

    async def act(job: Job) -> Any:
        return "done"

    store = Overtaken()
    one = Host(acting(act), store, interval=0.001, max_in_flight=1)
    async with one as host, Host(store=store, interval=60) as other, asyncio.timeout(30):
        await host.run(new_task())
        await store.insert(Record(task, owner=owner_name(host.name, 1)))
        loads = 0
        await until(lambda: loads >= 2)
        assert (await host.run(new_task())).result == "done"
        assert (await store.load(task.id)).task.status is CANCELLED


class Silent(MemoryStore):
    """Tells no Host of a change, until it may."""

    tells = False
    loads = 0

    async def load(self, task_id: str) -> Record:
        self.loads += 1
        return await super().load(task_id)

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        return await super().changed(versions) if self.tells else {}


@pytest.mark.rule("R1")
async def test_the_run_of_a_task_that_was_killed_and_pruned_elsewhere_is_ended(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store, begun, unwound = Silent(), asyncio.Event(), asyncio.Event()

    async def act(job: Job) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            unwound.set()

    async with Host(acting(act), store) as host, Host(store=store) as plane:
        await host.dispatch(task := new_task())
        await begun.wait()
        await plane.kill(task.id)
        assert await store.prune(datetime.now(UTC) + timedelta(days=1)) == 1
        store.tells = True
        await unwound.wait()


@pytest.mark.rule("R8")
async def test_of_several_who_wait_the_one_that_has_seen_least_is_woken(
    new_task: NewTask, acting: type[Acting], until: Until
) -> None:
    store, go = Silent(), asyncio.Event()
    seen: list[str] = []

    async def act(job: Job) -> Any:
        await go.wait()
        await job.pause(None)

    async def follow(task_id: str) -> None:
        async for event in plane.stream(task_id):
            seen.append(event.type)

    async with Host(acting(act), store) as host, Host(store=store) as plane:
        await host.dispatch(task := new_task())
        early = asyncio.create_task(plane.wait(task.id, PAUSED))
        await until(lambda: store.loads)
        go.set()
        await host.wait(task.id, PAUSED)
        late = asyncio.create_task(follow(task.id))
        await until(lambda: seen[-1:] == ["task.paused"])
        store.tells = True
        await early
        late.cancel()


@pytest.mark.rule("R13")
async def test_a_sweep_kills_children_that_are_paused(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store, now = MemoryStore(), datetime.now(UTC)
    running = apply(new_task(), Dispatch(), now)
    paused = apply(apply(new_task(), Dispatch(), now), Pause(), now)
    parent = apply(new_task(), Dispatch(), now)
    for task in running, paused:
        await store.insert(Record(task, parent=parent.id))
    await store.insert(Record(parent))
    async with engine.Host(store=store, interval=60) as plane:
        await plane.kill(parent.id)
        swept = [(await store.load(task.id)).task.status for task in (running, paused)]
    assert swept == [CANCELLED, CANCELLED]


@pytest.mark.rule("R3")
async def test_a_parent_that_waits_for_one_child_is_not_resumed_for_another(
    new_task: NewTask,
) -> None:
    store, now = MemoryStore(), datetime.now(UTC)
    waits = {"kind": "question", "digest": "d", "children": ["asks"]}
    parent = apply(apply(new_task(), Dispatch(), now), Pause(notes={WAITING_FOR: waits}), now)
    await store.insert(Record(parent))
    for child, notes in (("other", {}), ("asks", {WAITING_FOR: {**waits, "children": []}})):
        task = apply(apply(new_task(id=child), Dispatch(), now), Pause(notes=notes), now)
        await store.insert(Record(task, parent=parent.id))
    async with engine.Host(store=store, interval=60) as plane:
        for child, status in (("other", PAUSED), ("asks", TaskStatus.RUNNING)):
            await plane.resume(child)
            assert (await plane.get(parent.id)).status is status


@pytest.mark.rule("R10")
async def test_a_pause_that_is_committed_for_a_dead_owner_takes_its_request_along(
    new_task: NewTask,
) -> None:
    """Else the resume would withdraw the request, and the Task stay paused."""
    store = MemoryStore()
    task = apply(new_task(), Dispatch(), datetime.now(UTC))
    await store.join("dying")
    await store.insert(Record(task, owner=owner_name("dying", 1)))
    async with engine.Host(store=store, interval=60) as plane:
        assert (await plane.pause(task.id)).effect == "requested"
        await store.leave("dying")
        assert (await plane.pause(task.id)).changed
        assert (await plane.record(task.id)).inbox == ()
        assert (await plane.resume(task.id)).changed


@pytest.mark.rule("R6", "R10")
async def test_a_pause_that_lands_while_its_checkpoint_is_cancelled_ends_the_run(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store, ended = TappedStore(), asyncio.Event()

    async def hangs(after: Record) -> None:
        if after.task.status is PAUSED:
            await asyncio.Event().wait()

    async def act(job: Job) -> Any:
        try:
            for _ in range(20):
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await job.checkpoint("again")
                await asyncio.sleep(0)
        finally:
            ended.set()

    store.after_commit = hangs
    async with Host(acting(act), store, interval=60) as host:
        await host.dispatch(task := new_task())
        assert (await host.pause(task.id)).effect == "requested"
        async with asyncio.timeout(5):
            await ended.wait()
        record = await store.load(task.id)
        assert (record.task.status, record.owner) == (PAUSED, None)


@pytest.mark.rule("R13")
@pytest.mark.parametrize("end", [Complete(None), Kill()], ids=["ended well", "killed"])
async def test_a_child_outlives_a_parent_that_ended_and_none_that_was_killed(
    end: Any, new_task: NewTask, acting: type[Acting]
) -> None:
    async def act(job: Job) -> Any:
        return "its own"

    store, now = MemoryStore(), datetime.now(UTC)
    parent = apply(apply(new_task(), Dispatch(), now), end, now)
    child = apply(apply(new_task(), Dispatch(), now), Pause(), now)
    await store.insert(Record(parent))
    await store.insert(Record(child, parent=parent.id))
    async with Host(acting(act), store) as host:
        await host.resume(child.id)
        done = await host.wait(child.id)
    assert done.status is (CANCELLED if isinstance(end, Kill) else TaskStatus.SUCCESS)
