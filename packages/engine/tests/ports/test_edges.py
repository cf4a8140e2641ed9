"""Every edge of the engine, given every wrong type and range: a typed refusal that names it."""

from __future__ import annotations

import io
import json
import math
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, cast

import pytest

from agentic_kernel import InvalidTask, InvalidValue, Task, TaskNotFound
from agentic_kernel_engine import (
    CompositeObserver,
    ConsoleObserver,
    Event,
    Host,
    InMemoryObserver,
    Job,
    MemoryStore,
    Router,
    Store,
    StreamingObserver,
    agent_from_json,
    agent_to_json,
    edges,
    moments,
    task_from_json,
    task_to_json,
)
from agentic_kernel_engine.search import MAX_LIMIT
from agentic_kernel_engine.values import MAX_ID, MAX_ID_BYTES

from ..conftest import Acting, NewTask, TappedStore


async def wait_for_it(job: Job) -> Any:
    await job.pause(None)


NUMBERS: list[Any] = [
    None, True, False, "5", b"5", [], {}, object(), math.nan, math.inf, -math.inf, -1, 10**400,
    -(10**400), 1 + 0j, datetime(2026, 1, 1), timedelta(seconds=1), range(10**9),
]  # fmt: skip
"""Values of which no one is a time in seconds."""
COUNTS: list[Any] = [*[each for each in NUMBERS if each is not None], 0, 1.0, 1.5, 2**63]
"""Values of which no one is a number of things that is at least 1."""
OBJECTS: list[Any] = [5, "x", b"x", [], {}, object(), True]
FLAGS: list[Any] = [None, 0, 1, "yes", [], object()]
TEXTS: list[Any] = [5, 1.5, True, b"x", [], {}, object(), "\ud800", "nul\0", range(10**9)]
CURSORS: list[Any] = [
    5, "x", b"ab", "ab", (), (1,), (1, 2, 3), (1, None), ("1", "2"), (1.0, 0), (True, 0), {1: 2},
    (-1, 0), (0, -2), (2**64, 0), (math.nan, 0), object(),
]  # fmt: skip
IDS: list[Any] = [None, 5, 1.5, True, b"x", [], {}, object()]


class Partly:
    """A store that does no more than load."""

    async def load(self, task_id: str) -> Any: ...


class Steps:
    """A clock that tells what it is given."""

    def __init__(self, *told: Any) -> None:
        self.told = list(told)

    def __call__(self) -> Any:
        return self.told.pop(0) if len(self.told) > 1 else self.told[0]


