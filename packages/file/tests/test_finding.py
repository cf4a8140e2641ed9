"""Searches of a folder: every filter and order, in the log, in a table and over both."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import Dispatch, Task, TaskNotFound, TaskStatus, apply
from agentic_kernel_engine import MemoryStore, Record
from agentic_kernel_engine.stored import decode_record
from agentic_kernel_file import FileStore, Sizes
from agentic_kernel_file.frames import BATCH
from agentic_kernel_file.log import Position

from .disks import UnsyncedFiles
from .records import AT, LATER, all_events, ended, events, paused, running, step
from .test_crashes import compacted


def made(n: int, dice: random.Random) -> Record:
    labels = {"label/team": dice.choice(["red", "blue"]), "label/n": str(n % 7), "other/n": n}
    task = Task.new(
        id=f"task {n:03}", summary="a task", instructions="go",
        runtime_kind=dice.choice(["test", "loop"]),
        agent_name=dice.choice([None, "crew/ann", "crew/bob"]), metadata=labels,
        at=AT + timedelta(minutes=dice.randrange(40)),
    )  # fmt: skip
    return Record(
        apply(task, Dispatch(), AT + timedelta(hours=1)),
        parent=dice.choice([None, "task 000", "task 001"]),
        realm=dice.choice(["", "acme", "initech"]),
    )


async def test_every_search_finds_what_the_store_in_memory_finds(tmp_path: Path) -> None:
    """Some Tasks in the log, some in a table, some moved since, some pruned."""
    dice = random.Random(7)
    store = FileStore(tmp_path / "state", files=UnsyncedFiles(), sizes=Sizes(1 << 14, 1 << 14))
    memory = MemoryStore()
    records = []
    for n in range(150):
        record = made(n, dice)
        for each in (store, memory):
            await each.insert(record)
        records.append(record)
    for record in dice.sample(records, 110):
        end = LATER + timedelta(hours=2)
        after = dice.choice([step(record), paused(record, LATER), ended(record, end)])
        for each in (store, memory):
            await each.commit(record, after)
    compacted()
    pruned = [await each.prune(LATER + timedelta(days=1), limit=0) for each in (store, memory)]
    assert pruned == [0, 0]
    options: list[dict[str, Any]] = [
        {}, {"status": TaskStatus.SUCCESS}, {"status": TaskStatus.PAUSED}, {"kinds": ["loop"]},
        {"agent": "crew/ann"}, {"agent": "nobody/there"}, {"realms": ["acme"]},
        {"realms": ["", "initech"]}, {"labels": {"team": "red"}},
        {"labels": {"team": "red", "n": "3"}}, {"labels": {"team": "green"}},
        {"labels": {"other/n": "1"}}, {"parent": "task 000"},
        {"parent": "task 001", "agent": "crew/bob"},
        {"created_from": AT + timedelta(minutes=10)},
        {"created_before": AT + timedelta(minutes=10), "status": TaskStatus.SUCCESS},
        {"created_from": AT + timedelta(minutes=10), "created_before": AT + timedelta(minutes=20)},
        {"claimable": True}, {"due": LATER}, {"status": TaskStatus.SUCCESS, "labels": {"n": "3"}},
    ]  # fmt: skip
    for turn in range(2):
        for newest in (False, True):
            for filters in options:
                for limit in (7, 1000):
                    pages = [await _pages(each, filters, newest, limit) for each in (store, memory)]
                    assert pages[0] == pages[1], (filters, newest, turn)
        store.close()
        store = FileStore(tmp_path / "state", files=UnsyncedFiles(), sizes=Sizes(1, 1))
        for each in (store, memory):
            await each.insert(running(f"zz {turn}"))
        compacted()
    store.close()


async def _pages(store: Any, filters: dict[str, Any], newest: bool, limit: int) -> list[str]:
    found: list[Record] = []
    while True:
        after: Any = None
        if found:
            last = found[-1].task
            after = (last.created_at, last.id) if newest else last.id
        page = await store.find(**filters, newest=newest, after=after, limit=limit)
        found += page
        if len(page) < limit:
            return [record.task.id for record in found]


async def test_a_child_is_found_after_two_compactions_and_only_once(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    store = FileStore(folder, files=UnsyncedFiles())
    children = [f"child {n}" for n in range(5)]
    for child in children:
        record = running(child, parent="p")
        await store.insert(record)
        if child != "child 3":
            await store.commit(record, ended(record))
    store.close()
    for n in range(2):
        store = FileStore(folder, files=UnsyncedFiles(), sizes=Sizes(1, 1))
        await store.insert(running(f"tail {n}"))
        compacted()
        store.close()
    store = FileStore(folder, files=UnsyncedFiles())
    assert [r.task.id for r in await store.find(parent="p")] == children
    for n, child in enumerate(children):
        rest = await store.find(parent="p", after=child)
        assert [r.task.id for r in rest] == children[n + 1 :]
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "many", [10_000, pytest.param(100_000, marks=pytest.mark.torture)], ids=["few", "many"]
)
@pytest.mark.parametrize(
    "compact", [pytest.param(False, marks=pytest.mark.torture), True], ids=["log", "table"]
)
async def test_the_newest_of_very_many_tasks_are_found_without_decoding_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compact: bool, many: int
) -> None:
    folder = tmp_path / "state"
    store = FileStore(folder, files=UnsyncedFiles(), sizes=Sizes(1 << 22, 1 << 40))
    for start in range(0, many, 2000):
        records = [
            Record(
                apply(
                    Task.new(
                        id=f"task {n * 7919 % many:06}", summary="", instructions="",
                        runtime_kind="test", metadata={"label/n": str(n % 1000)},
                        at=AT + timedelta(seconds=n),
                    ),
                    Dispatch(),
                    AT + timedelta(days=9),
                )
            )
            for n in range(start, start + 2000)
        ]  # fmt: skip
        await asyncio.gather(*(store.insert(record) for record in records))
        end = AT + timedelta(days=10)
        await asyncio.gather(*(store.commit(record, ended(record, end)) for record in records))
    store.close()
    if compact:
        store = FileStore(folder, files=UnsyncedFiles(), sizes=Sizes(1, 1))
        await store.insert(running("tail"))
        compacted()
        store.close()
    decoded = []

    def counted(text: bytes, decode: Any = decode_record) -> Record:
        decoded.append(text)
        return decode(text)  # type: ignore[no-any-return]

    monkeypatch.setattr("agentic_kernel_file.stored.decode_record", counted)
    store = FileStore(folder, files=UnsyncedFiles())
    found: list[Record] = []
    for _ in range(3):
        after = (found[-1].task.created_at, found[-1].task.id) if found else None
        found += await store.find(newest=True, after=after, limit=100, status=TaskStatus.SUCCESS)
    seconds = [(record.task.created_at - AT).total_seconds() for record in found]
    assert seconds == [float(many - 1 - n) for n in range(300)]
    assert len(decoded) <= 310
    decoded.clear()
    page = await store.find(newest=True, labels={"n": "5"}, limit=10)
    assert [record.task.metadata["label/n"] for record in page] == ["5"] * 10
    page = await store.find(labels={"n": "5"}, created_before=AT + timedelta(hours=1), limit=10)
    assert len(page) == 4
    assert len(decoded) <= 20
    store.close()


async def test_what_an_earlier_writer_left_is_no_continuation(tmp_path: Path) -> None:
    """A whole batch behind the end counts only if it was written after the batch before it."""
    ends = []
    for name in ("one", "two"):
        store = FileStore(tmp_path / name, files=UnsyncedFiles())
        await store.insert(running("a"))
        record = step(running("a")).changed(state=b'{"by":"%b"}' % name.encode())
        await store.commit(running("a"), record)
        opened = store._open
        assert opened is not None
        first: Position = opened.reader.current().position
        await store.commit(record, step(record))
        ends.append((first, opened.reader.current().position))
        store.close()
    assert [end[0].at for end in ends] == [ends[0][0].at] * 2
    start, end = ends[0]
    base = 32 - 1  # the header, and positions begin at 1
    theirs = (tmp_path / "two" / "log-000001").read_bytes()[base + start.at : base + end.at]
    log = tmp_path / "one" / "log-000001"
    data = bytearray(log.read_bytes())
    assert len(theirs) > BATCH.size
    data[base + start.at : base + end.at] = theirs
    log.write_bytes(data)
    (tmp_path / "one" / "head").unlink()  # as a crash of the machine may
    store = FileStore(tmp_path / "one", files=UnsyncedFiles())
    assert (await store.load("a")).version == 2
    await store.commit(await store.load("a"), step(await store.load("a")))
    store.close()


async def test_a_pruned_task_is_gone_after_the_next_compaction(tmp_path: Path) -> None:
    """It was in the table already; the log says that it is pruned, and is compacted away."""
    folder = tmp_path / "state"
    store = FileStore(folder, files=UnsyncedFiles())
    for task_id in ("a", "b"):
        record = running(task_id, parent="p")
        await store.insert(record)
        await store.commit(record, ended(record, LATER if task_id == "a" else AT))
    store.close()
    for n in range(3):
        store = FileStore(folder, files=UnsyncedFiles(), sizes=Sizes(1, 1))
        await store.insert(running(f"tail {n}"))
        compacted()
        if n == 0:
            assert await store.prune(LATER) == 1
        store.close()
        store = FileStore(folder, files=UnsyncedFiles())
        assert [record.task.id for record in await store.find(parent="p")] == ["a"]
        with pytest.raises(TaskNotFound):
            await store.load("b")
        store.close()


async def test_a_page_of_events_begins_behind_its_cursor_in_the_log_and_in_a_table(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "state"
    store = FileStore(folder, files=UnsyncedFiles())
    record = running("a")
    await store.insert(record, events(record))
    for _ in range(3):
        record, before = step(record), record
        await store.commit(before, record, events(record))
    for _ in range(2):
        everything = all_events(4)
        for n, (cursor, _) in enumerate(everything, 1):
            for limit in (1, 3, 100):
                assert await store.events("a", cursor, limit) == everything[n : n + limit]
        store.close()
        store = FileStore(folder, files=UnsyncedFiles(), sizes=Sizes(1, 1))
        await store.insert(running(f"tail {len(list(folder.glob('table-*')))}"))
        compacted()
    assert list(folder.glob("table-*"))
    store.close()


async def test_a_pruned_task_is_not_looked_for_under_a_status_that_it_had(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    record = running("a")
    await store.insert(record)
    await store.insert(running("b"))
    await store.commit(record, ended(record))
    assert await store.prune(LATER + timedelta(days=1)) == 1
    for newest in (False, True):
        found = await store.find(status=TaskStatus.RUNNING, newest=newest)
        assert [each.task.id for each in found] == ["b"]
    store.close()
