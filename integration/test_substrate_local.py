"""The Loops on the local planner pass `SubstrateContract` on the real small model."""

from __future__ import annotations

import pytest

from agentic_kernel_conformance import Bounds, SubstrateContract, SubstrateFeatures

from .substrates import local_factory
from .substrates.following import LoopWork

pytestmark = pytest.mark.torture


class TestLocalLoop(SubstrateContract):
    """A conversation without tools, so the tests about effects are closed."""

    features = SubstrateFeatures(keeps_output=True, fails=True, refuses=True)
    patience = 120.0

    @pytest.fixture
    def factory(self) -> str:
        return f"{local_factory.__name__}:conversation"

    @pytest.fixture
    def work(self) -> local_factory.ConversationWork:
        return local_factory.ConversationWork()


class TestLoopOnLocalPlanner(SubstrateContract):
    """A Loop whose planner is the model: each step is an answer of the model, by a grammar."""

    features = SubstrateFeatures(
        marks=True, pauses=True, keeps_output=True, hears=True, fails=True, refuses=True
    )
    bounds = Bounds()
    patience = 120.0

    @pytest.fixture
    def factory(self) -> str:
        return f"{local_factory.__name__}:planned"

    @pytest.fixture
    def work(self) -> LoopWork:
        return LoopWork()
