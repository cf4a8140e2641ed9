"""Which folders are opened, and how the others are refused."""

from __future__ import annotations

import errno
import gc
import json
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import TaskNotFound
from agentic_kernel_engine import StoreError
from agentic_kernel_file import (
    Damaged,
    Files,
    FileStore,
    ForeignFolder,
    ReadOnly,
    SchemaTooNew,
    StoreBusy,
)
from agentic_kernel_file.files import Directory
from agentic_kernel_file.folder import Folder
from agentic_kernel_file.liveness import Liveness
from agentic_kernel_file.lock import Lock
from agentic_kernel_file.manifest import Manifest, SegmentEntry, decode

from .disks import UnsyncedFiles
from .records import events, running, step

MANIFEST = "agentic-kernel.json"


async def _made(folder: Path) -> None:
    store = FileStore(folder)
    await store.insert(running("a"), [b"1"])
    store.close()


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


async def test_making_a_store_touches_no_disk(tmp_path: Path) -> None:
    FileStore(tmp_path / "state")
    assert not (tmp_path / "state").exists()


async def test_reading_what_is_not_there_creates_nothing(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "state")
    with pytest.raises(TaskNotFound):
        await store.load("a")
    assert await store.find() == []
    assert await store.changed({"a": 3, "b": 0}) == {"a": 0}
    assert not await store.alive("h:1")
    assert not (tmp_path / "state").exists()


async def test_the_folder_is_made_with_its_parents_and_for_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "state"
    await _made(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir() if path.is_file()} == {0o600}


@pytest.mark.parametrize("name", ["notes.txt", "log-000001", "head", ".hidden"])
async def test_a_foreign_folder_is_refused_and_left_as_it_is(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    store = FileStore(tmp_path)
    with pytest.raises(ForeignFolder, match=rf"\(it holds {ascii(name)}\); choose an empty folder"):
        await store.insert(running("a"))
    with pytest.raises(ForeignFolder):
        await store.find()
    assert _content(tmp_path) == {name: b"mine"}


@pytest.mark.parametrize("writes", [False, True])
async def test_a_store_that_another_process_makes_between_two_looks_is_no_foreign_folder(
    tmp_path: Path, writes: bool
) -> None:
    """The first look finds no manifest, and the second one finds files."""

    class MadeMeanwhile(UnsyncedFiles):
        made = False

        def names(self, folder: int) -> list[str]:
            if not self.made:
                self.made = True
                other = Folder(tmp_path / "state", UnsyncedFiles(), 5.0, create=True)
                if writes:
                    other.directory.open("log-000001", os.O_RDWR).write(b"a record", 0)
            return super().names(folder)

    files = MadeMeanwhile()
    folder = Folder(tmp_path / "state", files, 5.0, create=True)
    assert files.made
    assert folder.manifest().segments


async def test_a_foreign_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text('{"something": "else"}')
    with pytest.raises(ForeignFolder):
        await FileStore(tmp_path).insert(running("a"))
    assert list(_content(tmp_path)) == [MANIFEST]


async def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("mine")
    with pytest.raises(StoreError, match="choose a folder"):
        await FileStore(tmp_path / "state").insert(running("a"))


async def test_a_stranger_beside_the_store_is_ignored(tmp_path: Path) -> None:
    await _made(tmp_path / "state")
    (tmp_path / "state" / "notes.txt").write_text("mine")
    store = FileStore(tmp_path / "state")
    await store.insert(running("b"))
    assert [record.task.id for record in await store.find()] == ["a", "b"]
    assert (tmp_path / "state" / "notes.txt").read_text() == "mine"
    store.close()


async def test_a_newer_schema_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    await _made(tmp_path / "state")
    path = tmp_path / "state" / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 999, "new": {}}))
    before = _content(tmp_path / "state")
    store = FileStore(tmp_path / "state")
    with pytest.raises(SchemaTooNew, match="upgrade agentic-kernel-file"):
        await store.load("a")
    with pytest.raises(SchemaTooNew):
        await store.insert(running("b"))
    assert _content(tmp_path / "state") == before


def test_an_older_schema_migrates_step_by_step() -> None:
    def first(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "seen": ["first"]}

    def second(document: dict[str, Any]) -> dict[str, Any]:
        assert document["seen"] == ["first"]
        return {**document, "next_number": 7}

    text = Manifest(1, 2, (SegmentEntry(1, 1),)).encode()
    migrated = decode(text, "there", migrations={1: first, 2: second}, schema=3)
    assert migrated == Manifest(1, 7, (SegmentEntry(1, 1),))


