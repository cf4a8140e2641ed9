"""R21: whatever a run produces, its Task ends, and every attempt is counted."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import Dispatch, Failure, InvalidValue, Task, TaskStatus, apply
from agentic_kernel_engine import Event, Job, MemoryStore, Record, StoreError, TaskFailed
from agentic_kernel_engine.events import from_stored
from agentic_kernel_engine.host.emitted import PIECE
from agentic_kernel_engine.host.run import BUFFER
from agentic_kernel_engine.host.takeover import Backoff

from ..conftest import Acting, Crash, NewTask, TappedStore, Until
from ..crashing import Line

Host = partial(engine.Host, grace=0, interval=0.01)
EURO = "€" * 1_000_000


class Own(BaseException):
    """As some frameworks derive theirs."""


class Raising(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Exiting(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Numbered(Exception):
    def __str__(self) -> Any:
        return 7


class Shrinking(dict[str, Any]):
    """A mapping whose items cannot be read."""

    def items(self) -> Any:
        raise SystemExit("no items")


async def events_of(host: engine.Host, task_id: str) -> list[Event]:
    return list((await host.outcome(task_id)).events)


FAULTS: dict[str, tuple[BaseException, str]] = {
    "an exception": (ValueError("odd"), "engine/unhandled_error"),
    "a BaseException": (Own("odd"), "engine/unhandled_error"),
    "SystemExit": (SystemExit(3), "engine/unhandled_error"),
    "GeneratorExit": (GeneratorExit(), "engine/unhandled_error"),
    "a group of them": (BaseExceptionGroup("g", [Own()]), "engine/unhandled_error"),
    "a cancellation nobody asked for": (asyncio.CancelledError(), "engine/cancelled"),
    "StopAsyncIteration": (StopAsyncIteration(), "engine/unhandled_error"),
    "MemoryError": (MemoryError(), "engine/unhandled_error"),
    "a text that raises": (Raising(), "engine/unhandled_error"),
    "a text that exits": (Exiting(), "engine/unhandled_error"),
    "a text that is a number": (Numbered(), "engine/unhandled_error"),
    "a long text": (ValueError("x" * 9_000_000), "engine/unhandled_error"),
    "a long message": (TaskFailed("a/b", "x" * 9_000_000), "a/b"),
    "a long message of escapes": (TaskFailed("a/b", "\x01" * 9_000_000), "a/b"),
    "a long code": (TaskFailed("a/" + "b" * 9_000_000, "c"), "engine/bad_result"),
    "a code of another type": (TaskFailed(7, "c"), "engine/bad_result"),  # type: ignore[arg-type]
    "a message of another type": (TaskFailed("a/b", b"c"), "engine/bad_result"),  # type: ignore[arg-type]
    "metadata of another type": (TaskFailed("a/b", "c", [1]), "engine/bad_result"),  # type: ignore[arg-type]
    "long metadata": (TaskFailed("a/b", "c", {"x": "x" * 9_000_000}), "engine/bad_result"),
    "metadata that exit": (
        TaskFailed("a/b", "c", Shrinking(x=Shrinking())), "engine/unhandled_error",
    ),
    "a store's error": (StoreError("x" * 9_000_000), "engine/store_error"),
}  # fmt: skip


@pytest.mark.rule("R21")
@pytest.mark.parametrize(("fault", "code"), FAULTS.values(), ids=FAULTS)
async def test_every_fault_ends_its_task_at_the_first_attempt(
    new_task: NewTask, acting: type[Acting], fault: BaseException, code: str
) -> None:
    runs = 0

    async def act(job: Job) -> Any:
        nonlocal runs
        runs += 1
        raise fault

    async with Host(acting(act)) as host:
        done = await host.run(new_task())
        (failed,) = [e for e in await events_of(host, done.id) if e.type == "task.failed"]
    assert runs == 1
    assert done.failure is not None
    assert done.failure.code == failed.data["code"] == code


@pytest.mark.rule("R21")
@pytest.mark.parametrize("fault", [Own(), SystemExit(3), GeneratorExit()], ids=repr)
async def test_a_fault_in_a_thread_of_the_substrate_ends_its_task(
    new_task: NewTask, acting: type[Acting], fault: BaseException
) -> None:
    def work() -> None:
        raise fault

    async def act(job: Job) -> Any:
        await asyncio.to_thread(work)

    async with Host(acting(act)) as host:
        done = await host.run(new_task())
    assert done.failure is not None
    assert done.failure.metadata["type"] == type(fault).__name__


@pytest.mark.rule("R21")
async def test_a_message_that_is_too_long_is_shortened_and_says_so(
    new_task: NewTask, acting: type[Acting]
) -> None:
    async def act(job: Job) -> Any:
        raise TaskFailed("a/b", "begin" + "x" * 9_000_000, {"kept": True})

    async with Host(acting(act)) as host:
        done = await host.run(new_task())
    assert done.failure is not None
    assert done.failure.message.startswith("begin")
    assert "of 9,000,005 characters" in done.failure.message
    assert done.failure.metadata == {"kept": True}


class Refusing(MemoryStore):
    """A store with a limit of its own: it takes no commit of more than so many bytes."""

    def __init__(self, most: int, fault: Exception) -> None:
        super().__init__()
        self.most = most
        self._fault = fault

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        notes = {key: after.task.metadata[key] for key in after.task.noted}
        said = [notes, after.task.result]
        if sum(map(len, events)) + len(json.dumps(said, default=dict)) > self.most:
            raise self._fault
        await super().commit(before, after, events)


UNSTORABLE: dict[str, Callable[[Job], Any]] = {
    "the text in progress": lambda job: job.emit({"type": "run.delta", "text": "x" * 20_000}),
    "events": lambda job: job.emit({"type": "acme.said", "text": "x" * 20_000}),
    "notes": lambda job: job.note("acme/x", "x" * 20_000),
    "the result": lambda job: "x" * 20_000,
}


@pytest.mark.rule("R21")
@pytest.mark.parametrize("produce", UNSTORABLE.values(), ids=UNSTORABLE)
async def test_an_end_that_cannot_be_stored_is_replaced_by_one_that_can(
    new_task: NewTask, acting: type[Acting], produce: Callable[[Job], Any],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    store = Refusing(10_000, TypeError("no form"))
    runs = 0

    async def act(job: Job) -> Any:
        nonlocal runs
        runs += 1
        return produce(job)

    async with Host(acting(act), store) as host:
        done = await host.run(new_task())
        types = [event.type for event in await events_of(host, done.id)]
    assert runs == 1
    assert done.failure is not None
    assert done.failure.code == "engine/unstorable_end"
    assert not done.noted
    assert types == ["task.dispatched", "task.failed"]
    assert "no form" in caplog.text


@pytest.mark.rule("R21")
@pytest.mark.parametrize("fault", [OSError("reset"), TypeError("odd"), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("landed", [False, True])
async def test_a_fault_of_the_store_that_passes_loses_no_end(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore, fault: BaseException,
    landed: bool,
) -> None:  # fmt: skip
    faults = [fault, fault]

    async def fail(after: Record) -> None:
        if after.task.status.terminal and faults:
            raise faults.pop()

    async def act(job: Job) -> Any:
        job.note("acme/cost", 7)
        job.emit({"type": "acme/charged"})
        return "done"

    if landed:
        tapped.after_commit = fail
    else:
        tapped.before_commit = fail
    async with Host(acting(act), tapped) as host, asyncio.timeout(10):
        done = await host.run(new_task())
        types = [event.type for event in await events_of(host, done.id)]
    assert (done.result, done.metadata["acme/cost"]) == ("done", 7)
    assert types == ["task.dispatched", "acme/charged", "task.completed"]


@pytest.mark.rule("R21")
@pytest.mark.parametrize("fault", [TypeError("no form"), StoreError("too long")], ids=repr)
@pytest.mark.parametrize("verb", ["kill", "fail"])
async def test_an_end_from_outside_leaves_out_what_cannot_be_stored(
    new_task: NewTask,
    acting: type[Acting],
    caplog: pytest.LogCaptureFixture,
    fault: Exception,
    verb: str,
) -> None:
    filled = asyncio.Event()

    async def act(job: Job) -> Any:
        job.emit({"type": "run.delta", "text": "x" * 20_000})
        job.note("acme/x", "x" * 20_000)
        filled.set()
        await asyncio.Event().wait()

    async with Host(acting(act), Refusing(10_000, fault)) as host:
        task = new_task()
        await host.dispatch(task)
        await filled.wait()
        if verb == "kill":
            assert (await host.kill(task.id)).changed
        else:
            assert (await host.fail(task.id, Failure("a/b", "c"))).changed
        assert (await host.get(task.id)).status.terminal
    assert ("its run: too long" in caplog.text) is isinstance(fault, StoreError)


@pytest.mark.rule("R11")
@pytest.mark.parametrize(
    ("verb", "call"),
    [("complete", "commit"), ("fail", "commit"), ("kill", "commit"), ("kill", "events")],
)
@pytest.mark.parametrize("times", [1, 2])
async def test_an_end_from_outside_keeps_texts_and_notes_if_the_store_is_busy_for_a_moment(
    new_task: NewTask,
    acting: type[Acting],
    caplog: pytest.LogCaptureFixture,
    call: str,
    verb: str,
    times: int,
) -> None:
    filled = asyncio.Event()

    async def act(job: Job) -> Any:
        await job.checkpoint(1, [{"type": "run.delta", "text": "first half, "}])
        job.note("acme/cost", 7)
        job.emit({"type": "acme/charged"})
        job.emit({"type": "run.delta", "text": "second half"})
        filled.set()
        await asyncio.Event().wait()

    class Busy(MemoryStore):
        async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
            busy("commit")
            await super().commit(before, after, events)

        async def events(self, *given: Any) -> Any:
            busy("events")
            return await super().events(*given)

    def busy(met: str) -> None:
        nonlocal times
        if filled.is_set() and met == call and times:
            times -= 1
            raise StoreError("busy; try again")

    async with engine.Host(acting(act), Busy(), grace=0, interval=60) as host:
        task = new_task()
        await host.dispatch(task)
        await filled.wait()
        if verb == "kill":
            await host.kill(task.id)
        elif verb == "fail":
            await host.fail(task.id, Failure("a/b", "c"))
        else:
            await host.complete(task.id, "done")
        notes = dict((await host.get(task.id)).metadata)
        types = [event.type async for event in host.stream(task.id)]
    assert notes.pop("acme/cost") == 7
    assert notes == ({"test/partial_output": "first half, second half"} if verb == "kill" else {})
    assert types[-3:-1] == ["acme/charged", "run.delta"]
    assert not caplog.records


@pytest.mark.rule("R21")
async def test_a_task_whose_history_cannot_be_read_can_be_killed(
    new_task: NewTask, acting: type[Acting]
) -> None:
    class Damaged(MemoryStore):
        async def events(self, *_: Any, **__: Any) -> Any:
            return [((1, 0), b'{"type": 7}')]

    async def act(job: Job) -> Any:
        await asyncio.Event().wait()

    async with Host(acting(act), Damaged()) as host:
        task = new_task()
        await host.dispatch(task)
        assert (await host.kill(task.id)).changed
        assert (await host.get(task.id)).status is TaskStatus.CANCELLED


@pytest.mark.rule("R21")
async def test_a_kill_wins_while_the_end_of_a_run_waits_for_the_store(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore, until: Until
) -> None:
    forsaken: list[str] = []

    class Leaving(Acting):
        async def on_killed(self, task: Task, state: Any, events: Any) -> None:
            forsaken.append(task.id)

    async def down(after: Record) -> None:
        if after.task.status is TaskStatus.SUCCESS:
            raise StoreError("down")

    tapped.before_commit = down

    async def act(job: Job) -> Any:
        return "done"

    async with Host(Leaving(act), tapped) as host:
        task = new_task()
        await host.dispatch(task)
        await until(lambda: tapped.count("commit") > 1)
        assert (await host.kill(task.id)).changed
        await until(lambda: forsaken)
        assert (await host.get(task.id)).status is TaskStatus.CANCELLED
        assert forsaken == [task.id]


# Text in progress


@pytest.mark.rule("R21")
async def test_text_in_progress_of_any_length_is_stored_in_pieces(
    new_task: NewTask, acting: type[Acting]
) -> None:
    async def act(job: Job) -> Any:
        for _ in range(3):
            job.emit({"type": "run.delta", "text": EURO})
        for _ in range(40_000):
            job.emit({"type": "run.delta", "text": "\x01" * 10})
        return "done"

    async with Host(acting(act)) as host:
        done = await host.run(new_task())
        deltas = [e.data["text"] for e in await events_of(host, done.id) if e.type == "run.delta"]
        lengths = [len(text) for _, text in await host.store.events(done.id)]
    assert done.result == "done"
    assert "".join(deltas) == EURO * 3 + "\x01" * 400_000
    assert len(deltas) == 3 + 3
    assert max(lengths[-4:]) <= PIECE


@pytest.mark.rule("R21")
async def test_a_delta_that_is_changed_after_it_was_emitted_stays_as_it_was(
    new_task: NewTask, acting: type[Acting]
) -> None:
    async def act(job: Job) -> Any:
        data: dict[str, Any] = {"text": "a", "channel": "side"}
        job.emit(Event("run.delta", data))
        job.emit(Event("run.delta", {"text": "b", "channel": "side"}))
        data["text"] = object()
        return "done"

    async with Host(acting(act)) as host:
        done = await host.run(new_task())
        deltas = [e.data for e in await events_of(host, done.id) if e.type == "run.delta"]
    assert deltas == [{"text": "ab", "channel": "side", "at": 0}]


async def test_what_is_emitted_and_noted_until_a_commit_has_a_limit(
    new_task: NewTask, acting: type[Acting]
) -> None:
    part = "x" * 8_000_000

    async def act(job: Job) -> Any:
        for _ in range(2):
            for _ in range(BUFFER // len(part)):
                job.emit({"type": "acme.said", "text": part})
            with pytest.raises(InvalidValue, match="commit first"):
                job.emit({"type": "acme.said", "text": part})
            with pytest.raises(InvalidValue, match="commit first"):
                job.note("acme/x", part)
            await job.commit(None)
        return "done"

    async with Host(acting(act)) as host:
        done = await host.run(new_task())
    assert done.result == "done", done.failure


# Moments


class Lost(tzinfo):
    def utcoffset(self, _: Any) -> timedelta:
        raise ValueError("no offset")

    def dst(self, _: Any) -> None:
        return None

    def tzname(self, _: Any) -> str:
        return "lost"


EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-14))
MOMENTS: dict[str, Any] = {
    "the last moment in the west": datetime(9999, 12, 31, 23, 59, 59, tzinfo=WEST),
    "the first moment in the east": datetime(1, 1, 1, tzinfo=EAST),
    "the last moment": datetime.max.replace(tzinfo=UTC),
    "the first moment": datetime.min.replace(tzinfo=UTC),
    "naive": datetime(2030, 1, 1),
    "a text": "2030-01-01T00:00:00Z",
    "a number": 7,
    "a zone that raises": datetime(2030, 1, 1, tzinfo=Lost()),
}


@pytest.mark.rule("R21")
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
async def test_a_moment_that_cannot_be_read_everywhere_is_refused(
    new_task: NewTask, acting: type[Acting], moment: Any
) -> None:
    async def act(job: Job) -> Any:
        with pytest.raises(InvalidValue, match="due"):
            await job.pause(None, due=moment)
        with pytest.raises(InvalidValue, match=r"event\.at"):
            job.emit(Event("acme.said", {}, moment))
        with pytest.raises(InvalidValue, match=r"events\[0\]\.at"):
            await job.commit(None, [Event("acme.said", {}, moment)])
        return "done"

    async with Host(acting(act)) as host:
        done = await host.run(new_task())
    assert done.result == "done", done.failure


@pytest.mark.rule("R21")
@pytest.mark.parametrize("year", [2, 9998])
@pytest.mark.parametrize("zone", [EAST, WEST], ids=str)
async def test_a_moment_far_away_is_kept_in_utc(
    new_task: NewTask, acting: type[Acting], year: int, zone: timezone
) -> None:
    moment = datetime(year, 6, 1, tzinfo=zone)

    async def act(job: Job) -> Any:
        job.emit(Event("acme.said", {}, moment))
        await job.pause(None, due=moment)

    async with Host(acting(act), claims=False) as host:
        task = new_task()
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        record = await host.record(task.id)
        (said,) = [event for event in await events_of(host, task.id) if event.type == "acme.said"]
    assert record.due_at == moment
    assert record.due_at.tzinfo is UTC
    assert said.at == moment
    for far in (EAST, WEST):
        assert said.at.astimezone(far) == moment


@pytest.mark.parametrize("at", [-(1 << 63), (1 << 63) - 1, 253_402_300_799_999_999])
def test_an_event_of_an_earlier_version_is_read_in_every_zone(at: int) -> None:
    event = from_stored((1, 0), b'{"type":"x","at":%d,"data":{}}' % at)
    assert event.at is not None
    for far in (EAST, WEST):
        event.at.astimezone(far)


# Attempts


@pytest.mark.rule("R21")
async def test_a_run_cancelled_from_outside_counts_as_an_attempt(
    new_task: NewTask, acting: type[Acting]
) -> None:
    runs = 0

    async def act(job: Job) -> Any:
        nonlocal runs
        runs += 1
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    now = [datetime(2030, 1, 1, tzinfo=UTC)]

    def clock() -> datetime:
        now[0] += timedelta(seconds=1)
        return now[0]

    async with Host(acting(act), max_attempts=3, clock=clock) as host:
        done = await host.run(new_task())
    assert runs == 3
    assert done.failure is not None
    assert done.failure.code == "engine/attempts_exhausted"


@pytest.mark.rule("R21")
async def test_a_task_that_its_own_host_lost_is_acquired_anew_and_counted(
    new_task: NewTask, acting: type[Acting], until: Until
) -> None:
    """As if the end of a run could not be committed and nothing else had noticed."""
    store = MemoryStore()
    owners: list[str | None] = []

    async def act(job: Job) -> Any:
        owners.append((await store.load(job.task.id)).owner)
        await asyncio.Event().wait()

    async with Host(acting(act), store) as host:
        task = new_task()
        await host.dispatch(task)
        for attempt in (2, 3):
            await until(lambda: len(owners) == attempt - 1)  # noqa: B023
            run = host._live.current[task.id]
            assert run.root is not None
            run.ended = "lost"
            run.root.cancel()
            await until(lambda: len(owners) == attempt)  # noqa: B023
            assert (await store.load(task.id)).attempts == attempt
    assert len(set(owners)) == 3
    types = [from_stored(None, text).type for _, text in await store.events(task.id)]
    assert types.count("task.claimed") == 2


@pytest.mark.rule("R21")
async def test_a_task_that_its_own_host_lost_waits_for_its_next_attempt(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore, until: Until
) -> None:
    """The polling looks again and again, and starts the run when the wait is over."""
    now = [datetime(2030, 1, 1, tzinfo=UTC)]
    owners: list[str | None] = []

    async def act(job: Job) -> Any:
        owners.append((await tapped.load(job.task.id)).owner)
        await asyncio.Event().wait()

    async with Host(acting(act), tapped, clock=lambda: now[0], interval=0.001) as host:
        task = new_task()
        await host.dispatch(task)
        await until(lambda: len(owners) == 1)
        run = host._live.current[task.id]
        assert run.root is not None
        run.ended = "lost"
        run.root.cancel()
        tapped.rounds = 0
        await until(lambda: tapped.rounds >= 10)
        assert len(owners) == 1, "begun before its wait was over"
        now[0] += timedelta(milliseconds=100)
        await until(lambda: len(owners) == 2)


@pytest.mark.rule("C7")
async def test_a_run_takes_up_no_record_that_is_older_than_its_own(
    new_task: NewTask, acting: type[Acting], until: Until
) -> None:
    """News from another thread, or a slow read, may come late."""
    go = asyncio.Event()

    async def act(job: Job) -> Any:
        await job.checkpoint("one")
        await go.wait()
        await job.checkpoint("two")
        return "done"

    store = MemoryStore()
    async with Host(acting(act), store) as host:
        task = new_task()
        await host.dispatch(task)
        run = host._live.current[task.id]
        first = run.record
        await until(lambda: run.record.state == b'"one"')
        run.absorb(first)
        assert run.record.state == b'"one"'
        go.set()
        assert (await host.wait(task.id)).result == "done"


@pytest.mark.rule("R21")
def test_a_host_waits_longer_before_each_further_attempt() -> None:
    now = [datetime(2030, 1, 1, tzinfo=UTC)]
    backoff = Backoff(lambda: now[0])
    waited = []
    for attempts in range(13):
        record = Record(running(), owner="gone:1", attempts=attempts)
        seconds = 0.0
        while not backoff.over(record):
            now[0] += timedelta(milliseconds=50)
            seconds += 0.05
        waited.append(round(seconds, 2))
    assert waited == [0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30]


@pytest.mark.rule("R21")
def test_the_earliest_wait_that_is_over_rings_once() -> None:
    now = [datetime(2030, 1, 1, tzinfo=UTC)]
    backoff = Backoff(lambda: now[0])
    assert not backoff.rings()
    for attempts in (3, 2, 4):  # They wait for 0.4, 0.2 and 0.8 seconds.
        assert not backoff.over(Record(running(), owner="gone:1", attempts=attempts))
    rang = []
    for _ in range(10):
        now[0] += timedelta(milliseconds=100)
        rang.append(backoff.rings())
    assert rang == [False, True, *[False] * 8]


@pytest.mark.rule("R21")
async def test_a_task_whose_run_died_is_taken_up_when_its_wait_is_over(
    new_task: NewTask, acting: type[Acting], crash: Crash, tapped: TappedStore, until: Until
) -> None:
    now = [datetime(2030, 1, 1, tzinfo=UTC)]

    async def forever(job: Job) -> Any:
        await asyncio.Event().wait()

    first = Host(acting(forever), Line(tapped))
    task = new_task()
    await first.dispatch(task)
    await crash(first)
    tapped.rounds = 0
    async with Host(acting(forever), tapped, clock=lambda: now[0], interval=0.001):
        await until(lambda: tapped.rounds >= 2)
        now[0] += timedelta(milliseconds=99)
        await until(lambda: tapped.rounds >= 10)
        assert tapped.count("claim") == 0
        now[0] += timedelta(milliseconds=1)
        await until(lambda: tapped.count("claim") == 1)
    assert (await tapped.load(task.id)).attempts == 0, "it was let go on purpose"


def running() -> Task:
    task = Task.new(summary="", instructions="", runtime_kind="test", id="t")
    return apply(task, Dispatch(), datetime.now(UTC))


# Observers


@pytest.mark.rule("R21")
@pytest.mark.parametrize("fault", [
    ValueError(), Own(), SystemExit(3), GeneratorExit(), asyncio.CancelledError(), Raising(),
], ids=repr)  # fmt: skip
async def test_nothing_that_an_observer_raises_reaches_a_run(
    new_task: NewTask, acting: type[Acting], fault: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def observe(self, task_id: str, event: Event) -> None:
            raise fault

    async def act(job: Job) -> Any:
        job.emit({"type": "acme.said"})
        await job.commit(None)
        return "done"

    memory = engine.InMemoryObserver()
    both = engine.CompositeObserver(Broken(), memory)
    async with Host(acting(act), observer=both) as host:
        done = await host.run(new_task())
    assert done.result == "done"
    assert memory.types(done.id)[-1] == "task.completed"
    assert len([line for line in caplog.records if "observer" in line.getMessage()]) == 1


def test_a_keyboard_interrupt_releases_the_task_and_passes(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store = MemoryStore()
    task = new_task()

    async def act(job: Job) -> Any:
        raise KeyboardInterrupt

    async def run() -> None:
        async with Host(acting(act), store, claims=False) as host:
            await host.run(task)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run())
    record = asyncio.run(store.load(task.id))
    assert (record.owner, record.attempts) == (None, 1)
    assert record.task.status is TaskStatus.RUNNING


# An event loop that is closed


@pytest.mark.rule("R21")
def test_an_end_that_waits_when_its_event_loop_is_closed_waits_no_more(
    new_task: NewTask, acting: type[Acting], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.new_event_loop()
    reached = asyncio.Event()

    class Stuck(MemoryStore):
        async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
            if after.task.status.terminal:
                reached.set()
                await asyncio.Event().wait()
            await super().commit(before, after, events)

    async def act(job: Job) -> None:
        return None

    async def begin() -> engine.Host:
        host = Host(acting(act), Stuck())
        await host.dispatch(new_task())
        await asyncio.wait_for(reached.wait(), 30)
        return host

    told: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: told.append(str(raised.exc_value)))
    host = loop.run_until_complete(begin())
    loop.close()
    del host
    gc.collect()
    assert told == []


# A substrate that never waits


@pytest.mark.rule("R21")
async def test_a_substrate_that_only_commits_lets_others_have_the_event_loop(
    new_task: NewTask, acting: type[Acting]
) -> None:
    committed = 0

    async def act(job: Job) -> Any:
        nonlocal committed
        while job.task.id == busy.id and committed < 100_000:
            await job.commit(committed)
            committed += 1

    busy = new_task()
    async with Host(acting(act)) as host:
        await host.dispatch(busy)
        await host.run(new_task())
        assert (await host.kill(busy.id)).changed
    assert committed < 1_000


# Tracebacks


@pytest.mark.rule("R21")
async def test_a_fault_is_logged_once_and_its_place_is_on_the_failure(
    new_task: NewTask, acting: type[Acting], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(values: Mapping[str, Any]) -> Any:
        return values["missing"]

    async def act(job: Job) -> Any:
        await job.commit(None)
        broken({})

    async with Host(acting(act)) as host:
        done = await host.run(new_task())
    assert done.failure is not None
    line = broken.__code__.co_firstlineno + 1
    place = {key: done.failure.metadata[key] for key in ("file", "line")}
    assert place == {"file": __file__, "line": line}
    (logged,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert logged.getMessage() == f"task {done.id!r}, commit 1: the run failed"
    assert f'test_ends.py", line {line}, in broken' in (logged.exc_text or "")


async def test_a_failure_that_the_substrate_asked_for_is_not_logged(
    new_task: NewTask, acting: type[Acting], caplog: pytest.LogCaptureFixture
) -> None:
    async def act(job: Job) -> Any:
        raise TaskFailed("a/b", "c")

    async with Host(acting(act)) as host:
        await host.run(new_task())
    assert not caplog.records


async def test_a_fault_while_a_killed_run_unwinds_is_logged(
    new_task: NewTask, acting: type[Acting], caplog: pytest.LogCaptureFixture, until: Until
) -> None:
    begun = asyncio.Event()

    async def act(job: Job) -> Any:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            raise SystemExit("while unwinding")

    async with Host(acting(act)) as host:
        task = new_task()
        await host.dispatch(task)
        await begun.wait()
        await host.kill(task.id)
        await until(lambda: "while unwinding" in caplog.text)
        assert (await host.get(task.id)).status is TaskStatus.CANCELLED
