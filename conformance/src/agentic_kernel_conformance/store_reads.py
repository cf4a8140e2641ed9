"""Tests of reads during writes, of cancelled writes, and of a store that is opened again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from agentic_kernel import InvalidTask, TaskStatus, annotate
from agentic_kernel.invariants import check, follows
from agentic_kernel_engine import Record, Store

from .level import Level
from .records import ENDS, after, expect_same, ids_of, owned, running
from .rules import broken, expect, in_time
from .storage import Reopen, StoreSuite
from .system import Hold

_READERS = 4
_LIVES = 25
_HELD_READS = 1_000
_CANCELS = 8


class StoreReads(StoreSuite):
    """C3, C4, C6 and C7 of the Concurrency Contract, R5 (settled writes), and durability."""

    @pytest.mark.rule("C3", "C7")
    async def test_every_read_is_whole_while_a_writer_writes(
        self, store: Store, level: Level
    ) -> None:
        """Every field of a record, and its events, belong to the same version."""
        work = _Marked()
        await store.insert(work.record, work.events())
        left = level.reads
        done = False

        async def write() -> None:
            while not done:
                await work.step(store)
                await asyncio.sleep(0)

        async def read(way: int) -> None:
            nonlocal left
            seen: Record | None = None
            while left > 0:
                left -= 1
                task_id = work.record.task.id
                record = await _read(store, task_id, way)
                _expect_whole(record, seen if seen and seen.task.id == task_id else None)
                if left % 5 == 0:
                    events = await store.events(task_id, (record.version, -1), limit=3)
                    ids = [place for place, _ in events]
                    wanted = [(record.version, n) for n in range(3)]
                    expect(ids == wanted, "C3", f"version {record.version} has events {ids}")
                seen = record
                await asyncio.sleep(0)

        writing = asyncio.create_task(write())
        try:
            await asyncio.gather(*(read(way) for way in range(_READERS)))
        finally:
            done = True
            await writing

    @pytest.mark.feature("holdable")
    @pytest.mark.rule("C4")
    async def test_readers_do_not_wait_for_a_write_that_is_held(
        self, store: Store, hold: Hold
    ) -> None:
        """A thousand reads return while a write is held at its commit; after that it lands."""
        record = owned()
        await store.insert(record, [b"1"])
        wanted = after(record, state=b'"held"')
        async with hold():
            writing = asyncio.create_task(_write(lambda: store.commit(record, wanted, [b"2"])))
            async with in_time("C4", self.patience * 3, "reading beside a held write"):
                for n in range(_HELD_READS):
                    found = await _read(store, record.task.id, n)
                    expect_same("C4", found, record)
                    events = await store.events(record.task.id)
                    expect(len(events) == 1, "C3", "the event before its commit")
            expect(not writing.done(), "kit", "`hold` did not keep a write from completing")
        async with in_time("C4", self.patience, "a write that is held no more"):
            await writing
        expect_same("C6", await store.load(record.task.id), wanted)

    @pytest.mark.rule("R5")
    @pytest.mark.parametrize("kind", ["insert", "commit", "claim"])
    async def test_a_cancelled_write_is_settled_when_it_ends(self, store: Store, kind: str) -> None:
        """It landed whole, with its events, or left no trace; a later read shows the same."""
        await store.join("host-b")
        for turns in range(_CANCELS):
            task_id = f"cancelled {turns}"
            record = running(task_id)
            wanted = after(record, state=b'"landed"')
            if kind != "insert":
                await store.insert(record)
            calls: dict[str, Callable[[], Awaitable[object]]] = {
                "insert": partial(store.insert, record, [b"x", b"y"]),
                "commit": partial(store.commit, record, wanted, [b"x", b"y"]),
                "claim": partial(store.claim, task_id, "host-b", [b"x", b"y"]),
            }
            writing = asyncio.create_task(_write(calls[kind]))
            for _ in range(turns):
                await asyncio.sleep(0)
            writing.cancel()
            (outcome,) = await asyncio.gather(writing, return_exceptions=True)
            first = await _look(store, task_id)
            # A write that still runs gets time to land: some turns of the loop, and another write.
            for _ in range(50):
                await asyncio.sleep(0)
            await store.insert(running(f"{task_id}, later"))
            second = await _look(store, task_id)
            expect(first == second, "R5", f"{kind} landed after it had ended: {first}, {second}")
            versions = {"insert": (None, 1)}.get(kind, (1, 2))
            version, events = first
            expect(version in versions, "R5", f"version {version} after a cancelled {kind}")
            landed = version == versions[1]
            expect(events == 2 * landed, "R5", f"a torn {kind}: version {version}, events {events}")
            finished = not isinstance(outcome, BaseException)
            expect(landed or not finished, "R5", f"a {kind} that returned did not land")

    @pytest.mark.rule("alias")
    async def test_what_a_reader_returned_belongs_to_its_caller(self, store: Store) -> None:
        """Whatever a caller does to it changes no later answer; and no later write changes it."""
        one, two = owned("one"), running("two", parent="one")
        for record in (one, two):
            await store.insert(record, [b"1", b"2"])
        reads: dict[str, Callable[[], Awaitable[Any]]] = {
            "load_many": partial(store.load_many, ["one", "two"]),
            "changed": partial(store.changed, {"one": 7, "two": 8, "none": 9}),
            "events": partial(store.events, "one"),
            "find": store.find,
            "find by parent": partial(store.find, parent="one"),
            "unreadable": store.unreadable,
        }
        for name, read in reads.items():
            first = await read()
            before = _copied(first)
            _spoil(first)
            again = await read()
            expect(
                _copied(again) == before, "alias",
                f"a caller changed what {name} returned, and the next answer is {again!a:.300}",
            )  # fmt: skip
        kept = {name: await read() for name, read in reads.items()}
        copies = {name: _copied(found) for name, found in kept.items()}
        other = await store.load_many(["two"])
        expect(set(other) == {"two"}, "alias", f"load_many of one gave {sorted(other)}")
        await store.commit(one, after(one, state=b"2"), [b"3"])
        for name, found in kept.items():
            same = _copied(found) == copies[name]
            expect(same, "alias", f"a later write changed what {name} had returned: {found!a:.300}")

    @pytest.mark.feature("durable")
    @pytest.mark.rule("durable", "C6")
    async def test_what_was_acknowledged_is_there_when_the_store_is_opened_again(
        self, store: Store, reopen: Reopen
    ) -> None:
        """Records, events and indexes survive each reopening; pruned Tasks stay pruned."""
        work = _Marked()
        await store.insert(work.record, work.events())
        await store.join("host-a")
        for round_ in range(3):
            for status in (TaskStatus.SUCCESS, TaskStatus.CANCELLED):
                gone = owned(f"ended {round_} {status}", host="host-z", parent="parent")
                await store.insert(gone, [b"1"])
                await store.commit(gone, after(gone, ENDS[status], owner=None), [b"2"])
            for _ in range(4):
                await work.step(store)
            store = await reopen(store)
            expect_same("durable", await store.load(work.record.task.id), work.record)
            events = await store.events(work.record.task.id)
            wanted = work.record.version * 3
            expect(len(events) == wanted, "durable", f"{len(events)} events, of {wanted}")
            children = ids_of(await store.find(parent="parent", status=TaskStatus.CANCELLED))
            right = [f"ended {n} cancelled" for n in range(round_ + 1)]
            expect(children == right, "durable", f"in pages: {children}")
        end = (await store.load("ended 0 success")).task.ended_at
        assert end is not None
        await store.prune(end.replace(year=end.year + 1))
        store = await reopen(store)
        left = ids_of(await store.find())
        expect(left == [work.record.task.id], "durable", f"back after the prune: {left!a}")
        await work.step(store)
        expect_same("durable", await store.load(work.record.task.id), work.record)


def _copied(found: Any) -> Any:
    """A copy of a container of values that cannot change."""
    return dict(found) if isinstance(found, Mapping) else list(found)


def _spoil(found: Any) -> None:
    """Change a container in every way that it allows."""
    spoils: tuple[Callable[[], object], ...] = (
        lambda: found.update({"one": None, "spoilt": None}),
        lambda: found.pop("two"),
        lambda: found.append(None),
        lambda: found.reverse(),
        lambda: found.clear(),
    )
    for spoil in spoils:
        with suppress(AttributeError, TypeError, KeyError):
            spoil()


class _Marked:
    """A writer of Tasks; it marks every field with the version, so that a torn read shows."""

    def __init__(self) -> None:
        self._lives = 0
        self.record = self._born()

    def _born(self) -> Record:
        self._lives += 1
        return _mark(owned(f"life {self._lives:06}"))

    def events(self) -> list[bytes]:
        return [b'"%d"' % self.record.version] * 3

    async def step(self, store: Store) -> None:
        """Commit the next version, the last one as the end; after an end, insert a new Task."""
        before = self.record
        if before.task.status.terminal:
            new = self._born()
            await store.insert(new, [b'"1"'] * 3)
            self.record = new
            return
        ends = before.version >= _LIVES
        step = _mark(after(before, ENDS[TaskStatus.SUCCESS] if ends else None))
        await store.commit(before, step, [b'"%d"' % step.version] * 3)
        self.record = step


def _mark(record: Record) -> Record:
    version = record.version
    return record.changed(
        task=annotate(record.task, {"host/version": version}),
        state=b'{"version":%d}' % version,
        inbox=({"type": "mark", "version": version},),
        step=version,
        attempts=version,
    )


def _expect_whole(record: Record, seen: Record | None) -> None:
    version, task = record.version, record.task
    try:
        check(task)
    except InvalidTask as error:
        raise broken("C3", f"a torn Task at version {version}: {error}") from error
    marks = {
        "state": record.state == b'{"version":%d}' % version,
        "inbox": list(record.inbox) == [{"type": "mark", "version": version}],
        "step": record.step == version,
        "attempts": record.attempts == version,
        "notes": task.status.terminal or task.metadata["host/version"] == version,
    }
    torn = [name for name, whole in marks.items() if not whole]
    expect(not torn, "C3", f"{', '.join(torn)} not of version {version}: {record!a:.400}")
    if seen is not None:
        expect(seen.version <= version, "C7", f"version {version} after {seen.version}")
        expect(follows(seen.task, task), "C7", f"{task!a:.300} after {seen.task!a:.300}")


async def _read(store: Store, task_id: str, way: int) -> Record:
    """Return one record, read by one of three methods."""
    if way % 3 == 1:
        return (await store.load_many([task_id]))[task_id]
    if way % 3 == 2:
        page = await store.find(after=task_id[:-1], limit=20)
        return next(record for record in page if record.task.id == task_id)
    return await store.load(task_id)


async def _look(store: Store, task_id: str) -> tuple[int | None, int]:
    """Return the version of a record, None if it is not stored, and its number of events."""
    if task_id not in await store.load_many([task_id]):
        return None, 0
    return (await store.load(task_id)).version, len(await store.events(task_id))


async def _write(call: Callable[[], Awaitable[object]]) -> object:
    return await call()
