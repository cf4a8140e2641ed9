"""Both planners pass the planner contract, at a scripted server and with the real small model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from agentic_kernel_conformance import PlannerContract, PlannerFeatures
from agentic_kernel_engine.providers import Price
from integration.peers.aimock import Aimock
from integration.peers.llama import LlamaServer

from .asking import PLANNERS, planning

NOWHERE = "http://127.0.0.1:9/v1"


SCRIPTED = PlannerFeatures(streams=True, forecasts=True, deterministic=True, fails=True)


class _Scripted:
    patience = 60.0
    api: ClassVar[str]

    @pytest_asyncio.fixture
    async def planner(self, aimock: Aimock) -> AsyncIterator[Any]:
        # It takes no notice of limits: this is the shortest answer that comes in pieces.
        used = {"prompt_tokens": 1, "completion_tokens": 1}
        answer = {"content": "It is 42.", "usage": used}
        aimock.load([{"match": {}, "response": answer, "chunkSize": 3}])
        async with planning(self.api, aimock.url) as planner:
            yield planner

    @pytest.fixture
    def failing(self) -> Any:
        return PLANNERS[self.api]("gpt-4o", api_key="k", base_url=NOWHERE)


class TestOpenAIPlanner(_Scripted, PlannerContract):
    features = SCRIPTED
    api = "responses"


class TestOpenAIChatPlanner(_Scripted, PlannerContract):
    features = SCRIPTED
    api = "chat"


class _Real:
    patience = 60.0
    api: ClassVar[str]

    @pytest_asyncio.fixture
    async def planner(self, llama: LlamaServer) -> AsyncIterator[Any]:
        async with planning(
            self.api,
            llama.url,
            model=llama.model,
            api_key=llama.api_key,
            max_tokens=400,
            temperature=0,
            system="Answer with one word.",
            prices={llama.model: Price(1.0, 2.0)},
        ) as planner:
            yield planner

    @pytest.fixture
    def question(self) -> str:
        return "Say yes."

    @pytest.fixture
    def failing(self) -> Any:
        return PLANNERS[self.api]("gpt-4o", api_key="k", base_url=NOWHERE)


@pytest.mark.torture
class TestOpenAIPlannerOnARealModel(_Real, PlannerContract):
    """Not grounded: the server has no structured output on this wire."""

    features = PlannerFeatures(streams=True, forecasts=True, fails=True)
    api = "responses"


@pytest.mark.torture
class TestOpenAIChatPlannerOnARealModel(_Real, PlannerContract):
    features = PlannerFeatures(streams=True, forecasts=True, grounded=True, fails=True)
    api = "chat"
