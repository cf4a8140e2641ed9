"""The engine's reference store passes the store contract."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel_conformance import StoreContract, StoreFeatures
from agentic_kernel_conformance.storage import Damage
from agentic_kernel_engine import MemoryStore

from .fragile_store import FragileStore


class TestMemoryStore(StoreContract):
    features = StoreFeatures(threads=True)

    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


# One interpreter is enough for the same contract twice.
@pytest.mark.slow
class TestFragileStore(StoreContract):
    """A store whose records may be bad one by one keeps the contract all the same."""

    features = StoreFeatures(damageable=True)

    @pytest.fixture
    def store(self) -> FragileStore:
        return FragileStore()

    @pytest.fixture
    def damage(self) -> Damage:
        return spoilt


async def spoilt(store: Any, task_id: str) -> Any:
    await store.spoil(task_id)
    return store
