"""An Agent of Pydantic AI passes `SubstrateContract`, in processes that are killed.

`nox -s frameworks` runs it: Pydantic AI is in an environment of its own.
"""

from __future__ import annotations

import pytest

from agentic_kernel_conformance import Bounds, SubstrateContract, SubstrateFeatures, SubstrateWork

from . import pydantic_ai_factory


class TestPydanticAI(SubstrateContract):
    """The messages are the state, so it grows by the messages of each step."""

    features = SubstrateFeatures(
        marks=True, pauses=True, keeps_output=True, hears=True, fails=True, refuses=True
    )
    bounds = Bounds(state=65_536, growth=2_048)

    @pytest.fixture
    def factory(self) -> str:
        return f"{pydantic_ai_factory.__name__}:make"

    @pytest.fixture
    def work(self) -> SubstrateWork:
        return pydantic_ai_factory.work()
