"""The engine's memories pass the memory contract."""

from __future__ import annotations

import pytest

from agentic_kernel_conformance import MemoryContract, MemoryFeatures
from agentic_kernel_engine.seams.memories import (
    EmbeddingMemory,
    HashingEmbedder,
    InMemoryMemory,
    NoMemory,
)


class TestInMemoryMemory(MemoryContract):
    features = MemoryFeatures(keeps=True, searches=True)

    @pytest.fixture
    def memory(self) -> InMemoryMemory:
        return InMemoryMemory()


class TestEmbeddingMemory(MemoryContract):
    features = MemoryFeatures(keeps=True, searches=True)

    @pytest.fixture
    def memory(self) -> EmbeddingMemory:
        return EmbeddingMemory(HashingEmbedder())


class TestNoMemory(MemoryContract):
    @pytest.fixture
    def memory(self) -> NoMemory:
        return NoMemory()
