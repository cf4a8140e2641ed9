"""FileStore passes the store contract, with every feature open that a file store can have."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel_conformance import Disk, Operations, StoreContract, StoreFactory, StoreFeatures
from agentic_kernel_conformance.storage import Damage, Newer, Older
from agentic_kernel_engine import MemoryStore, Record, Store
from agentic_kernel_engine.moments import LATEST
from agentic_kernel_file import Files, FileStore, Sizes
from agentic_kernel_file.frames import HEAD_SIZE
from agentic_kernel_file.log import segment_name
from agentic_kernel_file.table import BLOCK
from integration.levels import conformance_level as conformance_level

RELEASED = Path(__file__).with_name("released")
_MADE_AGAIN = ("head", "lock")
"""Files that a crash of the machine may take: they are made again from the log."""


class HeldFiles(Files):
    """A disk that tells the kit what is done to it; it holds every sync until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.released.set()
        self.operations = Operations()
        self.disk = Disk()
        self.bytes = 0

    def open(self, folder: int, name: str, flags: int) -> int:
        if flags & os.O_CREAT:
            self.disk.before(f"open {name}")
        fd = super().open(folder, name, flags)
        if flags & os.O_CREAT and name not in _MADE_AGAIN:
            self.operations.named(_path(fd))
        return fd

    def make_folder(self, path: str, folder: int | None = None) -> None:
        self.disk.before(f"make the folder {path}")
        super().make_folder(path, folder)
        if folder is not None:
            self.operations.named(f"{_path(folder)}/{path}")

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        self.disk.before(f"write {_path(fd)}")
        count = super().write(fd, data, offset)
        self.bytes += count
        self._wrote(fd)
        return count

    def truncate(self, fd: int, size: int) -> None:
        self.disk.before(f"truncate {_path(fd)}")
        super().truncate(fd, size)
        self._wrote(fd)

    def _wrote(self, fd: int) -> None:
        path = _path(fd)
        if Path(path).name not in _MADE_AGAIN:
            self.operations.wrote(path)

    def allocate(self, fd: int, offset: int, size: int) -> None:
        self.disk.before(f"extend {_path(fd)}")
        super().allocate(fd, offset, size)

    def sync(self, fd: int) -> None:
        self.disk.before(f"sync {_path(fd)}")
        super().sync(fd)
        path = _path(fd)
        (self.operations.synced_folder if Path(path).is_dir() else self.operations.synced)(path)

    def sync_data(self, fd: int) -> None:
        self.released.wait()
        self.disk.before(f"sync the data of {_path(fd)}")
        super().sync_data(fd)
        self.operations.synced(_path(fd))

    def rename(self, folder: int, old: str, new: str) -> None:
        self.disk.before(f"rename {old} to {new}")
        super().rename(folder, old, new)
        self.operations.renamed(f"{_path(folder)}/{old}", f"{_path(folder)}/{new}")

    def remove(self, folder: int, name: str) -> None:
        self.disk.before(f"remove {name}")
        super().remove(folder, name)
        self.operations.removed(f"{_path(folder)}/{name}")


def _path(fd: int) -> str:
    return str(Path(f"/proc/self/fd/{fd}").readlink())


class TestFileStore(StoreContract):
    features = StoreFeatures(
        durable=True, processes=True, threads=True, holdable=True, damageable=True, weighed=True,
        synced=True, failable=True, reads_older=True, refuses_newer=True,
    )  # fmt: skip

    @pytest.fixture
    def damage(self) -> Damage:
        return _damage

    @pytest.fixture
    def written(self, files: HeldFiles) -> Callable[[], int]:
        return lambda: files.bytes

    @pytest.fixture
    def operations(self, files: HeldFiles) -> Operations:
        return files.operations

    @pytest.fixture
    def disk(self, files: HeldFiles) -> Disk:
        return files.disk

    @pytest.fixture
    def older(self, tmp_path: Path) -> Iterator[Older]:
        place = tmp_path / "released"
        shutil.copytree(RELEASED / "log", place)
        (place / "hosts").mkdir(exist_ok=True)  # git keeps no empty folder
        opened: list[FileStore] = []

        async def older() -> tuple[Store, Sequence[Record]]:
            opened.append(FileStore(place))
            return opened[0], await released_records()

        yield older
        for store in opened:
            store.close()

    @pytest.fixture
    def newer(self) -> Newer:
        return _newer

    @pytest.fixture
    def files(self) -> HeldFiles:
        return HeldFiles()

    @pytest.fixture
    def store(self, tmp_path: Path, files: HeldFiles) -> Iterator[FileStore]:
        store = FileStore(tmp_path / "state", files=files)
        yield store
        store.close()

    @pytest.fixture
    def reopen(self) -> Callable[[FileStore], Awaitable[FileStore]]:
        return _reopen

    @pytest.fixture
    def factory(self, tmp_path: Path) -> StoreFactory:
        return StoreFactory("agentic_kernel_file:FileStore", (str(tmp_path / "state"),))

    @pytest.fixture
    def hold(self, files: HeldFiles) -> Callable[[], object]:
        @asynccontextmanager
        async def hold() -> AsyncIterator[None]:
            files.released.clear()
            try:
                yield
            finally:
                files.released.set()

        return hold


