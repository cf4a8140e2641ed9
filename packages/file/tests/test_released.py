"""Folders that release 0.1.0 wrote are read, searched, compacted and raised by this version."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Record
from agentic_kernel_file import FileStore, Sizes

from .disks import UnsyncedFiles
from .records import events, paused, running, step
from .test_crashes import compacted

WRITTEN = Path(__file__).with_name("released")
AT = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
TASKS = [f"task {n:02}" for n in range(12)]
ALL = sorted([*TASKS, "parent", "child 1", "child 2", "edge", "owned"])
NEWEST = ["owned", "edge", "child 2", "child 1", "parent"]


@pytest.fixture(params=["log", "compacted"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a folder of 0.1.0, to be written to."""
    copy = tmp_path / "state"
    shutil.copytree(WRITTEN / request.param, copy)
    (copy / "hosts").mkdir(exist_ok=True)  # git keeps no empty folder
    return copy


def schema(folder: Path) -> int:
    return int(json.loads((folder / "agentic-kernel.json").read_text())["schema"])


def ids(records: object) -> list[str]:
    assert isinstance(records, list)
    return [record.task.id for record in records]


async def newest_by_pages(store: FileStore, limit: int) -> list[str]:
    found: list[Record] = []
    while True:
        after = (found[-1].task.created_at, found[-1].task.id) if found else None
        page = await store.find(newest=True, after=after, limit=limit)
        found += page
        if len(page) < limit:
            return ids(found)


async def check(store: FileStore) -> None:
    """Everything is there, however it is asked for."""
    assert ids(await store.find()) == ALL
    assert list(await store.unreadable()) == []
    made = sorted(TASKS, key=lambda id: (int(id[-2:]) * 7 % 12, id), reverse=True)
    assert await newest_by_pages(store, 4) == NEWEST + made
    assert ids(await store.find(labels={"team": "red"})) == TASKS[1::2]
    assert ids(await store.find(agent="crew/bob", newest=True, limit=2)) == ["task 03", "task 06"]
    since, before = AT + timedelta(minutes=3), AT + timedelta(minutes=6)
    found = await store.find(created_from=since, created_before=before)
    assert {(r.task.created_at - AT) // timedelta(minutes=1) for r in found} == {3, 4, 5}
    assert ids(await store.find(realms=[""], status=TaskStatus.RUNNING)) == [
        "child 1", "owned", "parent", "task 05",
    ]  # fmt: skip
    assert ids(await store.find(parent="parent", after="child 1")) == ["child 2"]
    edge = await store.load("edge")
    assert edge.due_at is not None
    assert edge.due_at.utcoffset() == timedelta(0)
    assert ids(await store.find(due=datetime(9999, 12, 30, tzinfo=UTC))) == []
    for record in await store.find():
        texts = [text for _, text in await store.events(record.task.id)]
        assert texts == [
            b'{"version":%d,"index":%d}' % (n, i) for n in range(1, record.version + 1)
            for i in range(2)
        ]  # fmt: skip


async def test_a_folder_of_0_1_0_is_read_and_searched(folder: Path) -> None:
    store = FileStore(folder, files=UnsyncedFiles())
    await check(store)
    store.close()
    assert schema(folder) == 1


async def test_a_folder_of_0_1_0_migrates_at_the_next_compaction(folder: Path) -> None:
    store = FileStore(folder, files=UnsyncedFiles(), sizes=Sizes(segment=1, tail=1))
    for _ in range(3):
        before = await store.load("owned")
        await store.commit(before, step(before), events(step(before)))
        compacted()
    store.close()
    store = FileStore(folder, files=UnsyncedFiles())
    await check(store)
    assert (await store.load("owned")).version == 7
    store.close()
    assert schema(folder) == 1


@pytest.mark.parametrize("field", [{"realm": "acme"}, {"terms": b"{}"}, {"form": "loop/3"}])
async def test_the_first_insert_that_0_1_0_must_not_touch_raises_the_schema(
    folder: Path, field: dict[str, object]
) -> None:
    store = FileStore(folder, files=UnsyncedFiles())
    await store.insert(running("plain"))
    assert schema(folder) == 1
    new = running("new").changed(**field)
    await store.insert(new)
    assert schema(folder) == 2
    store.close()
    store = FileStore(folder, files=UnsyncedFiles())
    assert await store.load("new") == new
    store.close()


async def test_the_first_commit_that_0_1_0_must_not_touch_raises_the_schema(folder: Path) -> None:
    store = FileStore(folder, files=UnsyncedFiles())
    before = await store.load("owned")
    after = step(before).changed(form="loop/3")
    await store.commit(before, after)
    assert schema(folder) == 2
    assert await store.load("owned") == after
    store.close()


async def test_a_refused_write_raises_no_schema(folder: Path) -> None:
    store = FileStore(folder, files=UnsyncedFiles())
    before = await store.load("owned")
    await store.commit(before, step(before))
    with pytest.raises(Exception, match="moved on"):
        await store.commit(before, paused(before).changed(form="loop/3"))
    assert schema(folder) == 1
    store.close()
