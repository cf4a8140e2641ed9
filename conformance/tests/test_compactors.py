"""The engine's compactor passes the compactor contract."""

from __future__ import annotations

import pytest

from agentic_kernel_conformance import CompactorContract, CompactorFeatures
from agentic_kernel_engine.seams import WindowCompactor


class TestWindowCompactor(CompactorContract):
    """By the number of entries, by their bytes, and with the defaults."""

    features = CompactorFeatures(shortens=True)

    @pytest.fixture(params=[(200, 200_000, 20), (20, 200_000, 10), (10_000, 8_000, 20)], ids=str)
    def compactor(self, request: pytest.FixtureRequest) -> WindowCompactor:
        most, size, keep = request.param
        return WindowCompactor(most, size, keep=keep)