# The same contract twice.
@pytest.mark.torture
class TestCompactingFileStore(StoreContract):
    """The same while the log is compacted all the time."""

    features = StoreFeatures(durable=True, processes=True, threads=True, damageable=True)

    @pytest.fixture
    def damage(self) -> Damage:
        return _damage

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[FileStore]:
        store = FileStore(tmp_path / "state", sizes=Sizes(segment=1 << 13, tail=1 << 14))
        yield store
        store.close()

    @pytest.fixture
    def reopen(self) -> Callable[[FileStore], Awaitable[FileStore]]:
        return _reopen

    @pytest.fixture
    def factory(self, tmp_path: Path) -> StoreFactory:
        return StoreFactory("agentic_kernel_file:FileStore", (str(tmp_path / "state"),))


async def _damage(store: Any, task_id: str) -> FileStore:
    """Change the first byte of the latest record's text on the disk."""
    opened = store._open
    catalog = opened.reader.current()
    entry = catalog.latest(task_id)
    if entry.at:
        frame = catalog.log.frame(entry.at)
        entries = opened.reader.manifest.segments
        segment = max(
            (each for each in entries if each.start <= entry.at), key=lambda each: each.start
        )
        name = segment_name(segment.number)
        at = 32 + entry.at - segment.start + HEAD_SIZE
        at += frame.head.id_length + frame.head.facts_length
    else:
        name = catalog.table.file.name
        at = catalog.table.find(task_id).offset + BLOCK.size + len(task_id)
    store.close()
    with (store.folder / name).open("r+b") as file:
        file.seek(at)
        file.write(b"\xff")
    return FileStore(store.folder, files=store._files, sizes=store._sizes)


class _Rewritten(MemoryStore):
    """Takes what the program writes that wrote the folders with release 0.1.0."""

    def close(self) -> None:
        """Do nothing: the records are looked at afterwards."""


async def released_records() -> Sequence[Record]:
    """The folders that the program of old folders writes with this version."""
    spec = importlib.util.spec_from_file_location("released_write", RELEASED / "write.py")
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    made: list[_Rewritten] = []

    def store(*_: object, **__: object) -> _Rewritten:
        made.append(_Rewritten())
        return made[0]

    program.FileStore = store  # type: ignore[attr-defined]
    await program.write(Path("nowhere"), Sizes())
    # A store on files keeps a moment that UTC cannot say as the latest one.
    return [
        each.changed(due_at=LATEST) if each.due_at is not None else each
        for each in await made[0].find(limit=1_000)
    ]


@asynccontextmanager
async def _newer(store: Any) -> AsyncIterator[Callable[[], Awaitable[Store]]]:
    """Raise the schema in the folder's manifest, and take it back at the end."""
    manifest = store.folder / "agentic-kernel.json"
    known = manifest.read_bytes()
    opened: list[FileStore] = []

    async def again() -> Store:
        opened.append(FileStore(store.folder))
        return opened[-1]

    manifest.write_bytes(json.dumps({**json.loads(known), "schema": 999, "new": {}}).encode())
    try:
        yield again
        assert json.loads(manifest.read_bytes())["schema"] == 999
    finally:
        for each in opened:
            each.close()
        manifest.write_bytes(known)


async def _reopen(store: FileStore) -> FileStore:
    store.close()
    return FileStore(store.folder)
