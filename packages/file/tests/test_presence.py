"""Acknowledged means findable: a folder that went away acknowledges and answers nothing."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agentic_kernel import TaskNotFound
from agentic_kernel_engine import HostGone, UnknownOutcome
from agentic_kernel_file import FileStore, FolderGone, FolderGoneMidway, Sizes
from agentic_kernel_file.files import Identity

from .disks import HeldFiles, UnsyncedFiles
from .records import LATER, running, step
from .test_crashes import compacted

Change = Callable[[Path], None]


def remove(folder: Path) -> None:
    shutil.rmtree(folder)


def rename(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def replace_by_empty(folder: Path) -> None:
    rename(folder)
    folder.mkdir()


def replace_by_copy(folder: Path) -> None:
    rename(folder)
    shutil.copytree(folder.with_name("elsewhere"), folder)


def remove_file(name: str) -> Change:
    def change(folder: Path) -> None:
        found = next(folder.glob(name))
        shutil.rmtree(found) if found.is_dir() else found.unlink()

    return change


def copy_file(name: str) -> Change:
    """Another file of the same content stands there."""

    def change(folder: Path) -> None:
        found = next(folder.glob(name))
        if found.is_dir():
            found.rename(folder.with_name("moved"))
            found.mkdir()
        else:
            data = found.read_bytes()
            found.rename(folder.with_name("moved"))
            found.write_bytes(data)

    return change


WHOLE = [remove, rename, replace_by_empty, replace_by_copy]
NAMES = ["log-*", "table-*", "agentic-kernel.lock", "head", "hosts"]
PARTS = {
    **{f"{name} removed": remove_file(name) for name in [*NAMES, "agentic-kernel.json"]},
    **{f"{name} copied": copy_file(name) for name in NAMES},
}


async def made(folder: Path, files: UnsyncedFiles | None = None) -> FileStore:
    """An open store with a log and a table."""
    store = FileStore(folder, files=files or UnsyncedFiles(), sizes=Sizes(segment=1, tail=1))
    await store.insert(running("a"))
    await store.insert(running("b"))
    compacted()
    await store.insert(running("c"))
    compacted()
    store.close()
    store = FileStore(folder, files=files or UnsyncedFiles())
    await store.join("h")
    assert len(await store.find()) == 3
    return store


async def found_by_others(folder: Path, task_id: str) -> bool:
    other = FileStore(folder, files=UnsyncedFiles())
    try:
        return bool(await other.load(task_id))
    except (TaskNotFound, OSError):
        return False
    finally:
        other.close()


@pytest.mark.parametrize("change", WHOLE, ids=lambda change: change.__name__)
async def test_a_folder_that_went_away_acknowledges_nothing(tmp_path: Path, change: Change) -> None:
    folder = tmp_path / "state"
    store = await made(folder)
    record = await store.load("a")
    change(folder)
    with pytest.raises(FolderGone, match=f"{folder}.*put the folder back") as raised:
        await store.insert(running("lost"))
    assert not isinstance(raised.value, UnknownOutcome)
    for n in range(3):  # from now on the store is what the path leads to
        await store.insert(running(f"new {n}"))
        assert await found_by_others(folder, f"new {n}")
    assert not await found_by_others(folder, "lost")
    copied = change is replace_by_copy
    assert await found_by_others(folder, "a") == copied
    if not copied:
        with pytest.raises(TaskNotFound):
            await store.commit(record, step(record))
    else:
        await store.commit(record, step(record))
    store.close()


@pytest.mark.parametrize("change", PARTS.values(), ids=PARTS)
async def test_a_file_that_went_away_acknowledges_nothing(tmp_path: Path, change: Change) -> None:
    folder = tmp_path / "state"
    store = await made(folder)
    change(folder)
    with pytest.raises(FolderGone, match=str(folder)):
        await store.insert(running("lost"))
    try:
        await store.insert(running("new"))
    except OSError:
        return  # what is left there is no store: that is said as well
    assert await found_by_others(folder, "new")
    store.close()


@pytest.mark.parametrize(
    "change", [*WHOLE, *PARTS.values()], ids=[*(each.__name__ for each in WHOLE), *PARTS]
)
async def test_a_write_under_way_is_not_acknowledged_into_nothing(
    tmp_path: Path, change: Change
) -> None:
    """The folder goes between the append and its sync."""
    folder = tmp_path / "state"
    held = HeldFiles()
    store = await made(folder, held)
    held.hold = True
    writing = asyncio.create_task(store.insert(running("under way")))
    assert await asyncio.to_thread(held.reached.wait, 30)
    change(folder)
    held.go.set()
    with pytest.raises(FolderGone, match=str(folder)) as raised:
        await writing
    there = [folder, folder.with_name("elsewhere")]
    for path in there:
        if path.is_dir() and await found_by_others(path, "under way"):
            assert isinstance(raised.value, FolderGoneMidway)
            assert isinstance(raised.value, UnknownOutcome)
    if change in (remove, rename):
        assert not isinstance(raised.value, UnknownOutcome)
    store.close()


@pytest.mark.parametrize("change", WHOLE, ids=lambda change: change.__name__)
async def test_a_reader_goes_on_with_what_the_path_leads_to(tmp_path: Path, change: Change) -> None:
    folder = tmp_path / "state"
    store = await made(folder)
    assert await store.alive("h:1")
    change(folder)
    if change is replace_by_copy:
        other = FileStore(folder, files=UnsyncedFiles())
        await other.insert(running("fresh"))
        other.close()
        assert [record.task.id for record in await store.find()] == ["a", "b", "c", "fresh"]
    else:
        with pytest.raises(TaskNotFound):
            await store.load("a")
        assert await store.find() == []
        assert await store.changed({"a": 1}) == {"a": 0}
    assert not await store.alive("h:1")
    store.close()


@pytest.mark.parametrize("name", NAMES)
async def test_a_reader_notices_another_file_in_the_place_of_its_own(
    tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "state"
    store = await made(folder)
    copy_file(name)(folder)
    other = FileStore(folder, files=UnsyncedFiles())
    await other.insert(running("fresh"))
    other.close()
    assert (await store.load("fresh")).version == 1
    store.close()


async def test_a_host_of_a_folder_that_went_away_does_not_come_back(tmp_path: Path) -> None:
    store = await made(tmp_path / "state")
    rename(tmp_path / "state")
    with pytest.raises(FolderGone):
        await store.join("another")
    with pytest.raises(HostGone):
        await store.join("h")
    with pytest.raises(HostGone):
        await store.insert(running("a", owner="h:1"))
    await store.join("another")
    mine = running("a", owner="another:1")
    await store.insert(mine)
    with pytest.raises(HostGone):
        await store.commit(mine, step(mine).changed(owner="h:2"))
    assert await store.load("a") == mine
    assert await store.alive("another:1")
    ghost = FileStore(tmp_path / "elsewhere", files=UnsyncedFiles())
    assert not await ghost.alive("h:1")
    ghost.close()
    store.close()


@pytest.mark.parametrize("change", [remove, rename, replace_by_empty])
async def test_only_a_join_and_an_insert_make_a_folder_in_the_place_of_one_that_went_away(
    tmp_path: Path, change: Change
) -> None:
    folder = tmp_path / "state"
    store = await made(folder)
    record = await store.load("a")
    change(folder)
    for _ in range(2):
        with pytest.raises(FolderGone):
            await store.commit(record, step(record))
        with pytest.raises(FolderGone):
            await store.claim("a", "h")
        with pytest.raises(FolderGone):
            await store.bury("a", 1)
        with pytest.raises(FolderGone):
            await store.prune(LATER)
        await store.leave("h")
    assert await store.find() == []
    assert not folder.exists() or not list(folder.iterdir())
    await store.join("another")
    assert (folder / "agentic-kernel.json").exists()
    store.close()


async def test_a_write_to_a_task_makes_no_folder_where_none_ever_was(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "state", files=UnsyncedFiles())
    with pytest.raises(TaskNotFound):
        await store.commit(running("a"), step(running("a")))
    with pytest.raises(TaskNotFound):
        await store.claim("a", "h")
    with pytest.raises(TaskNotFound):
        await store.bury("a", 1)
    assert await store.prune(LATER) == 0
    assert not (tmp_path / "state").exists()


class StatFiles(UnsyncedFiles):
    """A disk that counts looks at names."""

    def __init__(self) -> None:
        self.looks = 0

    def look(self, path: str, folder: int | None = None) -> Identity:
        self.looks += 1
        found = super().look(path, folder)
        return found._replace(changed=1) if folder is None else found


async def test_a_folder_in_which_no_name_changes_costs_two_looks_a_batch(tmp_path: Path) -> None:
    files = StatFiles()
    store = FileStore(tmp_path / "state", files=files)
    records = [running(f"task {n}") for n in range(50)]
    await asyncio.gather(*(store.insert(record) for record in records))
    before = files.looks
    await asyncio.gather(*(store.commit(record, step(record)) for record in records))
    assert files.looks - before <= 2 * 50  # once before the append, once after the sync
    before = files.looks
    await store.load("task 1")
    assert files.looks - before == 1
    store.close()


@pytest.mark.parametrize("change", WHOLE, ids=lambda change: change.__name__)
async def test_a_read_that_reopens_the_folder_logs_once_what_happened_to_it(
    tmp_path: Path, change: Change, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "state"
    store = await made(folder)
    change(folder)
    for _ in range(3):
        await store.find()
    await store.alive("h:1")
    logged = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert [each.levelname for each in logged] == ["ERROR"]
    said = logged[0].getMessage()
    assert said.startswith(f"{folder} was re")
    assert "make a new Host" in said
    with pytest.raises(HostGone, match=r"is gone, because .* was re") as gone:
        await store.insert(running("mine", owner="h:1"))
    assert str(folder) in str(gone.value)
    assert isinstance(gone.value.__cause__, FolderGone)
    with pytest.raises(HostGone, match=r"is gone, because .* was re"):
        await store.join("h")
    store.close()


async def test_a_write_that_finds_the_folder_gone_says_so_and_logs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = await made(tmp_path / "state")
    remove(tmp_path / "state")
    with pytest.raises(FolderGone):
        await store.insert(running("lost"))
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []
    store.close()
