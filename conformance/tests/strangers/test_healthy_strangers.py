"""The strangers' healthy implementations pass the contracts of their ports."""

from __future__ import annotations

import pytest

from agentic_kernel_conformance import SubstrateContract, SubstrateFeatures

from .workflow import steps
from .workflow.work import StepsWork


class TestSteps(SubstrateContract):
    features = SubstrateFeatures(
        marks=True, pauses=True, keeps_output=True, hears=True, fails=True, refuses=True
    )

    @pytest.fixture
    def factory(self) -> str:
        return f"{steps.__name__}:{steps.Steps.__name__}"

    @pytest.fixture
    def work(self) -> StepsWork:
        return StepsWork()
