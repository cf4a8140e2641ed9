"""The engine's governor passes the governor contract."""

from __future__ import annotations

import pytest

from agentic_kernel_conformance import MemoryGovernorContract, MemoryGovernorFeatures
from agentic_kernel_conformance.governor import Make
from agentic_kernel_engine.seams import SessionMemoryGovernor


class TestSessionMemoryGovernor(MemoryGovernorContract):
    features = MemoryGovernorFeatures(deterministic=True, replaces=True, bounds=True)

    @pytest.fixture
    def most(self) -> int:
        return 10

    @pytest.fixture
    def make(self, most: int) -> Make:
        return lambda: SessionMemoryGovernor(max_items=most)