@pytest.mark.parametrize("name", [MANIFEST, "log-000001", "agentic-kernel.lock", "head", "hosts"])
async def test_what_is_missing_is_named(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "state"
    await _made(folder)
    if name == "hosts":
        (folder / name).rmdir()
    else:
        (folder / name).unlink()
    store = FileStore(folder)
    if name == "head":  # never synced, so a crash may take it: the log says it all
        assert (await store.load("a")).version == 1
        return
    before = _content(folder)
    with pytest.raises(Damaged, match=name):
        await store.insert(running("b"))
    assert _content(folder) == before


async def test_a_damaged_manifest_is_told_from_a_foreign_one(tmp_path: Path) -> None:
    await _made(tmp_path / "state")
    path = tmp_path / "state" / MANIFEST
    path.write_text(path.read_text().replace('"generation": 1', '"generation": 2'))
    with pytest.raises(Damaged, match="checksum"):
        await FileStore(tmp_path / "state").load("a")


async def test_damaged_lengths_within_what_was_durable_are_reported(tmp_path: Path) -> None:
    """The end of a frame is not known any more, so the frames after it cannot be read."""
    await _made(tmp_path / "state")
    path = tmp_path / "state" / "log-000001"
    data = bytearray(path.read_bytes())
    data[41] ^= 1
    path.write_bytes(data)
    with pytest.raises(Damaged, match="log-000001"):
        await FileStore(tmp_path / "state").load("a")


@pytest.mark.parametrize(
    ("at", "says"),
    [
        (None, "is shorter than its header"),
        (0, "has a damaged header"),
        (41, "does not match its checksum"),
    ],
    ids=["short", "header", "lengths"],
)
async def test_a_damaged_log_is_named_by_its_path(
    tmp_path: Path, at: int | None, says: str
) -> None:
    await _made(tmp_path / "state")
    path = tmp_path / "state" / "log-000001"
    data = bytearray(path.read_bytes())
    if at is None:
        del data[8:]
    else:
        data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(Damaged, match=f"^{re.escape(str(path))} {says}"):
        await FileStore(tmp_path / "state").load("a")


@pytest.mark.parametrize("name", [MANIFEST, "log-000001", "agentic-kernel.lock", "head", "hosts"])
async def test_a_symbolic_link_inside_is_not_followed(tmp_path: Path, name: str) -> None:
    folder, elsewhere = tmp_path / "state", tmp_path / "elsewhere"
    await _made(folder)
    (folder / name).rename(elsewhere)
    (folder / name).symlink_to(elsewhere)
    before = elsewhere.read_bytes() if elsewhere.is_file() else None
    with pytest.raises(StoreError, match=r"symbolic link|choose a folder"):
        await FileStore(folder).insert(running("b"))
    assert before == (elsewhere.read_bytes() if elsewhere.is_file() else None)


async def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    await _made(tmp_path / "link")
    assert (await FileStore(tmp_path / "real").load("a")).version == 1


async def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    await _made(folder)
    (folder / MANIFEST).unlink()
    os.mkfifo(folder / MANIFEST)
    with pytest.raises(StoreError, match="regular files"):
        await FileStore(folder).load("a")


class ReadOnlyFiles(Files):
    """A file system mounted read-only; permissions would not stop every user who runs tests."""

    def open(self, folder: int, name: str, flags: int) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), name)
        return super().open(folder, name, flags)


def test_a_file_that_is_refused_is_not_left_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    directory = Directory.at(Files(), str(tmp_path))

    def free() -> int:
        """The lowest number that no open file has."""
        fd = os.open(os.devnull, os.O_RDONLY)
        os.close(fd)
        return fd

    before = free()
    with pytest.raises(OSError, match="not a regular file"):
        directory.open("fifo")
    assert free() == before


def test_a_folder_is_closed_with_its_last_reference(tmp_path: Path) -> None:
    class Counting(UnsyncedFiles):
        def __init__(self) -> None:
            self.folders: set[int] = set()

        def open_folder(self, path: str, folder: int | None = None) -> int:
            fd = super().open_folder(path, folder)
            self.folders.add(fd)
            return fd

        def close(self, fd: int) -> None:
            self.folders.discard(fd)
            super().close(fd)

    files = Counting()
    outside = Directory.at(files, str(tmp_path))
    outside.make("inside")
    inside = outside.inside("inside")
    assert len(files.folders) == 2
    del outside, inside
    gc.collect()
    assert files.folders == set()


