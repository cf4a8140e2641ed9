"""EIO and ENOSPC at any operation of any mutator: a typed error, and the state before intact."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from agentic_kernel import TaskNotFound
from agentic_kernel_engine import Conflict, Record, StoreError, UnknownOutcome
from agentic_kernel_file import FileStore, Sizes
from agentic_kernel_file.tip import Tip

from .disks import FailingFiles, HeldFiles, UnsyncedFiles
from .records import LATER, all_events, ended, events, running, step
from .test_states import removed

# The disk is played by the tests: it is the same under every interpreter.
pytestmark = pytest.mark.slow

ENOUGH = 120
ROOMY = Sizes()
CROWDED = Sizes(segment=1, tail=1 << 30)
"""Every batch begins a segment."""
LARGE = b'[%d,"' + b"x" * 200_000 + b'"]'


class Bench:
    """A store on a disk that can fail, with one Task of each kind."""

    def __init__(self, folder: Path, sizes: Sizes) -> None:
        self.folder = folder
        self.files = FailingFiles()
        self.store = FileStore(folder, files=self.files, sizes=sizes)

    async def prepare(self) -> None:
        await self.store.join("h")
        large = running("large", owner="h:1").changed(state=LARGE % 0)
        for record in (running("mine", owner="h:1"), running("free"), running("old"), large):
            await self.store.insert(record, events(record))
        old = running("old")
        await self.store.commit(old, ended(old), events(ended(old)))

    async def insert(self) -> None:
        record = running("new")
        await self.store.insert(record, events(record))

    async def commit(self) -> None:
        before = await self.store.load("mine")
        await self.store.commit(before, step(before), events(step(before)))

    async def commit_large(self) -> None:
        """A state that is kept in a file of its own."""
        await self._commit_state("mine")

    async def commit_another_large(self) -> None:
        """One in the place of another one."""
        await self._commit_state("large")

    async def _commit_state(self, task_id: str) -> None:
        before = await self.store.load(task_id)
        after = step(before).changed(state=LARGE % before.version)
        await self.store.commit(before, after, events(after))

    async def claim(self) -> None:
        claimed = await self.store.claim("free", "h", events(step(running("free"))))
        assert claimed is not None

    async def prune(self) -> None:
        assert await self.store.prune(LATER + timedelta(days=1)) == 1

    async def join(self) -> None:
        await self.store.join("other")

    async def state(self) -> dict[str, Record]:
        """Everything, after looking at it twice: with this store, and with a fresh one."""
        removed()
        fresh = FileStore(self.folder, files=UnsyncedFiles())
        try:
            assert await fresh.unreadable() == []
            found = list(await fresh.find())
            for record in found:
                texts = await fresh.events(record.task.id)
                assert texts == all_events(record.version)
                assert await self.store.events(record.task.id) == texts
            assert list(await self.store.find()) == found
        finally:
            fresh.close()
        return {record.task.id: record for record in found}


MUTATORS: list[Callable[[Bench], Awaitable[None]]] = [
    Bench.insert, Bench.commit, Bench.commit_large, Bench.commit_another_large, Bench.claim,
    Bench.prune, Bench.join,
]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "stays"),
    [(errno.EIO, False), (errno.ENOSPC, True)],
    ids=["EIO once", "ENOSPC from then on"],
)
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param(ROOMY, id="append"),
        pytest.param(CROWDED, id="new segment", marks=pytest.mark.torture),
    ],
)
@pytest.mark.parametrize("mutate", MUTATORS, ids=lambda mutate: mutate.__name__)
async def test_a_failing_disk_leaves_the_state_before(
    tmp_path: Path,
    mutate: Callable[[Bench], Awaitable[None]],
    sizes: Sizes,
    error: int,
    stays: bool,
) -> None:
    failed: set[str] = set()
    for at in range(ENOUGH):
        bench = Bench(tmp_path / str(at), sizes)
        await bench.prepare()
        before = await bench.state()
        bench.files.arm(at, error, stays=stays)
        landed = unknown = False
        refusal = ""
        try:
            await mutate(bench)
            landed = True
        except UnknownOutcome:
            unknown = True
        except StoreError as error_raised:
            refusal = str(error_raised)
        hit = bench.files.failed
        bench.files.heal()
        assert landed or unknown or str(bench.folder) in refusal
        after = await bench.state()
        if unknown:
            assert stays, f"the outcome is unknown although only {hit} failed"
        assert (after == before) or landed or unknown
        if not landed and after == before:
            await mutate(bench)  # the disk is well again
            after = await bench.state()
        assert mutate is Bench.join or after != before
        await bench.insert() if mutate is not Bench.insert else None
        bench.store.close()
        if not hit:
            break
        failed.update(hit)
    else:
        pytest.fail(f"still failing at operation {ENOUGH}")
    if mutate is not Bench.join:
        assert failed >= {"try_lock", "write", "sync_data"}


@pytest.mark.rule("R5")
@pytest.mark.parametrize("write", ["commit", "insert"])
async def test_a_write_whose_caller_is_cancelled_over_and_over_is_settled_first(
    write: str, tmp_path: Path
) -> None:
    held = HeldFiles()
    store = FileStore(tmp_path / "state", files=held)
    mine, after = running("mine"), step(running("mine"))
    if write == "commit":
        await store.insert(mine)
    held.hold = True
    writing = asyncio.create_task(
        store.commit(mine, after) if write == "commit" else store.insert(after)
    )
    assert await asyncio.to_thread(held.reached.wait, 30)
    for _ in range(5):
        writing.cancel()
        await asyncio.sleep(0.01)
        assert not writing.done()
    held.go.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert await store.load("mine") == after
    store.close()


async def test_a_failed_sync_seals_the_segment_for_every_process(tmp_path: Path) -> None:
    """What was written before the failure is never read, by nobody, and positions go on."""
    bench = Bench(tmp_path / "state", ROOMY)
    await bench.prepare()
    other = FileStore(bench.folder, files=UnsyncedFiles())
    mine = await other.load("mine")
    bench.files.fail_next_sync = True
    with pytest.raises(StoreError) as raised:
        await bench.store.commit(mine, step(mine), [b"lost"])
    assert not isinstance(raised.value, UnknownOutcome)
    assert await bench.store.load("mine") == mine
    await other.commit(mine, step(mine), events(step(mine)))
    assert await bench.store.load("mine") == step(mine)
    assert await bench.store.events("mine") == all_events(2)
    with pytest.raises(Conflict):
        await bench.store.commit(mine, step(mine))
    await bench.store.commit(step(mine), step(step(mine)), events(step(step(mine))))
    assert await other.events("mine") == all_events(3)
    with pytest.raises(TaskNotFound):
        await other.load("new")
    other.close()
    bench.store.close()


@pytest.mark.parametrize("looked", [False, True])
async def test_what_another_process_gave_up_meanwhile_is_not_acknowledged(
    looked: bool, tmp_path: Path
) -> None:
    """Whether or not this process's readers have heard of it before its writer does."""
    bench = Bench(tmp_path / "state", ROOMY)
    await bench.prepare()
    held = HeldFiles()
    slow = FileStore(bench.folder, files=held)
    mine, free = await slow.load("mine"), await bench.store.load("free")
    held.hold = True
    writing = asyncio.create_task(slow.commit(mine, step(mine), [b"lost"]))
    assert await asyncio.to_thread(held.reached.wait, 10)
    bench.files.fail_next_sync = True
    with pytest.raises(StoreError):
        await bench.store.commit(free, step(free), [b"lost as well"])
    if looked:
        assert await slow.load("mine") == mine
    held.go.set()
    with pytest.raises(StoreError, match="gave this write up"):
        await writing
    assert await slow.load("mine") == mine
    await slow.commit(mine, step(mine), events(step(mine)))
    assert await bench.store.load("mine") == step(mine)
    slow.close()
    bench.store.close()


