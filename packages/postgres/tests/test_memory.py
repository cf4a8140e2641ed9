"""PostgresMemory passes the memory contract: with a real embedding model, and by words alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from agentic_kernel_conformance import MemoryContract, MemoryFeatures
from agentic_kernel_engine.seams.memories import Embedder, HashingEmbedder
from agentic_kernel_postgres import PostgresMemory
from integration.minilm import minilm

from .databases import plain as plain
from .databases import vectors as vectors

FEATURES = MemoryFeatures(keeps=True, searches=True, durable=True, shared=True)


class _Remembers(MemoryContract):
    features = FEATURES

    @pytest.fixture
    def place(self, server: str) -> str:
        return server

    @pytest.fixture
    def embedder(self) -> Embedder | None:
        return None

    @pytest_asyncio.fixture
    async def memory(
        self, place: str, schema: str, embedder: Embedder | None
    ) -> AsyncIterator[PostgresMemory]:
        async with PostgresMemory(place, schema=schema, embedder=embedder) as memory:
            yield memory

    @pytest_asyncio.fixture
    async def reopen(
        self, place: str, schema: str, embedder: Embedder | None
    ) -> AsyncIterator[Callable[[PostgresMemory], Awaitable[PostgresMemory]]]:
        opened: list[PostgresMemory] = []

        async def reopen(memory: PostgresMemory) -> PostgresMemory:
            await memory.close()
            opened.append(PostgresMemory(place, schema=schema, embedder=embedder))
            return opened[-1]

        yield reopen
        for memory in opened:
            await memory.close()

    @pytest_asyncio.fixture
    async def another(
        self, place: str, schema: str, embedder: Embedder | None
    ) -> AsyncIterator[Callable[[], Awaitable[PostgresMemory]]]:
        opened: list[PostgresMemory] = []

        async def another() -> PostgresMemory:
            opened.append(PostgresMemory(place, schema=schema, embedder=embedder))
            return opened[-1]

        yield another
        for memory in opened:
            await memory.close()


@pytest.mark.slow
class TestByWords(_Remembers):
    """Without an embedder."""


@pytest.mark.slow
class TestByMeaning(_Remembers):
    """With a real model."""

    @pytest.fixture
    def place(self, vectors: str) -> str:
        return vectors

    @pytest.fixture
    def embedder(self) -> Embedder | None:
        return minilm()


@pytest.mark.slow
class TestWithoutTheExtension(_Remembers):
    """With an embedder that is of no use."""

    @pytest.fixture
    def place(self, plain: str) -> str:
        return plain

    @pytest.fixture
    def embedder(self) -> Embedder | None:
        return HashingEmbedder()
