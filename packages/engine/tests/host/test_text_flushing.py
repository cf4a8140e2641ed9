"""R20: the text in progress is stored while it streams, at a bounded pace and with nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import InvalidValue, TaskStatus
from agentic_kernel_engine import (
    InMemoryObserver,
    Job,
    MemoryStore,
    Record,
    StoreError,
    StoreTraits,
    UnknownOutcome,
)
from agentic_kernel_engine.events import Event, from_stored
from agentic_kernel_engine.host import text_flushing
from agentic_kernel_engine.host.parts import Parts
from agentic_kernel_engine.host.text_flushing import Flushing
from agentic_kernel_engine.texts import FURTHEST, Texts

from ..conftest import Acting, Crash, NewTask, TappedStore, Until
from ..crashing import Line

Host = partial(engine.Host, grace=0)
RUNNING = TaskStatus.RUNNING


class Waiting(MemoryStore):
    """A store whose writes suspend, as those of a disk do, with the highest count at once."""

    traits = StoreTraits()

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.001)
        self.now -= 1
        await super().commit(before, after, events)


def say(job: Job, text: str, **data: Any) -> None:
    job.emit({"type": "run.delta", "text": text, **data})


async def events_of(store: Any, task_id: str) -> list[Event]:
    return [from_stored(*each) for each in await store.events(task_id)]


async def text_of(store: Any, task_id: str) -> str:
    return Texts(await events_of(store, task_id)).text()


@pytest.fixture(params=[MemoryStore, Waiting])
def store(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.mark.rule("R20")
async def test_text_is_stored_while_it_streams_and_nothing_else_is(
    new_task: NewTask, acting: type[Acting], store: Any
) -> None:
    go_on = asyncio.Event()

    async def act(job: Job) -> Any:
        await job.commit({"n": 1}, [{"type": "acme.begun"}], progress=False)
        job.note("acme/note", 1)
        say(job, "Once ")
        say(job, "upon")
        job.emit({"type": "acme.progress"})
        say(job, " a time")
        await go_on.wait()

    task = new_task()
    async with Host(acting(act), store) as host:
        await host.dispatch(task)
        await host.post(task.id, {"type": "acme/approval"})
        before = await store.load(task.id)
        assert (before.step, before.attempts) == (1, 1)
        while await text_of(store, task.id) == "":
            await asyncio.sleep(0.001)
        after = await store.load(task.id)
        assert after == before.changed(version=before.version + 1, step=2), "a field moved"
        assert [event.type for event in await events_of(store, task.id)] == [
            "task.dispatched", "acme.begun", "task.decision_posted", "run.delta",
        ]  # fmt: skip
        assert await text_of(store, task.id) == "Once upon"
        go_on.set()
        done = await host.wait(task.id)
    assert done.metadata["acme/note"] == 1
    types = [event.type for event in await events_of(store, task.id)]
    assert types.count("run.delta") == 2
    assert types.index("acme.progress") == 4
    assert await text_of(store, task.id) == "Once upon a time"


@pytest.mark.rule("R20", "R11")
async def test_a_kill_and_a_stream_from_another_host_see_what_was_flushed(
    new_task: NewTask, acting: type[Acting], store: Any
) -> None:
    """Before, such a kill kept nothing, and such a stream saw nothing until the next commit."""

    async def act(job: Job) -> Any:
        for n in range(1_000_000):
            say(job, f"word{n} ")
            await asyncio.sleep(0.01)

    task = new_task()
    async with Host(acting(act), store) as host, Host(store=store, interval=0.01) as other:
        await host.dispatch(task)
        texts = Texts()
        async for event in other.stream(task.id):
            texts.take(event)
            if "word20 " in texts.text():
                break
        killed = (await other.kill(task.id)).snapshot
        kept = killed.metadata["test/partial_output"]
        assert kept.startswith("".join(f"word{n} " for n in range(21)))
        assert kept == await text_of(store, task.id)


@pytest.mark.rule("R20")
async def test_a_host_whose_runs_say_nothing_sets_no_timer(
    new_task: NewTask, acting: type[Acting], monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[Flushing] = []
    ring = Flushing._ring

    def counted(self: Flushing) -> None:
        rung.append(self)
        ring(self)

    monkeypatch.setattr(Flushing, "_ring", counted)
    spoken = asyncio.Event()

    async def act(job: Job) -> Any:
        job.emit({"type": "acme.progress"})
        await job.commit(1)
        if job.task.instructions == "speak":
            say(job, "a")
        spoken.set()
        await asyncio.Event().wait()

    async with Host(acting(act)) as host:
        await host.dispatch(new_task())
        await spoken.wait()
        await asyncio.sleep(2 * text_flushing.SHORTEST)
        assert not rung
        await host.dispatch(new_task(instructions="speak"))
        await asyncio.sleep(4 * text_flushing.SHORTEST)
        assert len(rung) == 1, "one text is stored by one round"


@pytest.mark.rule("R20")
async def test_one_round_serves_all_runs_at_the_same_time(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store = Waiting()

    async def act(job: Job) -> Any:
        say(job, "a")
        await asyncio.Event().wait()

    async with Host(acting(act), store) as host:
        tasks = [new_task() for _ in range(20)]
        for task in tasks:
            await host.dispatch(task)
        for task in tasks:
            while await text_of(store, task.id) == "":
                await asyncio.sleep(0.001)
        assert store.most == 20


class Sleepy:
    """A run whose flush takes a while."""

    task_id = "sleepy"
    record: Any = None

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.flushes = 0

    async def flush(self) -> None:
        self.flushes += 1
        await asyncio.sleep(self.seconds)


@pytest.mark.rule("R20")
@pytest.mark.parametrize(
    ("seconds", "least", "most"), [(0.0, 0.15, 0.151), (0.02, 0.4, 1.0), (0.12, 2.0, 2.0)]
)
async def test_the_pace_follows_the_duration_of_a_round(
    seconds: float, least: float, most: float
) -> None:
    rounds = Flushing(Parts(Waiting(), lambda: None))  # type: ignore[arg-type, return-value]
    assert rounds.interval == 0.15
    run = Sleepy(seconds)
    rounds.add(run)
    while not run.flushes or rounds._busy:
        await asyncio.sleep(0.005)
    assert least <= rounds.interval <= most
    rounds.add(run)
    rounds.stop()
    await asyncio.sleep(0.2)
    rounds.add(run)
    await asyncio.sleep(0.2)
    assert run.flushes == 1, "a round began after the stop"


@pytest.mark.rule("R20")
async def test_text_that_cannot_be_stored_yet_is_tried_again(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore, until: Until,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    async def down(after: Record) -> None:
        raise StoreError("down")

    go_on = asyncio.Event()

    async def act(job: Job) -> Any:
        say(job, "Once")
        await go_on.wait()
        return "done"

    tapped.before_commit = down
    async with Host(acting(act), tapped) as host:
        task = new_task()
        await host.dispatch(task)
        await until(lambda: tapped.count("commit") >= 2)
        assert caplog.text.count("cannot be stored yet, and is tried again: down") == 1
        tapped.before_commit = None
        while await text_of(tapped, task.id) == "":
            await asyncio.sleep(0.001)
        go_on.set()
        assert (await host.wait(task.id)).result == "done"
    assert [e.type for e in await events_of(tapped, task.id)].count("run.delta") == 1


@pytest.mark.rule("R20", "R5")
@pytest.mark.parametrize("landed", [True, False])
async def test_a_flush_of_unknown_outcome_is_settled_by_reading_back(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore, landed: bool
) -> None:
    lost = 0

    async def silent(after: Record) -> None:
        nonlocal lost
        lost += 1
        tapped.before_commit = tapped.after_commit = None
        raise UnknownOutcome("no answer")

    async def act(job: Job) -> Any:
        if landed:
            tapped.after_commit = silent
        else:
            tapped.before_commit = silent
        say(job, "Once")
        while not lost:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        say(job, " upon")
        await job.commit(1)

    async with Host(acting(act), tapped) as host:
        done = await host.run(new_task())
    texts = [e.data for e in await events_of(tapped, done.id) if e.type == "run.delta"]
    assert texts == [{"text": "Once", "at": 0}, {"text": " upon", "at": 4}]
    assert (await tapped.load(done.id)).step == 3


@pytest.mark.rule("R20", "R1")
async def test_a_flush_comes_on_top_of_a_decision_and_never_over_another_owner(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    met: list[str] = []
    task = new_task()

    async def posted(after: Record) -> None:
        tapped.before_commit = None
        await other.post(task.id, {"type": "acme/approval"})
        met.append("posted")

    async def taken(after: Record) -> None:
        tapped.before_commit = None
        current = await tapped.load(task.id)
        stolen = current.changed(version=current.version + 1, owner="thief:1")
        await MemoryStore.commit(tapped, current, stolen)
        met.append("taken")

    async def act(job: Job) -> Any:
        tapped.before_commit = posted
        say(job, "mine ")
        while met != ["posted"] or await text_of(tapped, task.id) != "mine ":
            await asyncio.sleep(0.001)
        assert [entry["type"] for entry in job.inbox] == ["acme/approval"]
        tapped.before_commit = taken
        say(job, "no more")
        await asyncio.Event().wait()

    async with Host(store=tapped) as other, Host(acting(act), tapped, claims=False) as host:
        await host.dispatch(task)
        while host._live.current:
            await asyncio.sleep(0.001)
    assert met == ["posted", "taken"]
    assert await text_of(tapped, task.id) == "mine "
    assert (await tapped.load(task.id)).owner == "thief:1"


@pytest.mark.rule("R20", "R7")
async def test_a_flush_does_not_wait_for_a_commit_and_a_commit_waits_for_a_flush(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    tapped.traits = StoreTraits()
    order: list[str] = []
    gate = asyncio.Event()

    async def held(after: Record) -> None:
        order.append(f"step {after.step}")
        await gate.wait()

    async def act(job: Job) -> Any:
        tapped.before_commit = held
        say(job, "a")
        while not order:
            await asyncio.sleep(0.001)
        say(job, "b")
        committing = asyncio.create_task(job.commit("state"))
        await asyncio.sleep(2.5 * text_flushing.SHORTEST)
        assert order == ["step 1"], "two writes of one run were under way"
        gate.set()
        await committing
        order.append("committed")
        gate.clear()
        say(job, "c")
        committing = asyncio.create_task(job.commit("more"))
        say(job, "d")
        await asyncio.sleep(2.5 * text_flushing.SHORTEST)
        assert order[-1] == "step 3", "a flush began during a commit"
        gate.set()
        await committing

    async with Host(acting(act), tapped) as host:
        done = await host.run(new_task())
    assert await text_of(tapped, done.id) == "abcd"
    places = [e.data["at"] for e in await events_of(tapped, done.id) if e.type == "run.delta"]
    assert places == sorted(set(places))


@pytest.mark.rule("R20", "R15")
async def test_a_cursor_of_a_commit_is_right_after_flushes(
    new_task: NewTask, acting: type[Acting], store: Any
) -> None:
    async def act(job: Job) -> Any:
        cursor = None
        for n in range(3):
            say(job, f"{n}")
            while not (await text_of(store, job.task.id)).endswith(str(n)):
                await asyncio.sleep(0.001)
            cursor = await job.commit(n, [{"type": "acme.said", "n": n}])
            assert await job.history(cursor) == []
            assert (await job.history())[-1].id == cursor

    async with Host(acting(act), store) as host:
        assert (await host.run(new_task())).status is TaskStatus.SUCCESS


@pytest.mark.rule("R20", "R12")
async def test_a_run_that_only_spoke_has_made_no_progress_and_begins_anew(
    new_task: NewTask, acting: type[Acting], crash: Crash
) -> None:
    store, entries = MemoryStore(), []

    async def act(job: Job) -> Any:
        entries.append((job.state, job.fresh))
        say(job, "Hello ")
        if len(entries) == 3:
            say(job, "world")
            return "done"
        await asyncio.Event().wait()

    task = new_task()
    hosts = [Host(acting(act), Line(store), claims=False, max_attempts=3)]
    await hosts[0].dispatch(task)
    for attempts in (1, 2):
        while (await store.load(task.id)).step < attempts:
            await asyncio.sleep(0.001)
        assert (await store.load(task.id)).attempts == attempts
        await crash(hosts[-1])
        hosts.append(Host(acting(act), Line(store), claims=False, max_attempts=3))
        await hosts[-1].claim(task.id)
    done = await hosts[-1].wait(task.id)
    assert done.result == "done"
    assert entries == [(None, True), (None, False), (None, False)]
    assert await text_of(store, task.id) == "Hello world"
    await hosts[-1].close()


@pytest.mark.rule("R20")
async def test_a_run_that_leaves_or_has_ended_is_not_flushed(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    spoken = asyncio.Event()

    async def act(job: Job) -> Any:
        say(job, "a")
        spoken.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(3 * text_flushing.SHORTEST)

    async with Host(acting(act), tapped) as host:
        task = new_task()
        await host.dispatch(task)
        await spoken.wait()
        run = host._live.current[task.id]
        run.leave("released")
        await asyncio.sleep(2 * text_flushing.SHORTEST)
        assert tapped.count("commit") == 0
        run.end("lost")
        host._live.flushing.add(run)
        await asyncio.sleep(2 * text_flushing.SHORTEST)
        assert tapped.count("commit") == 0


@pytest.mark.rule("R20")
async def test_flushes_make_room_in_the_buffer(
    new_task: NewTask, acting: type[Acting], store: Any
) -> None:
    part = "x" * 8_000_000

    async def act(job: Job) -> Any:
        job.note("acme/kept", 1)
        for n in range(10):
            say(job, part)
            while (await store.load(job.task.id)).step == n:
                await asyncio.sleep(0.01)
        return "done"

    async with Host(acting(act), store) as host:
        assert (await host.run(new_task())).result == "done"


@pytest.mark.rule("R20")
async def test_an_observer_is_told_of_flushed_text_once_and_with_its_place(
    new_task: NewTask, acting: type[Acting], store: Any
) -> None:
    observer = InMemoryObserver()

    async def act(job: Job) -> Any:
        for piece in ("a", "bc", "d"):
            say(job, piece)
            while not (await text_of(store, job.task.id)).endswith(piece):
                await asyncio.sleep(0.001)

    async with Host(acting(act), store, observer=observer) as host:
        await host.run(new_task())
    told = [(event.id, event.data) for _, event in observer.events if event.type == "run.delta"]
    assert told == [
        (None, {"text": "a", "at": 0}),
        (None, {"text": "bc", "at": 1}),
        (None, {"text": "d", "at": 3}),
    ]


# Places


@pytest.mark.rule("R20")
async def test_places_are_counted_for_each_channel_and_anew_after_a_turn(
    new_task: NewTask, acting: type[Acting]
) -> None:
    async def act(job: Job) -> Any:
        say(job, "one")
        say(job, "hm", channel="reasoning")
        say(job, "!")
        job.emit(Event("run.turn", {}))
        job.emit(Event("run.delta", {"text": "two"}))
        await job.commit(1, [Event("run.delta", {"text": " and"}), Event("acme.said", {})])
        say(job, " more")
        await job.commit(2, [Event("run.turn", {}), Event("run.delta", {"text": "three"})])
        say(job, "Three", at=0)
        say(job, " and on")
        say(job, "no place", channel=7)
        say(job, "odd", kind="x")

    async with Host(acting(act)) as host:
        done = await host.run(new_task())
        events = [e for e in await events_of(host.store, done.id) if e.type.startswith("run.")]
    data = [dict(event.data) for event in events]
    assert data == [
        {"text": "one", "at": 0},
        {"text": "hm", "channel": "reasoning", "at": 0},
        {"text": "!", "at": 3},
        {},
        {"text": "two", "at": 0},
        {"text": " and", "at": 3},
        {"text": " more", "at": 7},
        {},
        {"text": "three", "at": 0},
        {"text": "Three and on", "at": 0},
        {"text": "no place", "channel": 7},
        {"text": "odd", "kind": "x", "at": 12},
    ]


@pytest.mark.rule("R20")
@pytest.mark.parametrize("at", [-1, 1.5, "0", None, True, FURTHEST + 1])
async def test_a_place_that_is_none_is_refused(
    new_task: NewTask, acting: type[Acting], at: Any
) -> None:
    async def act(job: Job) -> Any:
        with pytest.raises(InvalidValue, match=r"event\.data\.at"):
            say(job, "a", at=at)
        with pytest.raises(InvalidValue, match=r"event\.data\.at"):
            await job.commit(1, [Event("run.delta", {"text": "a", "at": at})])

    async with Host(acting(act)) as host:
        assert (await host.run(new_task())).status is TaskStatus.SUCCESS


@pytest.mark.parametrize("text", ["nul \0", "lone \ud800", "\\u0000 is no NUL", 'quote " é \n'])
async def test_a_plain_delta_is_checked_like_every_event(
    new_task: NewTask, acting: type[Acting], text: str
) -> None:
    bad = "\0" in text or "\ud800" in text

    async def act(job: Job) -> Any:
        for channel in ({}, {"channel": "c"}):
            if bad:
                with pytest.raises(InvalidValue, match="text"):
                    say(job, text, **channel)
            else:
                say(job, text, **channel)
        with pytest.raises(InvalidValue, match="channel"):
            say(job, "a", channel="\0")

    async with Host(acting(act)) as host:
        done = await host.run(new_task())
        texts = Texts(await events_of(host.store, done.id))
    assert (texts.text(), texts.text("c")) == (("", "") if bad else (text, text))


@pytest.mark.rule("R7")
async def test_the_end_of_a_run_waits_for_the_flush_that_is_under_way(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore, until: Until
) -> None:
    begun: list[TaskStatus] = []
    flushed, go_on = asyncio.Event(), asyncio.Event()

    async def act(job: Job) -> Any:
        say(job, "Once")
        await flushed.wait()

    async def hold(after: Record) -> None:
        begun.append(after.task.status)
        if len(begun) == 1:
            flushed.set()
            await go_on.wait()

    task = new_task()
    async with Host(acting(act), tapped) as host:
        tapped.before_commit = hold
        await host.dispatch(task)
        run = host._live.current[task.id]
        await until(lambda: run.root is not None and run.root.done())
        await asyncio.sleep(0.01)
        assert begun == [RUNNING], "two commits of one run at once"
        go_on.set()
        await host.wait(task.id)
        assert begun == [RUNNING, TaskStatus.SUCCESS]
        assert await text_of(tapped, task.id) == "Once"


@pytest.mark.parametrize("data", [[], ["text"], 5, "text", None], ids=str)
async def test_a_delta_whose_data_is_no_object_is_refused(
    new_task: NewTask, acting: type[Acting], data: Any
) -> None:
    async def act(job: Job) -> Any:
        with pytest.raises(InvalidValue, match=r"event\.data"):
            job.emit(Event("run.delta", data))

    async with Host(acting(act)) as host:
        assert (await host.run(new_task())).status is TaskStatus.SUCCESS