class HeldFailing(HeldFiles):
    """A disk whose held sync fails in the end."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = False

    def sync_data(self, fd: int) -> None:
        super().sync_data(fd)
        if self.fails:
            self.fails = False
            raise OSError(errno.EIO, "Input/output error")


async def test_what_was_written_behind_a_batch_that_is_given_up_is_given_up_too(
    tmp_path: Path,
) -> None:
    """Its positions are not used again, so nobody takes another batch for it."""
    bench = Bench(tmp_path / "state", ROOMY)
    await bench.prepare()
    disks = HeldFailing(), HeldFiles()
    first, behind = (FileStore(bench.folder, files=disk) for disk in disks)
    mine, free = await first.load("mine"), await behind.load("free")
    writing = []
    for store, disk, record in zip((first, behind), disks, (mine, free), strict=True):
        disk.hold = True
        writing.append(asyncio.create_task(store.commit(record, step(record), [b"lost"])))
        assert await asyncio.to_thread(disk.reached.wait, 10)
    disks[0].fails = True
    for disk, commit in zip(disks, writing, strict=True):
        disk.go.set()
        with pytest.raises(StoreError) as raised:
            await commit
        assert not isinstance(raised.value, UnknownOutcome)
    for record in (mine, free):
        assert await bench.store.load(record.task.id) == record
        await first.commit(record, step(record), events(step(record)))
        assert await behind.load(record.task.id) == step(record)
    for store in (first, behind, bench.store):
        store.close()


class BrokenHosts(UnsyncedFiles):
    """A disk that can neither lock nor remove a file once it is broken."""

    broken = False

    def try_lock(self, fd: int) -> bool:
        self._check()
        return super().try_lock(fd)

    def remove(self, folder: int, name: str) -> None:
        self._check()
        super().remove(folder, name)

    def _check(self) -> None:
        if self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


async def test_a_failing_disk_is_told_to_a_host_that_leaves_and_to_one_that_asks_for_it(
    tmp_path: Path,
) -> None:
    files = BrokenHosts()
    store, other = FileStore(tmp_path / "state", files=files), FileStore(tmp_path / "state")
    await store.join("mine")
    await other.join("theirs")
    files.broken = True
    with pytest.raises(StoreError, match="cannot write to"):
        await store.leave("mine")
    with pytest.raises(StoreError, match="cannot read"):
        await store.alive("theirs:1")
    files.broken = False
    assert [await store.alive(owner) for owner in ("mine:1", "theirs:1")] == [False, True]
    store.close()
    other.close()


async def test_the_writer_keeps_the_entries_of_its_last_batch_alone(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    for n in range(3):
        await store.insert(running(f"{n}"))
        await store.commit(running(f"{n}"), ended(running(f"{n}")))
    assert store._open is not None
    assert store._open.writer._tip._fresh.keys() <= {"2"}
    store.close()


async def test_a_defect_of_the_writer_hangs_no_later_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(tmp_path / "state")
    await store.insert(running("one"))

    def broken(*_: object) -> None:
        monkeypatch.undo()
        raise ValueError("a defect behind the sync")

    monkeypatch.setattr(Tip, "settle", broken)
    outcome = await asyncio.gather(store.insert(running("two")), return_exceptions=True)
    assert outcome[0] is None or isinstance(outcome[0], UnknownOutcome)
    await store.insert(running("three"))
    found = [record.task.id for record in await FileStore(tmp_path / "state").find()]
    assert found == ["one", "three", "two"]
    store.close()
