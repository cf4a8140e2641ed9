"""The engine's reference store passes the store contract."""

from __future__ import annotations

import pytest

from agentic_kernel_conformance import StoreContract, StoreFeatures
from agentic_kernel_engine import MemoryStore


class TestMemoryStore(StoreContract):
    features = StoreFeatures(threads=True)

    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()
