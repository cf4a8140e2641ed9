"""Growth, counted in bytes and never in seconds."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Conflict, Record
from agentic_kernel_engine.stored import decode_change
from agentic_kernel_file import FileStore, Sizes

from .disks import CountingFiles, UnsyncedFiles
from .records import LATER, ended, events, paused, running, step
from .test_crashes import compacted

TASKS = 12_000
TEXT = b'{"type":"run.delta","at":1893553445678901,"data":{"text":"%b"}}' % (b"x" * 200)


async def _stepped(store: FileStore, record: Record, count: int) -> Record:
    for _ in range(count):
        await store.commit(record, step(record), [TEXT])
        record = step(record)
    return record


def _used(folder: Path) -> int:
    """Bytes of all files, without the zeros that were allocated ahead."""
    return sum(len(path.read_bytes().rstrip(b"\0")) for path in folder.iterdir() if path.is_file())


async def test_bytes_per_step_are_few_and_do_not_grow_with_history(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    record = running(instructions="x" * 50_000)
    await store.insert(record)
    record = await _stepped(store, record, 10)
    sizes = []
    for skipped in (0, 980):
        record = await _stepped(store, record, skipped)
        before = _used(store.folder)
        record = await _stepped(store, record, 10)
        sizes.append((_used(store.folder) - before) / 10)
    store.close()
    early, late = sizes
    assert early <= 450
    assert late <= 1.1 * early


async def test_few_appends_change_the_length_of_their_file(tmp_path: Path) -> None:
    """Zeros are allocated ahead, because a sync of a longer file writes its metadata, too."""
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    record = running("a")
    await store.insert(record)
    (log,) = (tmp_path / "state").glob("log-*")
    lengths = {log.stat().st_size}
    for _ in range(50):
        await store.commit(record, step(record), [b'"%s"' % (b"x" * 20_000)])
        record = step(record)
        lengths.add(log.stat().st_size)
    store.close()
    assert max(lengths) > 1_000_000
    assert len(lengths) <= 4


async def test_a_compaction_keeps_the_tasks_that_only_the_table_has(tmp_path: Path) -> None:
    """Tasks of the table are moved in the log, or pruned, before and after others that ended."""
    folder, records = tmp_path / "state", {name: running(name) for name in "abcdefgh"}
    records |= {name: ended(records[name], LATER + timedelta(days=2)) for name in "degh"}
    records["c"] = ended(records["c"])
    for moving in ("b", "bf", "af"):  # each round ends in a new table
        # A store that has read a Task keeps it in the index, too: so each round has a new store.
        store = FileStore(folder, files=UnsyncedFiles(), sizes=Sizes(segment=1 << 14, tail=1 << 15))
        tables = {path.name for path in folder.glob("table-*")}
        if not tables:
            for record in records.values():
                await store.insert(record)
        elif "c" in records:
            assert await store.prune(LATER + timedelta(days=1)) == 1
            del records["c"]
        for name in moving:
            records[name] = await _stepped(store, records[name], 200)
        compacted()
        store.close()
        assert {path.name for path in folder.glob("table-*")} != tables
    store = FileStore(folder, files=UnsyncedFiles())
    assert {name: await store.load(name) for name in records} == records
    assert [each.task.id for each in await store.find()] == sorted(records)
    store.close()


async def test_bytes_per_step_stay_flat_when_the_log_is_compacted(tmp_path: Path) -> None:
    sizes = Sizes(segment=1 << 14, tail=1 << 15)
    store = FileStore(tmp_path / "state", files=UnsyncedFiles(), sizes=sizes)
    record = running()
    await store.insert(record)
    record = await _stepped(store, record, 2000)
    compacted()
    assert _used(store.folder) / 2000 <= 450
    assert len(await store.events(record.task.id, limit=5000)) == 2000
    page = await store.events(record.task.id, after=(1000, -1), limit=10)
    assert [place for place, _ in page] == [(1000 + n, 0) for n in range(10)]
    store.close()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of very many Tasks, compacted: most ended, every thousandth paused."""
    folder = tmp_path_factory.mktemp("many") / "state"

    async def fill() -> None:
        sizes = Sizes(segment=1 << 20, tail=1 << 30)
        store = FileStore(folder, files=UnsyncedFiles(), sizes=sizes)
        for start in range(0, TASKS, 1000):
            records = [running(f"task {n:06}") for n in range(start, start + 1000)]
            await asyncio.gather(*(store.insert(record) for record in records))
            after = [paused(records[0]), *(ended(record) for record in records[1:])]
            await asyncio.gather(*map(store.commit, records, after))
        store.close()
        store = FileStore(folder, files=UnsyncedFiles(), sizes=Sizes(segment=1, tail=1))
        await store.insert(running("zz last"))
        compacted()
        await store.insert(running("zz tail"))
        store.close()

    asyncio.run(fill())
    return folder


