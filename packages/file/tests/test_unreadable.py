"""One record that cannot be read hides no other; it is listed, buried, and pruned then (R22)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import TaskExists, TaskNotFound, TaskStatus
from agentic_kernel_engine import Conflict, Record, StoreError, Unreadable
from agentic_kernel_engine.stored import encode_record
from agentic_kernel_file import Damaged, FileStore, Sizes

from .disks import UnsyncedFiles
from .records import LATER, all_events, ended, events, running, step
from .test_crashes import compacted

GOOD = [f"good {n}" for n in range(4)]
MARK = "the text of the one that is hit"
COMPACTING = Sizes(segment=1, tail=1)


async def filled(folder: Path, *, table: bool, bad: Record | None = None) -> None:
    """Four good Tasks around one bad one, in the log or in a table."""
    bad = bad or running("bad", instructions=MARK)
    store = FileStore(folder, files=UnsyncedFiles())
    for record in [*map(running, GOOD[:2]), bad, *map(running, GOOD[2:])]:
        await store.insert(record, events(record))
        await store.commit(record, ended(record), events(ended(record)))
    store.close()
    if table:
        await compact(folder)


async def compact(folder: Path) -> None:
    store = FileStore(folder, files=UnsyncedFiles(), sizes=COMPACTING)
    try:
        await store.insert(running("tail"))
    except TaskExists:
        before = await store.load("tail")
        await store.commit(before, step(before))
    compacted()
    store.close()
    assert tables(folder)


def tables(folder: Path) -> list[Path]:
    return list(folder.glob("table-*"))


def damage(folder: Path, text: bytes, change: Callable[[bytearray, int], None]) -> None:
    """Change some bytes of a file of the store at the place of a text."""
    for path in sorted(folder.iterdir()):
        if path.is_file():
            data = bytearray(path.read_bytes())
            at = data.find(text)
            if at >= 0:
                change(data, at)
                path.write_bytes(data)
                return
    raise AssertionError("the text is nowhere")


def flip(data: bytearray, at: int) -> None:
    data[at + 3] ^= 1


def blank(data: bytearray, at: int) -> None:
    data[at - 60 : at + 20] = bytes(80)


def unlink(data: bytearray, at: int) -> None:
    """Blank the link of a frame, which follows the length of its id and its version."""
    data[at + 6 : at + 14] = bytes(8)


async def others(store: FileStore) -> None:
    """Every other Task is found, page by page, with its events."""
    await store.prune(LATER - timedelta(days=1))
    found: list[str] = []
    while page := await store.find(after=found[-1] if found else None, limit=2):
        assert len(page) == 2 or "tail" in {r.task.id for r in page} or len(found) == 2
        found += [record.task.id for record in page]
    assert [id for id in found if id != "tail"] == GOOD
    found = [r.task.id for r in await store.find(status=TaskStatus.SUCCESS, newest=True)]
    assert sorted(found) == GOOD
    for task_id in GOOD:
        assert await store.events(task_id) == all_events(2)
    assert set(await store.load_many([*GOOD, "bad"])) == set(GOOD)


@pytest.mark.rule("R22")
@pytest.mark.parametrize("how", [flip, blank])
@pytest.mark.parametrize("table", [False, True], ids=["log", "table"])
async def test_a_damaged_record_hides_no_other(
    tmp_path: Path, table: bool, how: Callable[[bytearray, int], None]
) -> None:
    folder = tmp_path / "state"
    await filled(folder, table=table)
    damage(folder, MARK.encode(), how)
    store = FileStore(folder, files=UnsyncedFiles())
    await others(store)
    with pytest.raises(Unreadable) as raised:
        await store.load("bad")
    assert (raised.value.task_id, raised.value.version, raised.value.newer) == ("bad", 2, False)
    assert [(e.task_id, e.version) for e in await store.unreadable()] == [("bad", 2)]
    assert await store.unreadable(after="bad") == []
    assert await store.unreadable(limit=0) == []
    assert await store.prune(LATER + timedelta(days=1), limit=3) == 3  # it is no candidate
    store.close()
    for _ in range(2):  # it stays what it is while the log is compacted
        await compact(folder)
        store = FileStore(folder, files=UnsyncedFiles())
        assert [(e.task_id, e.version) for e in await store.unreadable()] == [("bad", 2)]
        store.close()


@pytest.mark.rule("R22")
@pytest.mark.parametrize("table", [False, True], ids=["log", "table"])
async def test_a_damaged_record_is_buried_and_keeps_its_events(tmp_path: Path, table: bool) -> None:
    folder = tmp_path / "state"
    await filled(folder, table=table)
    damage(folder, MARK.encode(), flip)
    store = FileStore(folder, files=UnsyncedFiles())
    with pytest.raises(Conflict):
        await store.bury("bad", 1)
    with pytest.raises(TaskNotFound):
        await store.bury("nobody", 1)
    with pytest.raises(Conflict):
        await store.bury(GOOD[0], 2)
    buried = await store.bury("bad", 2, [b"{}"], at=LATER)
    assert buried.version == 3
    assert buried.task.status is TaskStatus.CANCELLED
    for _ in range(2):
        assert await store.load("bad") == buried
        texts = await store.events("bad")
        assert texts[-1] == ((3, 0), b"{}")
        assert texts[:-1] == all_events(2)
        assert list(await store.unreadable()) == []
        assert buried in await store.find()
        store.close()
        await compact(folder)
        store = FileStore(folder, files=UnsyncedFiles())
    with pytest.raises(Conflict):
        await store.bury("bad", 3)
    assert await store.prune(LATER + timedelta(days=1)) == 5
    store.close()
    assert json.loads((folder / "agentic-kernel.json").read_text())["schema"] == 2


@pytest.mark.parametrize("table", [False, True], ids=["log", "table"])
async def test_a_damaged_event_is_told_and_its_task_goes_on(tmp_path: Path, table: bool) -> None:
    folder = tmp_path / "state"
    store = FileStore(folder, files=UnsyncedFiles())
    await store.insert(running("a"), [b'"the first text"'])
    await store.commit(running("a"), step(running("a")), [b'"the second text"'])
    await store.insert(running("b"), [b'"of another"'])
    store.close()
    damage(folder, b"the first text", flip)
    for _ in range(3 if table else 1):  # compaction copies it as it is
        if table:
            await compact(folder)
        store = FileStore(folder, files=UnsyncedFiles())
        assert await store.load("a") == step(running("a"))
        where = re.escape(str(folder))
        with pytest.raises(StoreError, match=rf"event \(1, 0\) of task 'a' .* {where}[/,]"):
            await store.events("a")
        assert await store.events("a", after=(1, 0)) == [((2, 0), b'"the second text"')]
        assert await store.events("b") == [((1, 0), b'"of another"')]
        assert [r.task.id for r in await store.find()][:2] == ["a", "b"]
        store.close()
    store = FileStore(folder, files=UnsyncedFiles())
    await store.commit(step(running("a")), ended(step(running("a"))))
    assert await store.prune(LATER + timedelta(days=1), limit=1) == 1
    with pytest.raises(TaskNotFound):
        await store.load("a")
    store.close()


@pytest.mark.parametrize("version", [4, 5])
async def test_a_damaged_frame_that_leads_past_others_to_the_table_says_which_events_are_lost(
    tmp_path: Path, version: int
) -> None:
    """Its link is blank, so the frames between the table and it are not found."""
    folder = tmp_path / "state"
    store = FileStore(folder, files=UnsyncedFiles())
    record = running("the one")
    await store.insert(record, events(record))
    store.close()
    await compact(folder)
    store = FileStore(folder, files=UnsyncedFiles())
    for _ in range(4):
        await store.commit(record, step(record), events(step(record)))
        record = step(record)
    store.close()
    head = len("the one").to_bytes(2, "little") + version.to_bytes(4, "little")
    damage(folder, head, unlink)
    store = FileStore(folder, files=UnsyncedFiles())
    with pytest.raises(StoreError, match=f"the events up to version {version - 1}"):
        await store.events("the one")
    store.close()


async def test_a_damaged_change_is_unreadable_and_what_follows_it_too(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    record = running("bad")
    await store.insert(record, events(record))
    for n in range(5):
        after = step(record).changed(state=b'{"text":"state number %d"}' % n)
        await store.commit(record, after, events(after))
        record = after
    await store.insert(running("good"))
    store.close()
    damage(tmp_path / "state", b"state number 2", flip)
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    assert [record.task.id for record in await store.find()] == ["good"]
    with pytest.raises(Unreadable) as raised:
        await store.load("bad")
    assert raised.value.version == 6
    assert raised.value.status is TaskStatus.RUNNING
    with pytest.raises(Unreadable):
        await store.commit(record.changed(version=3), record.changed(version=4))
    with pytest.raises(Unreadable):
        await store.claim("bad", "h")
    assert (await store.changed({"bad": 0}))["bad"] == 6
    store.close()


async def test_the_place_of_a_damaged_last_change_is_told(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    record = running("bad")
    await store.insert(record)
    for n in (2, 3):
        after = step(record).changed(state=b'{"text":"state number %d"}' % n)
        await store.commit(record, after)
        record = after
    store.close()
    damage(tmp_path / "state", b"state number 3", flip)
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    with pytest.raises(Unreadable, match="is damaged at version 3, in the log at"):
        await store.load("bad")
    store.close()


async def test_in_a_batch_of_many_only_the_damaged_frame_is_unreadable(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    await store.insert(running("before"))
    records = [running(f"task {n}", instructions=f"text number {n}") for n in range(20)]
    await asyncio.gather(*(store.insert(record, events(record)) for record in records))
    await store.insert(running("behind"))
    store.close()
    damage(tmp_path / "state", b"text number 7", flip)
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    assert [e.task_id for e in await store.unreadable()] == ["task 7"]
    assert len(await store.find()) == 21
    await store.insert(running("last"))
    store.close()
    again = FileStore(tmp_path / "state", files=UnsyncedFiles())
    assert (await again.load("last")).version == 1
    again.close()


async def test_a_living_owner_keeps_its_task_from_being_buried(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    await store.insert(running("bad", owner="h:1"))
    record = await store.load("bad")
    after = step(record).changed(state=b'{"text":"the one that is hit"}')
    await store.commit(record, after)
    store.close()
    damage(tmp_path / "state", b"the one that is hit", flip)
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    await store.join("h")
    with pytest.raises(StoreError, match=r"h:1.*alive") as raised:
        await store.bury("bad", 2)
    assert not isinstance(raised.value, Unreadable)
    await store.leave("h")
    assert (await store.bury("bad", 2)).owner is None
    store.close()


@pytest.mark.rule("R22")
async def test_a_living_owner_is_known_though_the_insert_that_names_it_is_damaged(
    tmp_path: Path,
) -> None:
    """No earlier frame says who owns the Task."""
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    await store.join("h")
    await store.insert(running("bad", owner="h:1", instructions=MARK))
    store.close()
    damage(tmp_path / "state", MARK.encode(), flip)
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    await store.join("h")
    with pytest.raises(StoreError, match=r"h:1.*alive") as raised:
        await store.bury("bad", 1)
    assert not isinstance(raised.value, Unreadable)
    store.close()


async def test_bytes_that_are_no_record_are_unreadable_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Well written and checksummed, and yet no record: a missing id, an unknown status, a date."""
    spoiled: list[dict[str, Any]] = [
        {"st": "asleep"}, {"i": {"schema": 1}}, {"v": "two"}, {"due": "tomorrow"}, {"i": 7},
        {"i": {"schema": 3}},
    ]  # fmt: skip
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    for n, change in enumerate(spoiled):
        await store.insert(running(f"good {n}"))
        with monkeypatch.context() as patch:
            patch.setattr(
                "agentic_kernel_file.frames.encode_record",
                lambda record, change=change: json.dumps(
                    {**json.loads(encode_record(record)), **change}
                ).encode(),
            )
            await store.insert(running(f"bad {n}"), [b"{}"])
    store.close()
    for _ in range(3):
        store = FileStore(tmp_path / "state", files=UnsyncedFiles())
        listed = await store.unreadable()
        assert [e.task_id for e in listed] == [f"bad {n}" for n in range(len(spoiled))]
        assert [e.newer for e in listed] == [False] * 5 + [True]
        found = [record.task.id for record in await store.find(limit=4)]
        assert found == [f"good {n}" for n in range(4)]
        assert await store.events("bad 0") == [((1, 0), b"{}")]
        store.close()
        await compact(tmp_path / "state")
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    with pytest.raises(Unreadable) as raised:
        await store.bury("bad 5", 1)
    assert raised.value.newer
    assert (await store.bury("bad 5", 1, force=True)).version == 2
    await store.bury("bad 0", 1, at=datetime.now(UTC))
    assert len(await store.unreadable()) == 4
    store.close()


