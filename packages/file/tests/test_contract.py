"""FileStore passes the store contract, with every feature open that a file store can have."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentic_kernel_conformance import StoreContract, StoreFactory, StoreFeatures
from agentic_kernel_file import Files, FileStore, Sizes


class HeldFiles(Files):
    """The disk takes its time with every sync, until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.released.set()

    def sync_data(self, fd: int) -> None:
        self.released.wait()
        super().sync_data(fd)


class TestFileStore(StoreContract):
    features = StoreFeatures(durable=True, processes=True, threads=True, holdable=True)

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
@pytest.mark.slow
class TestCompactingFileStore(StoreContract):
    """The same while the log is compacted all the time."""

    features = StoreFeatures(durable=True, processes=True, threads=True)

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


async def _reopen(store: FileStore) -> FileStore:
    store.close()
    return FileStore(store.folder)
