"""One bit of the log is flipped: no read is silently different, and no other Task is hidden."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from agentic_kernel import TaskNotFound
from agentic_kernel_engine import StoreError
from agentic_kernel_file import Damaged, FileStore
from agentic_kernel_file.catalog import _events_of

from .disks import UnsyncedFiles
from .records import ended, events, paused, running, step
from .test_unreadable import compact

FLIPS: Final = 400
HEADER: Final = 32
"""Bytes of the segment's header, which names the file and has a checksum of its own."""


_TOLD = re.compile(
    r"(event \(\d+, \d{1,3}\)( or one after it at version \d+)?"
    r"|one of the events \(\d+, \d+\) to \(\d+, \d+\)"
    r"|the events up to version \d+|the list of the events) of task '"
)
"""Which events cannot be read, and of which Task."""


async def filled(folder: Path) -> None:
    """Five Tasks with events: some alone in their batches, one paused, one ended."""
    store = FileStore(folder, files=UnsyncedFiles())
    records = [running(f"task {n}", owner=None, instructions=f"text {n}") for n in range(5)]
    for record in records:
        await store.insert(record, events(record))
    for record in records[:4]:
        after = step(record)
        await store.commit(record, after, events(after))
        if record is not records[0]:
            last = paused(after) if record is records[1] else ended(after)
            await store.commit(after, last, events(last))
    store.close()


async def outcome(read: Callable[[], Awaitable[Any]]) -> Any:
    """The result of a read, or the typed error that it raises; any other error passes."""
    try:
        return await read()
    except StoreError as error:
        return error


async def check(store: FileStore, whole: dict[str, tuple[Any, Any]]) -> str:
    """The effect of one flip.

    Raises:
        AssertionError: A read is silently different, or a Task is lost or listed twice.
    """
    found = await outcome(store.find)
    if isinstance(found, StoreError):
        assert isinstance(found, Damaged)
        assert "restore" in str(found)
        assert f"{store.folder}" in str(found)
        return "the folder"
    faults = [fault.task_id for fault in await store.unreadable()]
    found = [record for record in found if record.task.id != "tail"]
    listed = [record.task.id for record in found]
    assert sorted(listed + faults) == sorted(whole), (listed, faults)
    told = bool(faults)
    for task_id, (record, texts) in whole.items():
        loaded = await outcome(partial(store.load, task_id))
        assert isinstance(loaded, StoreError) == (task_id in faults)
        assert isinstance(loaded, StoreError) or loaded == record
        history = await outcome(partial(store.events, task_id))
        if isinstance(history, StoreError):
            assert _TOLD.match(str(history)), history
            assert task_id in str(history)
            assert f"{store.folder}" in str(history)
            told = True
        else:
            assert history == texts
    assert [record for record in found if record != whole[record.task.id][0]] == []
    return "told" if told else "nothing"


def flip(folder: Path, data: bytes, at: int, bit: int) -> None:
    changed = bytearray(data)
    changed[at] ^= 1 << bit
    (folder / "log-000001").write_bytes(changed)


async def known(folder: Path) -> dict[str, tuple[Any, Any]]:
    store = FileStore(folder, files=UnsyncedFiles())
    found = {r.task.id: (r, await store.events(r.task.id)) for r in await store.find()}
    store.close()
    return found


@pytest.mark.rule("R22")
async def test_a_flipped_bit_is_told_and_hides_no_other_task(tmp_path: Path) -> None:
    """Seeded flips. Only a batch's or a frame's damaged length makes the folder unreadable."""
    folder = tmp_path / "state"
    await filled(folder)
    whole = await known(folder)
    data = (folder / "log-000001").read_bytes()
    end = len(data.rstrip(b"\0"))
    seeded = random.Random(22)
    effects: dict[str, int] = {}
    for _ in range(FLIPS):
        at, bit = seeded.randrange(HEADER, end), seeded.randrange(8)
        flip(folder, data, at, bit)
        store = FileStore(folder, files=UnsyncedFiles())
        try:
            effect = await check(store, whole)
        except Exception as error:
            raise AssertionError(f"bit {bit} of byte {at}: {error!r}") from error
        finally:
            store.close()
        effects[effect] = effects.get(effect, 0) + 1
    assert effects["told"] > FLIPS * 0.8
    assert effects.get("the folder", 0) < FLIPS * 0.05


@pytest.mark.rule("R22")
async def test_a_compaction_keeps_what_a_flipped_bit_damaged_as_it_is(tmp_path: Path) -> None:
    await filled(tmp_path / "whole")
    whole = await known(tmp_path / "whole")
    data = (tmp_path / "whole" / "log-000001").read_bytes()
    end = len(data.rstrip(b"\0"))
    seeded = random.Random(23)
    told = 0
    for n in range(25):
        folder = tmp_path / f"state {n}"
        shutil.copytree(tmp_path / "whole", folder)
        at, bit = seeded.randrange(HEADER, end), seeded.randrange(8)
        flip(folder, data, at, bit)
        effects = []
        for _ in range(2):
            store = FileStore(folder, files=UnsyncedFiles())
            try:
                effects.append(await check(store, whole))
            except Exception as error:
                raise AssertionError(f"bit {bit} of byte {at}: {error!r}") from error
            finally:
                store.close()
            if effects[0] != "told":
                break
            await compact(folder)
        assert len(set(effects)) == 1
        told += effects[0] == "told"
    assert told > 15


def test_events_whose_lengths_do_not_fit_are_told_from_the_first_one_on() -> None:
    frame: Any = SimpleNamespace(head=SimpleNamespace(events=2), events_fit=lambda: False)
    assert _events_of(3, frame) == "event (3, 0) or one after it at version 3"


@pytest.mark.rule("R22")
@pytest.mark.parametrize("commits", [1, 2])
async def test_a_task_whose_damaged_beginning_named_another_one_is_told_under_its_own_id(
    tmp_path: Path, commits: int
) -> None:
    """Of the id and the body one bit each is flipped, so only the next frame tells whose it was."""
    folder = tmp_path / "state"
    store = FileStore(folder, files=UnsyncedFiles())
    record, other = (running(f"task {n}", owner=None, instructions="text") for n in range(2))
    for each in (record, other):
        await store.insert(each, events(each))
    for _ in range(commits):
        record, before = step(record), record
        await store.commit(before, record, events(record))
    store.close()
    data = bytearray((folder / "log-000001").read_bytes())
    for text in (b"task 0", b"text"):
        data[data.index(text)] ^= 1
    (folder / "log-000001").write_bytes(data)
    store = FileStore(folder, files=UnsyncedFiles())
    try:
        assert [fault.task_id for fault in await store.unreadable()] == ["task 0"]
        assert await store.find() == [other]
        with pytest.raises(TaskNotFound):
            await store.load("uask 0")
    finally:
        store.close()
