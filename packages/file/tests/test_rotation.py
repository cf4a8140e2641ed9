"""A writer that begins a segment: what it must have synced and published, and in which order."""

from __future__ import annotations

import asyncio
import errno
from contextlib import suppress
from pathlib import Path

import pytest

from agentic_kernel_engine import StoreError
from agentic_kernel_file import FileStore, Sizes

from .disks import FailingFiles, HeldFiles, RecordingFiles, UnsyncedFiles
from .records import all_events, events, running, step


async def test_a_rotation_that_fails_anywhere_leaves_nothing_that_others_cannot_go_on_from(
    tmp_path: Path,
) -> None:
    """A second writer that is already open commits, and a fresh store finds its commit."""
    for at in range(200):
        folder = tmp_path / str(at)
        files = FailingFiles()
        rotating = FileStore(folder, files=files, sizes=Sizes(segment=1, tail=1 << 30))
        await rotating.insert(running("a"), events(running("a")))
        second = FileStore(folder, files=UnsyncedFiles())
        record = await second.load("a")
        files.arm(at, errno.EIO, stays=True)
        with suppress(StoreError):
            await rotating.insert(running("b"))
        hit = files.failed
        await second.commit(record, step(record), events(step(record)))
        fresh = FileStore(folder, files=UnsyncedFiles())
        assert await fresh.load("a") == step(record)
        assert await fresh.events("a") == all_events(2)
        fresh.close()
        second.close()
        files.heal()
        rotating.close()
        if not hit:
            return
    pytest.fail("still failing at the last operation")


@pytest.mark.parametrize("how", ["rotate", "open"])
async def test_what_another_writer_has_not_synced_is_synced_before_it_is_published(
    tmp_path: Path, how: str
) -> None:
    folder = tmp_path / "state"
    first = FileStore(folder, files=UnsyncedFiles())
    await first.insert(running("a"))
    first.close()
    held = HeldFiles()
    slow = FileStore(folder, files=held)
    await slow.load("a")
    files = RecordingFiles(folder)
    other = FileStore(folder, files=files, sizes=Sizes(segment=1, tail=1 << 30))
    if how == "rotate":
        await other.load("a")
    held.hold = True
    writing = asyncio.create_task(slow.insert(running("b")))
    assert await asyncio.to_thread(held.reached.wait, 30)
    files.trace.clear()
    await (other.insert(running("c")) if how == "rotate" else other.find())
    log = (folder / "log-000001").stat().st_ino
    head = (folder / "head").stat().st_ino
    synced = files.trace.index(("sync", log))
    published = [n for n, one in enumerate(files.trace) if one[0] == "data" and one[1] == head]
    assert published
    assert synced < published[0]
    assert {record.task.id for record in await other.find()} >= {"a", "b"}
    held.go.set()
    await writing
    other.close()
    slow.close()
