"""Healthy substrates pass `SubstrateContract`."""

from __future__ import annotations

import pytest

from agentic_kernel_conformance import SubstrateContract, SubstrateFeatures
from agentic_kernel_conformance.substrate_honest import HonestWork

from .shell_substrate import ShellSubstrate, ShellWork


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


class TestShellSubstrate(SubstrateContract):
    features = SubstrateFeatures(
        marks=True, pauses=True, keeps_output=True, hears=True, fails=True, refuses=True
    )

    @pytest.fixture
    def factory(self) -> str:
        return f"{ShellSubstrate.__module__}:{ShellSubstrate.__name__}"

    @pytest.fixture
    def work(self) -> ShellWork:
        return ShellWork()
