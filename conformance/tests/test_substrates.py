"""Healthy substrates pass `SubstrateContract`."""

from __future__ import annotations

import pytest

from agentic_kernel_conformance import SubstrateContract, SubstrateFeatures
from agentic_kernel_conformance.substrate_honest import HonestWork


class TestHonestSubstrate(SubstrateContract):
    features = SubstrateFeatures(
        marks=True, pauses=True, keeps_output=True, hears=True, fails=True, refuses=True
    )

    @pytest.fixture
    def factory(self) -> str:
        return "agentic_kernel_conformance.substrate_honest:make"

    @pytest.fixture
    def work(self) -> HonestWork:
        return HonestWork()
