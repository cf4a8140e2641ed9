"""The engine's reference store passes the store contract."""

from __future__ import annotations

import pytest

from agentic_kernel_conformance import StoreContract
from agentic_kernel_engine import MemoryStore


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()
