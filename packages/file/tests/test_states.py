"""Large states are kept in files of their own, and other commits do not wait for them."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from agentic_kernel_engine import Conflict, Record, StoreError, UnknownOutcome, Unreadable
from agentic_kernel_file import FileStore, Sizes, manifest

from .disks import FailingFiles, HeldFiles, UnsyncedFiles
from .records import LATER, ended, events, paused, running, step
from .test_crashes import compacted

LARGE = 100_000


def large(before: Record, letter: str = "x") -> Record:
    return step(before).changed(state=b'"%s"' % (letter.encode() * LARGE))


def state_files(folder: Path) -> list[Path]:
    states = folder / "states"
    return list(states.iterdir()) if states.is_dir() else []


def removed() -> None:
    """Wait for what the store's threads still remove."""
    for thread in threading.enumerate():
        if thread.name == "file-store-disk":
            thread.join()


async def test_a_large_state_is_in_a_file_of_its_own_and_reads_back(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    store = FileStore(folder, files=UnsyncedFiles())
    record = running("a")
    await store.insert(record)
    await store.insert(running("b").changed(state=b'"%s"' % (b"y" * LARGE)))
    assert len(state_files(folder)) == 1
    for letter in "pqr":
        after = large(record, letter)
        await store.commit(record, after, events(after))
        record = after
    removed()
    assert len(state_files(folder)) == 2  # of each Task the latest alone
    assert store._open is not None
    reader = store._open.reader
    with reader.lock:  # `current`, because the writer updates the catalog after it has answered
        named = set(reader.current().index.states)
    assert named == {path.name for path in state_files(folder)}
    log = sum(len(path.read_bytes().rstrip(b"\0")) for path in folder.glob("log-*"))
    assert log < 5000
    other = FileStore(folder, files=UnsyncedFiles())
    assert await other.load("a") == record
    assert await other.load("b") == await store.load("b")
    follows = step(record).changed(state=record.state)
    await store.commit(record, follows)  # the state stays what it was
    assert await other.load("a") == follows
    small = step(follows)
    await store.commit(follows, small)
    removed()
    assert len(state_files(folder)) == 1
    assert await other.load("a") == small
    none = small.changed(version=small.version + 1, state=None)
    await store.commit(small, none)
    again = large(none)
    await store.commit(none, again)
    gone = again.changed(version=again.version + 1, state=None)
    await store.commit(again, gone)
    store.close()
    other.close()
    fresh = FileStore(folder, files=UnsyncedFiles())
    assert await fresh.load("a") == gone
    fresh.close()
    assert json.loads((folder / "agentic-kernel.json").read_text())["schema"] == 2


@pytest.mark.parametrize("then", ["running", "paused", "ended"])
async def test_a_large_state_survives_compactions(tmp_path: Path, then: str) -> None:
    folder = tmp_path / "state"
    store = FileStore(folder, files=UnsyncedFiles())
    record = running("a")
    await store.insert(record)
    after = large(record)
    await store.commit(record, after)
    record = after
    if then != "running":
        after = paused(record) if then == "paused" else ended(record)
        await store.commit(record, after)
        record = after
    store.close()
    for n in range(3):
        store = FileStore(folder, files=UnsyncedFiles(), sizes=Sizes(segment=1, tail=1))
        await store.insert(running(f"tail {n}"))
        compacted()
        removed()
        assert await store.load("a") == record
        assert len(state_files(folder)) == 1
        store.close()
    store = FileStore(folder, files=UnsyncedFiles())
    if then == "ended":
        assert await store.prune(LATER + timedelta(days=1)) == 1
    else:
        after = step(record).changed(state=None)
        await store.commit(record, after)
        assert await store.load("a") == after
    removed()
    assert state_files(folder) == []
    store.close()


async def test_a_claim_keeps_a_large_state(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    record = running("a")
    await store.insert(record)
    after = large(record)
    await store.commit(record, after)
    await store.join("h")
    claimed = await store.claim("a", "h")
    assert claimed is not None
    assert claimed.state == after.state
    store.close()
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    assert await store.load("a") == claimed
    store.close()


async def test_a_refused_or_failed_commit_leaves_no_file(tmp_path: Path) -> None:
    files = FailingFiles()
    store = FileStore(tmp_path / "state", files=files)
    record = running("a")
    await store.insert(record)
    after = large(record)
    await store.commit(record, after)
    with pytest.raises(Conflict):
        await store.commit(record, large(record, "z"))
    removed()
    assert len(state_files(tmp_path / "state")) == 1
    files.fail_next_sync = True  # of a piece of the state
    with pytest.raises(OSError, match="cannot write"):
        await store.commit(after, large(after, "z"))
    removed()
    assert len(state_files(tmp_path / "state")) == 1
    assert await store.load("a") == after
    store.close()


class HeldStates(UnsyncedFiles):
    """A disk whose syncs of whole files and folders take as long as a test likes."""

    def __init__(self) -> None:
        self.hold = False
        self.reached = threading.Event()
        self.go = threading.Event()

    def sync(self, fd: int) -> None:
        if self.hold:
            self.hold = False
            self.reached.set()
            assert self.go.wait(30)


async def test_others_commit_while_a_large_state_is_written(tmp_path: Path) -> None:
    files = HeldStates()
    store = FileStore(tmp_path / "state", files=files)
    one, two = running("a"), running("b")
    await store.insert(one)
    await store.insert(two)
    after = large(one)
    await store.commit(one, after)
    files.hold = True
    writing = asyncio.create_task(store.commit(after, large(after, "z")))
    assert await asyncio.to_thread(files.reached.wait, 30)
    for _ in range(20):
        await store.commit(two, step(two))
        two = step(two)
    assert not writing.done()
    assert await store.load("a") == after
    files.go.set()
    await writing
    assert await store.load("a") == large(after, "z")
    store.close()


async def test_a_cancelled_commit_leaves_no_file_and_the_state_before(tmp_path: Path) -> None:
    files = HeldStates()
    store = FileStore(tmp_path / "state", files=files)
    one = running("a")
    await store.insert(one)
    after = large(one)
    await store.commit(one, after)
    files.hold = True
    writing = asyncio.create_task(store.commit(after, large(after, "z")))
    assert await asyncio.to_thread(files.reached.wait, 30)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    files.go.set()
    removed()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    removed()
    assert await store.load("a") == after
    assert len(state_files(tmp_path / "state")) == 1
    store.close()


async def test_an_orphan_is_removed_and_a_file_under_way_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    files = HeldStates()
    store = FileStore(folder, files=files)
    one = running("a")
    await store.insert(one)
    after = large(one)
    await store.commit(one, after)
    (folder / "states" / ("0" * 32)).write_bytes(b"what a crash left")
    files.hold = True
    writing = asyncio.create_task(store.commit(after, large(after, "z")))
    assert await asyncio.to_thread(files.reached.wait, 30)
    other = FileStore(folder, files=UnsyncedFiles(), sizes=Sizes(segment=1, tail=1))
    await other.insert(running("b"))
    compacted()
    names = {path.name for path in state_files(folder)}
    while "0" * 32 in names:  # the thread that removes it is still at it
        names = await asyncio.to_thread(lambda: {path.name for path in state_files(folder)})
    assert len(names) == 2  # the one in use, and the one under way
    files.go.set()
    await writing
    assert await other.load("a") == large(after, "z")
    other.close()
    store.close()


FORKS = """
import asyncio, os, sys
from agentic_kernel_file import FileStore, Files
sys.path.insert(0, sys.argv[2])
from records import running

class ForksAndDies(Files):
    armed = False

    def sync_data(self, fd):
        if self.armed:
            if os.fork() == 0:
                os.write(1, b"x")
                os.read(0, 1)  # until the test closes the pipe
                os._exit(0)
            os.kill(os.getpid(), 9)

async def main():
    files = ForksAndDies()
    store = FileStore(sys.argv[1], files=files)
    await store.insert(running("a"))
    files.armed = True
    await store.insert(running("b").changed(state=b'"%s"' % (b"x" * 100_000)))

asyncio.run(main())
"""


def forking(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FORKS, folder, Path(__file__).parent],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip


async def test_a_forked_child_keeps_no_file_of_a_write_that_died_with_its_parent(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "state"
    process = forking(folder)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout, process.stdin:
        assert process.stdout.read(1) == b"x"
        assert process.wait() == -signal.SIGKILL
        assert len(state_files(folder)) == 1
        store = FileStore(folder, files=UnsyncedFiles())
        await store.insert(running("c"))
        removed()
        assert state_files(folder) == []
        store.close()
        process.stdin.close()
        assert process.stdout.read() == b""  # the child has ended


@pytest.mark.parametrize("how", ["cut", "flipped", "gone"])
async def test_a_damaged_state_makes_its_task_unreadable_and_no_other(
    tmp_path: Path, how: str
) -> None:
    folder = tmp_path / "state"
    store = FileStore(folder, files=UnsyncedFiles())
    await store.insert(running("a"))
    await store.commit(running("a"), step(running("a")))
    record = await store.load("a")
    await store.commit(record, large(record))
    await store.insert(running("b"))
    store.close()
    (file,) = state_files(folder)
    data = file.read_bytes()
    file.unlink() if how == "gone" else file.write_bytes(
        data[:-1] if how == "cut" else data[:50_000] + b"!" + data[50_001:]
    )
    store = FileStore(folder, files=UnsyncedFiles())
    with pytest.raises(Unreadable, match="state"):
        await store.load("a")
    assert [record.task.id for record in await store.find()] == ["b"]
    assert [error.task_id for error in await store.unreadable()] == ["a"]
    assert (await store.bury("a", 3)).version == 4
    removed()
    assert state_files(folder) == []
    store.close()


async def test_a_reader_whose_state_is_superseded_reads_the_next_one(tmp_path: Path) -> None:
    """The file goes while a reader in another process is between the record and its state."""
    folder = tmp_path / "state"
    writing = FileStore(folder, files=UnsyncedFiles())
    record = running("a")
    await writing.insert(record)
    first = large(record, "p")
    await writing.commit(record, first)

    second = large(first, "q")

    class Meanwhile(UnsyncedFiles):
        """Another process commits, just before a state's file is opened."""

        armed = False

        def open(self, folder: int, name: str, flags: int) -> int:
            if self.armed and len(name) == 32 and not flags & os.O_CREAT:
                self.armed = False
                done = threading.Thread(
                    target=lambda: asyncio.run(_commit(writing.folder, first, second))
                )
                done.start()
                done.join()
            return super().open(folder, name, flags)

    files = Meanwhile()
    reading = FileStore(folder, files=files)
    assert await reading.changed({"a": 1}) == {"a": 2}
    files.armed = True
    assert await reading.load("a") == second
    files.armed = False
    reading.close()
    writing.close()


async def _commit(folder: Path, before: Record, after: Record) -> None:
    store = FileStore(folder, files=UnsyncedFiles())
    await store.commit(before, after)
    removed()
    store.close()


async def test_a_commit_that_is_given_up_keeps_the_file_of_the_state_before(
    tmp_path: Path,
) -> None:
    held, failing = HeldFiles(), FailingFiles()
    store = FileStore(tmp_path / "state", files=held)
    other = FileStore(tmp_path / "state", files=failing)
    record, free = running("a"), running("free")
    await store.insert(record)
    await other.insert(free)
    before = large(record)
    await store.commit(record, before)
    held.hold = True
    writing = asyncio.create_task(store.commit(before, step(before)))
    assert await asyncio.to_thread(held.reached.wait, 10)
    failing.fail_next_sync = True
    with pytest.raises(StoreError):
        await other.commit(free, step(free))
    held.go.set()
    with pytest.raises(StoreError, match="gave this write up"):
        await writing
    removed()
    assert len(state_files(tmp_path / "state")) == 1
    other.close()
    other = FileStore(tmp_path / "state", files=UnsyncedFiles())
    assert await other.load("a") == before
    other.close()
    store.close()


class NeitherSyncsNorSeals(UnsyncedFiles):
    """A disk on which the log can be neither synced nor sealed, for as long as armed."""

    def __init__(self) -> None:
        self.armed = False
        self._log: set[int] = set()

    def open(self, folder: int, name: str, flags: int) -> int:
        fd = super().open(folder, name, flags)
        (self._log.add if name.startswith("log-") else self._log.discard)(fd)
        return fd

    def sync_data(self, fd: int) -> None:
        self._refuse(fd in self._log)

    def rename(self, folder: int, old: str, new: str) -> None:
        self._refuse(new == manifest.NAME)
        super().rename(folder, old, new)

    def _refuse(self, asked: bool) -> None:
        if self.armed and asked:
            raise OSError(errno.EIO, "no")


@pytest.mark.rule("R5")
async def test_a_state_of_unknown_outcome_is_kept_for_who_publishes_it(tmp_path: Path) -> None:
    failing = NeitherSyncsNorSeals()
    store = FileStore(tmp_path / "state", files=failing)
    other = FileStore(tmp_path / "state", files=UnsyncedFiles())
    record, free = running("a"), running("free")
    await store.insert(record)
    await store.insert(free)
    await store.commit(free, large(free))
    failing.armed = True
    with pytest.raises(UnknownOutcome):
        await store.commit(record, large(record))
    removed()
    await other.commit(large(free), step(large(free)))  # and so publishes all of the log
    assert await other.load("a") == large(record)
    other.close()
    failing.armed = False
    store.close()


def other_folder(path: Path) -> None:
    path.mkdir()


def other_link(path: Path) -> None:
    path.symlink_to(path.parent)


def other_fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.rule("R22")
@pytest.mark.parametrize("table", [False, True], ids=["log", "table"])
@pytest.mark.parametrize("put", [other_folder, other_link, other_fifo])
async def test_what_is_no_file_in_the_place_of_a_state_is_unreadable_alone(
    tmp_path: Path, put: Callable[[Path], None], table: bool
) -> None:
    folder = tmp_path / "state"
    store = FileStore(folder, files=UnsyncedFiles(), sizes=Sizes(segment=1, tail=1))
    await store.insert(running("a").changed(state=b'"%s"' % (b"y" * LARGE)))
    await store.insert(running("b"))
    if table:
        await store.insert(running("c"))
        compacted()
    store.close()
    (path,) = state_files(folder)
    path.unlink()
    put(path)
    put(path.with_name("0" * 32))  # and one that no record names
    store = FileStore(folder, files=UnsyncedFiles())
    with pytest.raises(Unreadable, match="regular file"):
        await store.load("a")
    assert "b" in [record.task.id for record in await store.find()]
    assert [fault.task_id for fault in await store.unreadable()] == ["a"]
    await store.insert(running("d"))
    assert (await store.bury("a", 1)).version == 2
    removed()
    assert list(await store.unreadable()) == []
    store.close()


async def test_a_state_that_cannot_be_written_leaves_no_file_open(tmp_path: Path) -> None:
    class Counting(FailingFiles):
        def __init__(self) -> None:
            super().__init__()
            self.opened: dict[int, str] = {}

        def open(self, folder: int, name: str, flags: int) -> int:
            fd = super().open(folder, name, flags)
            self.opened[fd] = name
            return fd

        def close(self, fd: int) -> None:
            self.opened.pop(fd, None)
            super().close(fd)

    files = Counting()
    store = FileStore(tmp_path / "state", files=files)
    record = running("a")
    await store.insert(record)
    before = set(files.opened)
    files.fail_next_sync = True  # of a piece of the state
    with pytest.raises(StoreError):
        await store.commit(record, large(record))
    assert set(files.opened) == before
    store.close()
