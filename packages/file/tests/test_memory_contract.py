"""FileMemory passes the memory contract: by words, by meaning, and compacted all the time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from agentic_kernel_conformance import MemoryContract, MemoryFeatures
from agentic_kernel_engine.seams.memories import Embedder, HashingEmbedder
from agentic_kernel_file import FileMemory


class _Remembers(MemoryContract):
    features = MemoryFeatures(keeps=True, searches=True, durable=True, shared=True)

    @pytest.fixture
    def embedder(self) -> Embedder | None:
        return None

    @pytest.fixture
    def garbage(self) -> int:
        return 1 << 20

    @pytest.fixture
    def opened(
        self, tmp_path: Path, embedder: Embedder | None, garbage: int
    ) -> Callable[[], FileMemory]:
        return lambda: FileMemory(tmp_path / "memory", embedder=embedder, garbage=garbage)

    @pytest.fixture
    def memory(self, opened: Callable[[], FileMemory]) -> Iterator[FileMemory]:
        memory = opened()
        yield memory
        memory.close()

    @pytest.fixture
    def reopen(
        self, opened: Callable[[], FileMemory]
    ) -> Callable[[FileMemory], Awaitable[FileMemory]]:
        async def reopen(memory: FileMemory) -> FileMemory:
            memory.close()
            return opened()

        return reopen

    @pytest.fixture
    def another(
        self, opened: Callable[[], FileMemory]
    ) -> Iterator[Callable[[], Awaitable[FileMemory]]]:
        handles: list[FileMemory] = []

        async def another() -> FileMemory:
            handles.append(opened())
            return handles[-1]

        yield another
        for memory in handles:
            memory.close()


class TestFileMemory(_Remembers):
    """Without an embedder."""


class TestEmbeddingFileMemory(_Remembers):
    """With one."""

    @pytest.fixture
    def embedder(self) -> Embedder | None:
        return HashingEmbedder()


class TestCompactingFileMemory(_Remembers):
    """Compacted whenever something is garbage."""

    @pytest.fixture
    def garbage(self) -> int:
        return 1