ARGUMENTS: dict[str, list[Any]] = {
    "substrate": [*OBJECTS, Acting, MemoryStore()],
    "store": [*OBJECTS, MemoryStore, Partly()],
    "runtime_kinds": [
        5, True, "test", b"test", {"a": 1}, object(), iter(["a"]), [5], ["a", None], [""],
        ["x" * (MAX_ID + 1)], ["\ud800"], [["a"]], range(10**9),
    ],
    "max_in_flight": COUNTS,
    "max_attempts": COUNTS,
    "observer": [*OBJECTS, InMemoryObserver],
    "approvals": OBJECTS,
    "claims": FLAGS,
    "interval": [*NUMBERS, 0, 0.0, -0.0, 1e-9, 5e-324, 1e10],
    "unwind_timeout": [*NUMBERS, 1e10],
    "grace": [*NUMBERS, -0.001],
    "clock": [
        None, 5, "now", object(), Steps(None), Steps(5), Steps("2026-01-01"),
        Steps(datetime(2026, 1, 1)), Steps(datetime.max.replace(tzinfo=UTC)),
        Steps(datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_host_refuses_what_would_go_wrong_later(name: str, acting: type[Acting]) -> None:
    given = {"substrate": acting(wait_for_it), "store": MemoryStore()}
    for value in ARGUMENTS[name]:
        if name in given and value is None:
            continue
        with pytest.raises(InvalidValue) as refused:
            Host(**cast(Any, {**given, name: value}))
        assert refused.value.path.startswith(name), repr(value)
        assert refused.value.reason
        assert str(refused.value).isprintable()


RIGHT: list[dict[str, Any]] = [
    {"interval": 0.001, "grace": 0, "unwind_timeout": 0}, {"interval": 60, "max_in_flight": 1},
    {"runtime_kinds": []}, {"runtime_kinds": ("a", "a")}, {"runtime_kinds": {"a": 1}.keys()},
    {"max_attempts": None, "max_in_flight": None}, {"clock": lambda: datetime.now(UTC)},
    {"clock": lambda: datetime.now(timezone(timedelta(hours=14)))}, {"claims": False},
]  # fmt: skip


@pytest.mark.parametrize("given", RIGHT, ids=map(str, range(len(RIGHT))))
async def test_a_host_takes_what_is_right(
    given: dict[str, Any], new_task: NewTask, acting: type[Acting]
) -> None:
    async with Host(acting(wait_for_it), **given) as host:
        assert not await host.find()


async def test_a_clock_that_turns_naive_is_refused_before_anything_is_written(
    new_task: NewTask, acting: type[Acting]
) -> None:
    now = datetime.now(UTC)
    clock = Steps(now, now.replace(tzinfo=None))
    async with Host(acting(wait_for_it), clock=clock) as host:
        with pytest.raises(InvalidValue, match=r"clock\(\): is a naive datetime"):
            await host.dispatch(new_task())
        assert not await host.find()


QUERIES: dict[str, tuple[Callable[[Host, Any], Any], list[Any]]] = {
    "task_id": (lambda host, bad: host.get(bad), IDS),
    "task_id ": (lambda host, bad: host.wait(bad), IDS),
    "task_id of a verb": (lambda host, bad: host.kill(bad), IDS),
    "task_ids": (lambda host, bad: host.get_many(bad), [None, 5, "x", b"x", object()]),
    "task_id in task_ids": (lambda host, bad: host.get_many([bad]), IDS),
    "status": (lambda host, bad: host.find(status=bad), ["begun", 5, [], {}, b"paused", object()]),
    "after": (lambda host, bad: host.find(after=bad), TEXTS),
    "limit": (lambda host, bad: host.find(limit=bad), [*COUNTS, None, MAX_LIMIT + 1, 10**30]),
    "statuses": (lambda host, bad: host.wait("t", bad), ["begun", 5, None, [], {}, object()]),
    "after ": (lambda host, bad: _first(host.stream("t", after=bad)), CURSORS),
    "at_version": (
        lambda host, bad: host.resume("t", at_version=bad),
        ["1", 1.0, True, [], {}, object(), 0, -1, 2**64],
    ),
    "extra": (lambda host, bad: host.resume("t", bad), TEXTS),
    "pause": (lambda host, bad: host.drain(pause=bad), FLAGS),
    "timeout": (lambda host, bad: host.drain(timeout=bad), NUMBERS),
    "task": (lambda host, bad: host.dispatch(bad), [None, *OBJECTS, Task]),
    "failure": (lambda host, bad: host.fail("t", bad), [None, *OBJECTS]),
    "scope": (lambda host, bad: host.rerun("t", bad), [None, *TEXTS, "a b", "a/b", "\u3164"]),
}


async def _first(events: AsyncIterator[Event]) -> Event:
    return await anext(events)


@pytest.mark.parametrize("name", QUERIES)
async def test_a_host_refuses_a_wrong_argument_by_its_name(
    name: str, new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    ask, wrong = QUERIES[name]
    async with Host(acting(wait_for_it), tapped) as host:
        await host.dispatch(new_task(id="t"))
        await host.wait("t", cast(Any, "paused"))
        before = await host.record("t")
        for value in wrong:
            with pytest.raises(InvalidValue) as refused:
                await ask(host, value)
            assert refused.value.path.startswith(name.split()[0]), repr(value)
        assert await host.record("t") == before
        assert tapped.count("insert") == 1


@pytest.mark.parametrize("task_id", ["?", "\ud800", "nul\0", "x" * 600], ids=ascii)
async def test_a_stream_of_an_unknown_task_fails_before_its_first_event(
    task_id: str, new_task: NewTask, acting: type[Acting]
) -> None:
    async with Host(acting(wait_for_it)) as host:
        with pytest.raises(TaskNotFound):
            await _first(host.stream(task_id))


async def test_a_job_refuses_a_wrong_cursor(new_task: NewTask, acting: type[Acting]) -> None:
    async def act(job: Job) -> Any:
        for wrong in CURSORS:
            with pytest.raises(InvalidValue, match="after"):
                await job.history(wrong)
        return len(await job.history((1, 0)))

    async with Host(acting(act)) as host:
        assert (await host.run(new_task())).result == 0


async def test_a_cursor_may_be_what_json_makes_of_an_event_id(
    new_task: NewTask, acting: type[Acting]
) -> None:
    async with Host(acting(wait_for_it)) as host:
        await host.dispatch(new_task(id="t"))
        first = await _first(host.stream("t"))
        assert first.id == (1, 0)
        then = await _first(host.stream("t", cast(Any, json.loads(json.dumps(first.id)))))
        assert then.id is not None
        assert then.id > first.id


@pytest.mark.parametrize("character", ["x", "é", "中", "\U0001f701"])
async def test_an_id_is_as_long_as_every_store_can_hold(
    character: str, new_task: NewTask, acting: type[Acting]
) -> None:
    """Characters and bytes are bounded, because an index of Postgres is."""
    most = min(MAX_ID, MAX_ID_BYTES // len(character.encode()))
    async with Host(acting(wait_for_it)) as host:
        await host.dispatch(new_task(id=character * most))
        assert (await host.get(character * most)).id == character * most
        for wrong in ({"id": character * (most + 1)}, {"runtime_kind": character * (most + 1)}):
            with pytest.raises(InvalidValue, match=r"use (1 to 512|at most 1,024)"):
                await host.dispatch(new_task(**wrong))


async def test_an_id_that_an_earlier_version_stored_is_still_found(
    new_task: NewTask, acting: type[Acting]
) -> None:
    store, long = MemoryStore(), "\U0001f701" * MAX_ID
    async with Host(acting(wait_for_it), store) as host:
        await host.dispatch(new_task(id="t"))
        record = await host.record("t")
        task = Task(**{**{name: getattr(record.task, name) for name in Task.__slots__}, "id": long})
        await store.insert(record.changed(task=task, owner=None))
        assert (await host.get(long)).id == long
        assert (await host.kill(long)).snapshot.status == "cancelled"


async def test_an_agents_name_with_an_unseen_character_is_not_dispatched(
    new_task: NewTask, acting: type[Acting]
) -> None:
    fields = new_task()
    given = {name: getattr(fields, name) for name in Task.__slots__}
    async with Host(acting(wait_for_it)) as host:
        with pytest.raises(InvalidValue, match=r"task\.agent_name.*U\+3164"):
            await host.dispatch(Task(**{**given, "agent_name": "acme/\u3164"}))


@pytest.mark.parametrize(
    "value", [3, 1.5, True, None, ["red"], {"a": "b"}, "x" * 257], ids=lambda value: str(value)[:9]
)
async def test_a_label_that_no_search_could_find_is_refused_by_its_key(
    value: Any, new_task: NewTask, acting: type[Acting], tapped: TappedStore
) -> None:
    async with Host(acting(wait_for_it), tapped) as host:
        task = new_task(metadata={"label/tier": "1", "label/team": value, "acme/team": value})
        for start in (host.dispatch, host.run):
            with pytest.raises(InvalidValue, match="label") as refused:
                await start(task)
            assert refused.value.path == "task.metadata['label/team']"
        assert tapped.count("insert") == 0
        longest = {"label/team": "x" * 256, "acme/team": 3}
        await host.dispatch(new_task(metadata=longest))
        assert len(await tapped.find(labels={"team": "x" * 256})) == 1


# Routers and observers


def test_a_router_refuses_what_serves_nothing(acting: type[Acting]) -> None:
    wrong: list[Any] = [None, 5, "x", [], {}, {"a": 5}, {"a": Host}, {5: Host()}, {"": Host()}]
    for runtimes in wrong:
        with pytest.raises(InvalidValue) as refused:
            Router(runtimes)
        assert refused.value.path.startswith("runtimes")


async def test_a_router_refuses_a_wrong_argument_by_its_name(acting: type[Acting]) -> None:
    router = Router({"test": Host(acting(wait_for_it))})
    for task in (None, *OBJECTS):
        with pytest.raises(InvalidValue, match="task: must be a Task"):
            await router.dispatch(cast(Any, task))
    for ids in (None, 5, "x", b"x"):
        with pytest.raises(InvalidValue, match="task_ids"):
            await router.get_many(cast(Any, ids))
    for query in (router.find(limit=10**30), router.find(after=cast(Any, 5))):
        with pytest.raises(InvalidValue):
            await query


def test_observers_refuse_what_they_cannot_tell() -> None:
    for capacity in [*COUNTS, None]:
        with pytest.raises(InvalidValue, match="capacity"):
            StreamingObserver(capacity)
    for file in (5, "out.txt", b"x", object()):
        with pytest.raises(InvalidValue, match="file"):
            ConsoleObserver(cast(Any, file))
    for observer in [None, *OBJECTS, InMemoryObserver]:
        with pytest.raises(InvalidValue, match=r"observers\[1\]"):
            CompositeObserver(InMemoryObserver(), cast(Any, observer))


STEERING = "\x1b[2J \u202e \u2028 \u2029 \x9b31m \x07 \x00 \u200b \ud800 \x7f \r"


@pytest.mark.parametrize("kind", ["task.paused", "run.delta"])
def test_nothing_that_steers_a_terminal_reaches_it(kind: str) -> None:
    file = io.StringIO()
    event = Event(kind, {"text": STEERING, STEERING: [STEERING]})
    ConsoleObserver(file).observe(STEERING, event)
    said = file.getvalue()
    assert said.replace("\n", "").isprintable()
    assert kind == "run.delta" or said.count("\n") == 1


# Documents

TASK = {
    "id": "t", "summary": "", "instructions": "", "runtime_kind": "k", "agent_name": "a/b",
    "metadata": {}, "noted": [], "status": "not_started", "supplements": [],
    "created_at": "2026-01-01T00:00:00+00:00",
}  # fmt: skip
AGENT = {"name": "a/b", "capabilities": ["c/d"], "metadata": {}}
ANYTHING: list[Any] = [
    None, 5, -1, 1.5, True, "", "x", "a/\u3164", [], [None], [5], [[]], ["x"], {}, {"a": 1},
    {"a": None}, [{"a": []}], "2026-01-01", "2026-01-01T00:00:00", "9999-12-31T23:59:59-14:00",
    "0001-01-01T00:00:00+14:00", 10**18,
]  # fmt: skip


@pytest.mark.parametrize("text", [None, 5, 1.5, [], {}, object(), "", "{", "[]", "5", "null",
                                  '"x"', b"\xff", b"", "NaN", "[" * 100_000, '{"a": 1, "a": 2}',
                                  '{"id": 1e999}', "9" * 5_000, '{"\\ud800": 1}'],
                         ids=map(str, range(20)))  # fmt: skip
def test_a_text_that_is_no_document_is_refused(text: Any) -> None:
    for read in (task_from_json, agent_from_json):
        with pytest.raises(InvalidValue):
            read(text)
    for write in (task_to_json, agent_to_json):
        with pytest.raises(InvalidValue, match=r"must be an? (Task|Agent)"):
            write(text)


def test_a_document_with_anything_anywhere_is_read_or_refused() -> None:
    """Each field in turn, left out and of every type: a Task, or a refusal that names a field."""
    ends: list[dict[str, Any]] = [{}, {"status": "failure", "started_at": TASK["created_at"],
                 "ended_at": TASK["created_at"], "failure": {"code": "a/b", "message": "c"}},
            {"status": "success", "started_at": TASK["created_at"],
             "ended_at": TASK["created_at"], "result": 1}]  # fmt: skip
    read = refused = 0
    for end in ends:
        whole = {**TASK, **end}
        task_from_json(json.dumps(whole))
        changed = [{**whole, name: bad} for name in Task.__slots__ for bad in ANYTHING]
        changed += [{key: whole[key] for key in whole if key != name} for name in whole]
        changed += [{**whole, "failure": {**TASK, "code": bad}} for bad in ANYTHING]
        changed += [{**whole, "failure": {"code": "a/b", "message": bad}} for bad in ANYTHING]
        changed += [{**whole, "metadata": {"a/b": 1}, "noted": bad} for bad in ANYTHING]
        for document in changed:
            task = _read(task_from_json, document, ("task", "failure", "document"))
            read, refused = read + (task is not None), refused + (task is None)
            assert task is None or task_from_json(task_to_json(task)) == task
    assert read > 100
    assert refused > 500


def test_an_agents_document_with_anything_anywhere_is_read_or_refused() -> None:
    for name in (*AGENT, "other"):
        for bad in ANYTHING:
            agent = _read(agent_from_json, {**AGENT, name: bad}, ("agent", "document"))
            assert agent is None or agent_from_json(agent_to_json(agent)) == agent


def _read(read: Callable[[str], Any], document: Any, paths: tuple[str, ...]) -> Any:
    """The value that is read; None if it is refused with a path that begins like one of these."""
    try:
        return read(json.dumps(document))
    except InvalidValue as wrong:
        refused = wrong
    assert refused.path.lower().startswith(paths), refused
    assert read is not task_from_json or isinstance(refused, InvalidTask)
    return None


@pytest.mark.parametrize("stamp", ["2026-01-01T00:00:00", "2026-01-01", "20260101", "noon", ""])
def test_a_moment_without_a_zone_is_refused(stamp: str) -> None:
    with pytest.raises(InvalidTask, match=r"task\.created_at"):
        task_from_json(json.dumps({**TASK, "created_at": stamp}))


# The checks themselves


@pytest.mark.parametrize(
    "value", [None, True, 5, 10**5_000, math.nan, "x" * 1_000, "\x1b\n", []], ids=map(str, range(8))
)
def test_a_refused_value_is_shown_shortly(value: Any) -> None:
    assert len(edges.came(value)) < 100
    assert edges.came(value).isprintable()


def test_a_refusal_calls_no_code_of_the_value() -> None:
    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError("no")

        __str__ = __repr__
        __len__ = __bool__ = __eq__ = __hash__ = cast(Any, __repr__)

    for check in (
        lambda: edges.whole(Rude(), "a", 1), lambda: edges.seconds(Rude(), "a"),
        lambda: edges.flag(Rude(), "a"), lambda: edges.text(Rude(), "a"),
        lambda: edges.kinds(Rude(), "a"), lambda: edges.part(Rude(), "a", Store),
        lambda: edges.clock(Rude(), "a"), lambda: edges.cursor(Rude(), "a"),
    ):  # fmt: skip
        with pytest.raises(InvalidValue):
            check()


class Zone(tzinfo):
    """A time zone that gives, or raises, what it was made of."""

    def __init__(self, gives: Any) -> None:
        self.gives = gives

    def utcoffset(self, moment: datetime | None) -> Any:
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives

    dst = utcoffset

    def tzname(self, moment: datetime | None) -> str:
        return "Z"


class Forged(datetime):
    def isoformat(self, *_: Any, **__: Any) -> str:
        return "\x1b[2J"

    def astimezone(self, *_: Any) -> Any:
        return None


@pytest.mark.parametrize(
    "gives",
    [
        ValueError("no"), OverflowError("no"), KeyError(5), RecursionError(), 5, "1",
        timedelta(days=2), NotImplementedError(),
    ],
    ids=repr,
)  # fmt: skip
def test_a_moment_whose_zone_raises_is_refused(gives: Any) -> None:
    for kind in (datetime, Forged):
        with pytest.raises(InvalidValue) as refused:
            moments.aware("due", kind(2026, 1, 1, tzinfo=Zone(gives)))
        assert refused.value.path == "due"
        assert str(refused.value).isprintable()
    assert moments.aware("due", Forged(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1, tzinfo=UTC)
