"""A crash at any operation loses nothing that was acknowledged and leaves nothing unreadable."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Awaitable
from datetime import timedelta
from itertools import islice
from pathlib import Path

import pytest

from agentic_kernel import KernelError, TaskNotFound
from agentic_kernel_engine import Record
from agentic_kernel_engine.record import owner_name
from agentic_kernel_file import FileStore, Sizes

from .disks import Operation, RecordingFiles, UnsyncedFiles, crash_states
from .records import LATER, all_events, ended, events, running, step

# The disk is played by the tests: it is the same under every interpreter.
pytestmark = pytest.mark.slow

GONE = 0


class Workload:
    """Writes to a store, and what was tried and acknowledged, noted in the disk's trace."""

    def __init__(self, store: FileStore, files: RecordingFiles) -> None:
        self._store = store
        self._files = files
        self.records: dict[tuple[str, int], Record] = {}

    async def insert(self, record: Record) -> Record:
        return await self._try("insert", record, self._store.insert(record, events(record)))

    async def commit(self, before: Record, after: Record) -> Record:
        return await self._try("commit", after, self._store.commit(before, after, events(after)))

    async def claim(self, before: Record, host: str) -> Record:
        version = before.version + 1
        owner = owner_name(host, version)
        after = before.changed(version=version, owner=owner, attempts=before.attempts + 1)
        return await self._try(
            "claim", after, self._store.claim(before.task.id, host, events(after))
        )

    async def prune(self, *task_ids: str) -> None:
        self._files.note("begun", "prune")
        for task_id in task_ids:
            self._files.note("tried", task_id, GONE)
        assert await self._store.prune(LATER + timedelta(hours=1)) == len(task_ids)
        for task_id in task_ids:
            self._files.note("acknowledged", task_id, GONE)

    async def _try(self, kind: str, record: Record, write: Awaitable[object]) -> Record:
        key = record.task.id, record.version
        self.records[key] = record
        self._files.note("begun", kind)
        self._files.note("tried", *key)
        await write
        self._files.note("acknowledged", *key)
        return record


async def everything(work: Workload) -> None:
    """Every kind of write, with segments that fill up and a log that is compacted."""
    kept = [await work.insert(running(f"task {n}", owner="h:1")) for n in range(3)]
    for _ in range(4):
        kept = [await work.commit(record, step(record)) for record in kept]
    done = await work.commit(kept[0], ended(kept[0]))
    await work.prune(done.task.id)
    await work.insert(running(done.task.id, owner="h:1"))
    await work.claim(await work.insert(running("nobody's")), "h")
    for n in range(5):
        kept = [await work.commit(record, step(record)) for record in kept[-2:]]
        if n % 2:
            kept[0] = await work.commit(kept[0], _grown(kept[0]))
    await work.commit(kept[0], ended(kept[0]))


def _grown(before: Record) -> Record:
    """The Task after a commit with a state that is kept apart."""
    return step(before).changed(state=b'"%s"' % (b"x" * 300))


SMALL = Sizes(segment=1 << 11, tail=1 << 12, apart=200)


class Crashes:
    """A finished workload on a recorded disk, to be looked at after a crash anywhere in it."""

    def __init__(self, folder: Path, files: RecordingFiles) -> None:
        self._folder = folder
        self.files = files
        self._records: dict[tuple[str, int], Record] = {}

    async def work(self) -> None:
        state = self._folder / "state"
        state.mkdir()
        store = FileStore(state, files=self.files, sizes=SMALL)
        await store.join("h")
        work = Workload(store, self.files)
        await everything(work)
        compacted()
        store.close()
        self._records = work.records

    async def look(self, *, every: int = 1) -> Counter[str]:
        """Check each ``every``-th state; return how many there were for each kind of write."""
        looked = Counter[str]()
        for place, way, state in islice(crash_states(self.files.trace), 0, None, every):
            past = self.files.trace[: place + 1]
            crashed = _write_out(self._folder / f"{place}-{way}", state)
            await _check(crashed, past, self._records, SMALL)
            begun = [str(rest[1]) for what, *rest in past if what == "note" and rest[0] == "begun"]
            compacting = "table" in str(self.files.trace[place])
            looked["compaction" if compacting else begun[-1] if begun else "opening"] += 1
        return looked


