"""Every mistake of a stranger as an adapter under its contract; `test_strangers` runs this file."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from agentic_kernel_conformance import Bounds, SubstrateContract, SubstrateFeatures

from ..adapters.adapter import FaultyAdapter, adapters
from .workflow import faults
from .workflow.work import StepsWork


class _Workflow(FaultyAdapter, SubstrateContract):
    patience = 3.0
    bounds = Bounds(wait=1.0)
    features: ClassVar[Any] = SubstrateFeatures(
        marks=True, pauses=True, keeps_output=True, hears=True, fails=True, refuses=True
    )

    @pytest.fixture
    def factory(self) -> str:
        return f"{self.faulty.__module__}:{self.faulty.__name__}"

    @pytest.fixture
    def work(self) -> StepsWork:
        return StepsWork()


SETS = {"workflow": adapters("Workflow", _Workflow, faults, faults.FAULTS)}
"""The mistakes of each set that a contract must report, by the name of the test class."""
TEN = 10
"""The mistakes of each set, those that no contract reports included."""
ADAPTERS = {name: adapter for each in SETS.values() for name, adapter in each.items()}
globals().update(ADAPTERS)