async def _cost(folder: Path, **filters: object) -> tuple[list[str], int, int]:
    files = CountingFiles()
    store = FileStore(folder, files=files)
    page = await store.find(**filters)  # type: ignore[arg-type]
    store.close()
    return [record.task.id for record in page], files.reads, files.bytes_read


@pytest.mark.slow
async def test_a_page_of_very_many_tasks_reads_little_more_than_the_page(many: Path) -> None:
    ids, reads, read = await _cost(many, after="task 005000", limit=100)
    assert ids == [f"task {n:06}" for n in range(5_001, 5_101)]
    assert reads < 1_000
    assert read < 512 << 10


@pytest.mark.slow
async def test_a_page_by_status_does_not_look_at_the_others(many: Path) -> None:
    ids, reads, read = await _cost(many, status=TaskStatus.PAUSED, after="task 001000", limit=10)
    assert ids == [f"task {n:06}" for n in range(2_000, 12_000, 1000)]
    assert reads < 500
    assert read < 256 << 10
    ids, reads, read = await _cost(many, status=TaskStatus.SUCCESS, after="task 010998", limit=3)
    assert ids == ["task 010999", "task 011001", "task 011002"]
    assert reads < 500
    assert read < 256 << 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "filters", [{"claimable": True}, {"owner": "h"}, {"parent": "task 000001"}]
)
async def test_what_moves_is_found_without_the_tasks_at_rest(
    many: Path, filters: dict[str, object]
) -> None:
    ids, reads, read = await _cost(many, **filters)
    assert ids == (["zz last", "zz tail"] if "claimable" in filters else [])
    assert reads < 500
    assert read < 256 << 10


@pytest.mark.slow
async def test_one_task_of_very_many_is_found_by_a_few_reads(many: Path) -> None:
    files = CountingFiles()
    store = FileStore(many, files=files)
    await store.find(claimable=True)
    before = files.reads
    assert (await store.load("task 007777")).task.status is TaskStatus.SUCCESS
    assert files.reads - before < 100
    store.close()


async def test_following_the_log_decodes_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that asks what changed does not pay for what others store."""
    writing = FileStore(tmp_path / "state", files=UnsyncedFiles())
    following = FileStore(tmp_path / "state", files=UnsyncedFiles())
    record = running("a")
    await writing.insert(record, events(record))
    assert await following.changed({"a": 0}) == {"a": 1}
    monkeypatch.setattr("agentic_kernel_file.stored.decode_change", None)
    monkeypatch.setattr("agentic_kernel_file.stored.decode_record", None)
    for _ in range(50):
        await writing.commit(record, step(record), events(step(record)))
        record = step(record)
        assert await following.changed({"a": record.version - 1}) == {"a": record.version}
    writing.close()
    following.close()


class HeldFiles(UnsyncedFiles):
    """A disk whose syncs can be held up."""

    def __init__(self) -> None:
        self.syncing = threading.Event()
        self.go = threading.Event()
        self.go.set()

    def sync_data(self, fd: int) -> None:
        self.syncing.set()
        assert self.go.wait(30)


async def test_a_refusal_costs_no_more_after_a_long_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It brings the record that won, built on the one that was read and not on the first one."""
    held = HeldFiles()
    ours = FileStore(tmp_path / "state", files=UnsyncedFiles())
    theirs = FileStore(tmp_path / "state", files=held)
    record = running("a")
    await ours.insert(record)
    record = await _stepped(ours, record, 300)
    assert await ours.load("a") == await theirs.load("a") == record
    held.syncing.clear()
    held.go.clear()
    winning = asyncio.create_task(theirs.commit(record, step(record)))
    assert await asyncio.to_thread(held.syncing.wait, 30)
    decoded = []

    def counted(before: Record, text: bytes) -> Record:
        decoded.append(text)
        return decode_change(before, text)

    monkeypatch.setattr("agentic_kernel_file.stored.decode_change", counted)
    try:
        with pytest.raises(Conflict) as refused:
            await ours.commit(record, step(record))
    finally:
        held.go.set()
        await winning
    assert refused.value.latest == step(record)
    assert len(decoded) < 10
    ours.close()
    theirs.close()