@pytest.mark.parametrize(
    # A fifth meets each of the six ways, because five and six have no common factor.
    "every",
    [5, pytest.param(1, marks=pytest.mark.torture)],
    ids=["a fifth", "all"],
)
async def test_no_crash_loses_what_was_acknowledged(tmp_path: Path, every: int) -> None:
    crashes = Crashes(tmp_path, RecordingFiles(tmp_path / "state"))
    await crashes.work()
    done = {(operation[0], str(operation[1])[:5]) for operation in crashes.files.trace}
    assert done >= {
        ("create", "table"), ("remove", "log-0"), ("sync folder", ""), ("create", "state"),
        ("remove", "state"), ("sync folder", "state"),
    }  # fmt: skip
    looked = await crashes.look(every=every)
    assert set(looked) == {"opening", "insert", "commit", "claim", "prune", "compaction"}
    assert looked.total() > 500 / every


class NoDataSync(RecordingFiles):
    def sync_data(self, fd: int) -> None:
        pass


class NoFileSync(RecordingFiles):
    def sync(self, fd: int) -> None:
        if fd not in self.opened:
            super().sync(fd)

    def sync_data(self, fd: int) -> None:
        super().sync(fd)


class NoFolderSync(RecordingFiles):
    def sync(self, fd: int) -> None:
        if fd in self.opened:
            super().sync(fd)


@pytest.mark.parametrize("disk", [NoDataSync, NoFileSync, NoFolderSync])
async def test_the_enumeration_notices_a_missing_sync(
    tmp_path: Path, disk: type[RecordingFiles]
) -> None:
    crashes = Crashes(tmp_path, disk(tmp_path / "state"))
    await crashes.work()
    with pytest.raises((AssertionError, KernelError)):
        await crashes.look()


def compacted() -> None:
    """Wait for the end of every compaction of this process."""
    for thread in threading.enumerate():
        if thread.name == "file-store-compaction":
            thread.join()


def _write_out(folder: Path, state: dict[str, bytes]) -> Path:
    folder.mkdir()
    for path in sorted(state):
        if path.endswith("/"):
            (folder / path).mkdir()
    for path, content in state.items():
        if not path.endswith("/"):
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_bytes(content)
    return folder


async def _check(
    folder: Path, trace: list[Operation], records: dict[tuple[str, int], Record], sizes: Sizes
) -> None:
    acknowledged: dict[str, int] = {}
    possible: dict[str, set[int]] = {}
    for what, *rest in trace:
        if what == "note" and rest[0] != "begun":
            outcome, task_id, version = rest
            if outcome == "tried":
                possible.setdefault(task_id, {acknowledged.get(task_id, GONE)}).add(version)
            else:
                acknowledged[task_id] = version
                possible[task_id] = {version}
    store = FileStore(folder, files=UnsyncedFiles(), sizes=sizes)
    try:
        for task_id, versions in possible.items():
            found = await _found(store, task_id)
            assert (GONE if found is None else found.version) in versions
            if found is not None:
                assert found == records[task_id, found.version]
                assert await store.events(task_id) == all_events(found.version)
        for record in await store.find():
            if not record.task.status.terminal:
                await store.commit(record, step(record), events(step(record)))
        await store.insert(running("afterwards"), [b"1"])
    finally:
        store.close()
    again = FileStore(folder, files=UnsyncedFiles(), sizes=sizes)
    try:
        for record in await again.find():
            if record.task.id != "afterwards":
                assert await again.events(record.task.id) == all_events(record.version)
        assert (await again.load("afterwards")).version == 1
    finally:
        again.close()


async def _found(store: FileStore, task_id: str) -> Record | None:
    try:
        return await store.load(task_id)
    except TaskNotFound:
        return None