async def test_damage_to_the_id_in_a_table_hides_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    await filled(folder, table=True)
    table = next(folder.glob("table-*"))
    data = bytearray(table.read_bytes())
    places = [n for n in range(len(data)) if data.startswith(b"good 2", n)]
    for place in places[:1]:  # the block's; the list of ids has it too
        data[place + 5] ^= 0x80
    table.write_bytes(data)
    store = FileStore(folder, files=UnsyncedFiles())
    assert [e.task_id for e in await store.unreadable()] == ["good 2"]
    for task_id in ("good 0", "good 1", "bad", "good 3"):
        assert (await store.load(task_id)).version == 2
    assert [r.task.id for r in await store.find(after="good 1", limit=2)] == ["good 3", "tail"]
    store.close()


@pytest.mark.parametrize("length", [10, 300])
async def test_an_id_that_is_damaged_in_a_tables_list_is_read_beside_its_record(
    tmp_path: Path, length: int
) -> None:
    folder = tmp_path / "state"
    task_id = f"bad {'x' * (length - 4)}"
    await filled(folder, table=True, bad=running(task_id))
    table = next(folder.glob("table-*"))
    data = bytearray(table.read_bytes())
    data[data.rindex(task_id.encode()) + length - 1] ^= 1
    table.write_bytes(data)
    store = FileStore(folder, files=UnsyncedFiles())
    assert (await store.load(task_id)).version == 2
    assert [r.task.id for r in await store.find(limit=2)] == [task_id, "good 0"]
    assert await store.unreadable() == []
    store.close()


async def test_a_table_whose_footer_is_damaged_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    await filled(folder, table=True)
    table = next(folder.glob("table-*"))
    data = bytearray(table.read_bytes())
    data[-40] ^= 1
    table.write_bytes(data)
    with pytest.raises(Damaged, match=f"^{re.escape(str(table))} "):
        await FileStore(folder).find()
