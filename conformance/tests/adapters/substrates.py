"""Substrates."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from agentic_kernel_conformance import Bounds, SubstrateContract, SubstrateFeatures

from .. import faulty_substrates
from ..shell_substrate import ShellWork
from .adapter import FaultyAdapter, adapters


class _Substrate(FaultyAdapter, SubstrateContract):
    patience = 3.0
    bounds = Bounds(wait=1.0)
    features: ClassVar[Any] = SubstrateFeatures(
        marks=True, pauses=True, keeps_output=True, hears=True, fails=True, refuses=True
    )

    @pytest.fixture
    def factory(self) -> str:
        return f"{faulty_substrates.__name__}:{self.faulty.__name__}"

    @pytest.fixture
    def work(self) -> ShellWork:
        return ShellWork()


ADAPTERS = adapters("Substrate", _Substrate, faulty_substrates, faulty_substrates.FAULTS)