def test_a_crash_behind_the_manifest_leaves_a_store_that_can_be_read(tmp_path: Path) -> None:
    class Crashing(UnsyncedFiles):
        def rename(self, folder: int, old: str, new: str) -> None:
            super().rename(folder, old, new)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises(OSError, match="Input/output"):
        Folder(tmp_path / "state", Crashing(), 5.0, create=True)
    assert MANIFEST in _names(tmp_path / "state")
    folder = Folder(tmp_path / "state", ReadOnlyFiles(), 5.0, create=False)
    assert folder.head.read().generation == folder.manifest().generation


async def test_a_read_only_folder_can_be_read(tmp_path: Path) -> None:
    await _made(tmp_path / "state")
    store = FileStore(tmp_path / "state", files=ReadOnlyFiles())
    record = await store.load("a")
    assert await store.events("a") == [((1, 0), b"1")]
    with pytest.raises(ReadOnly, match="permissions"):
        await store.commit(record, step(record))
    with pytest.raises(ReadOnly):
        await store.join("h")
    assert await store.find() == [record]


async def test_a_held_lock_ends_in_a_typed_error_and_hinders_no_reader(tmp_path: Path) -> None:
    await _made(tmp_path / "state")
    store = FileStore(tmp_path / "state", lock_timeout=0.05)
    record = await store.load("a")
    other = Files()
    folder = other.open_folder(str(tmp_path / "state"))
    lock = other.open(folder, "agentic-kernel.lock", os.O_RDWR)
    assert other.try_lock(lock)
    try:
        with pytest.raises(StoreBusy, match="hangs or is stopped"):
            await store.commit(record, step(record))
        assert await store.load("a") == record
    finally:
        other.close(lock)
        other.close(folder)
    await store.commit(record, step(record))


def test_a_lock_that_is_taken_waits_for_the_one_who_holds_it(tmp_path: Path) -> None:
    directory = Directory.at(Files(), str(tmp_path))
    holder, other = (
        Lock(directory.open("lock", os.O_RDWR | os.O_CREAT), 5.0, "the lock") for _ in range(2)
    )
    holder.acquire(0.05)
    with pytest.raises(StoreBusy, match="hangs or is stopped"):
        other.acquire(0.05)
    holder.release()
    other.acquire(0.05)
    other.release()


@pytest.mark.parametrize(
    "task_id",
    ["../up", "/etc/up", ".", "a/b", "-rf", "trailing.", "trailing ", "new\nline", "x" * 512,
     "'; DROP TABLE tasks; --", "Ａ", "A", "a", "\u202eevil", "é", "e\u0301"],
)  # fmt: skip
async def test_an_id_never_becomes_a_path(tmp_path: Path, task_id: str) -> None:
    folder = tmp_path / "state"
    await _made(folder)
    names = _names(folder)
    store = FileStore(folder)
    if task_id != "a":
        await store.insert(running(task_id), events(running(task_id)))
        assert (await store.load(task_id)).task.id == task_id
    await store.join(task_id)
    assert await store.alive(f"{task_id}:1")
    assert _names(folder) == names
    assert _names(tmp_path) == {"state"}
    store.close()


class BusyFiles(UnsyncedFiles):
    """A disk on which something else happens just before a name is removed, or after a look."""

    def __init__(self) -> None:
        self.before_removal: Callable[[], object] | None = None
        self.after_look: Callable[[], object] | None = None

    def remove(self, folder: int, name: str) -> None:
        act, self.before_removal = self.before_removal, None
        if act is not None:
            act()
        super().remove(folder, name)

    def names(self, folder: int) -> list[str]:
        found = super().names(folder)
        act, self.after_look = self.after_look, None
        if act is not None:
            act()
        return found


def test_a_host_that_leaves_and_a_sweep_do_not_disturb_each_other(tmp_path: Path) -> None:
    """A compaction sweeps in a thread of its own, while hosts come and go."""
    files = BusyFiles()
    folder = Folder(tmp_path / "state", files, 1.0, create=True)
    liveness = Liveness(folder)
    liveness.join("one")
    liveness.join("two")
    files.before_removal = liveness.sweep
    liveness.leave("one")
    assert not liveness.alive("one")
    files.after_look = partial(liveness.leave, "two")
    liveness.sweep()
    assert not liveness.alive("two")
    assert Liveness(folder).alive("two") is False
