"""Our substrates pass `SubstrateContract`, in processes that are killed."""

from __future__ import annotations

import pytest

from agentic_kernel_conformance import SubstrateContract, SubstrateFeatures

from .substrates import following


class TestLoop(SubstrateContract):
    """The engine's Loop, with a tool that has an effect and a planner that streams."""

    features = SubstrateFeatures(
        marks=True, pauses=True, keeps_output=True, hears=True, fails=True, refuses=True
    )

    @pytest.fixture
    def factory(self) -> str:
        return f"{following.__name__}:make"

    @pytest.fixture
    def work(self) -> following.LoopWork:
        return following.LoopWork()
