"""GeminiPlanner passes the planner contract, on an independent scripted server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from agentic_kernel_conformance import PlannerContract, PlannerFeatures
from agentic_kernel_gemini import GeminiPlanner
from integration.peers.aimock import Aimock
from integration.peers.faulty import FaultyServer


class TestGeminiPlanner(PlannerContract):
    features = PlannerFeatures(streams=True, forecasts=True, deterministic=True, fails=True)
    patience = 60

    @pytest_asyncio.fixture
    async def planner(self, aimock: Aimock) -> AsyncIterator[GeminiPlanner]:
        call = {"name": "add", "arguments": {"a": 12, "b": 30}, "id": "call_1"}
        aimock.load(
            [
                {"match": {"hasToolResult": True}, "response": {"content": "It is 42."}},
                {"match": {"toolName": "add"}, "response": {"content": "So:", "toolCalls": [call]}},
                {"match": {}, "response": {"content": "I cannot tell."}},
            ]
        )
        planner = GeminiPlanner("gemini-3.8-flash", api_key="none", base_url=f"{aimock.url}/v1beta")
        yield planner
        await planner.close()

    @pytest.fixture
    def unreachable(self) -> Iterator[str]:
        with FaultyServer("closed") as server:
            yield server.url

    @pytest_asyncio.fixture
    async def failing(self, unreachable: str) -> AsyncIterator[GeminiPlanner]:
        planner = GeminiPlanner("m", api_key="none", base_url=unreachable)
        yield planner
        await planner.close()
