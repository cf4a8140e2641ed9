"""FileStore passes the store contract, with every feature open that a file store can have."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel_conformance import StoreContract, StoreFactory, StoreFeatures
from agentic_kernel_conformance.storage import Damage
from agentic_kernel_file import Files, FileStore, Sizes
from agentic_kernel_file.frames import HEAD_SIZE
from agentic_kernel_file.log import segment_name
from agentic_kernel_file.table import BLOCK


class HeldFiles(Files):
    """The disk takes its time with every sync, until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.released.set()

    def sync_data(self, fd: int) -> None:
        self.released.wait()
        super().sync_data(fd)


class TestFileStore(StoreContract):
    features = StoreFeatures(
        durable=True, processes=True, threads=True, holdable=True, damageable=True
    )

    @pytest.fixture
    def damage(self) -> Damage:
        return _damage

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


# One interpreter is enough for the same contract twice.
@pytest.mark.slow
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


async def _reopen(store: FileStore) -> FileStore:
    store.close()
    return FileStore(store.folder)
