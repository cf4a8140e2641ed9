"""ClaudePlanner passes the planner contract: on the real model, and on a scripted server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from agentic_kernel_claude import ClaudePlanner
from agentic_kernel_conformance import PlannerContract, PlannerFeatures
from agentic_kernel_engine.providers import Price
from integration.peers.aimock import Aimock
from integration.peers.faulty import FaultyServer
from integration.peers.llama import LlamaServer


class _Failing:
    @pytest.fixture
    def unreachable(self) -> Iterator[str]:
        with FaultyServer("closed") as server:
            yield server.url

    @pytest_asyncio.fixture
    async def failing(self, unreachable: str) -> AsyncIterator[ClaudePlanner]:
        planner = ClaudePlanner("m", api_key="none", base_url=unreachable)
        yield planner
        await planner.close()


@pytest.mark.torture
class TestOnTheRealModel(_Failing, PlannerContract):
    features = PlannerFeatures(streams=True, forecasts=True, fails=True)
    patience = 120

    @pytest_asyncio.fixture
    async def planner(self, llama: LlamaServer) -> AsyncIterator[ClaudePlanner]:
        planner = ClaudePlanner(
            llama.model,
            api_key=llama.api_key,
            base_url=llama.url,
            system="Give short answers.",
            max_tokens=200,
            temperature=0.0,
            context_tokens=2048,
            prices={llama.model: Price(1.0, 2.0)},
            # Left alone, a small model does not always come to an end.
            extra_body={"stop_sequences": [".", "!", "?"]},
        )
        yield planner
        await planner.close()


class TestOnAScriptedServer(_Failing, PlannerContract):
    features = PlannerFeatures(streams=True, forecasts=True, deterministic=True, fails=True)
    patience = 60

    @pytest_asyncio.fixture
    async def planner(self, aimock: Aimock) -> AsyncIterator[ClaudePlanner]:
        call = {"name": "add", "arguments": {"a": 12, "b": 30}, "id": "toolu_1"}
        aimock.load(
            [
                {"match": {"hasToolResult": True}, "response": {"content": "It is 42."}},
                {"match": {"toolName": "add"}, "response": {"content": "So:", "toolCalls": [call]}},
                {"match": {}, "response": {"content": "I cannot tell."}},
            ]
        )
        planner = ClaudePlanner("claude-opus-5", api_key="none", base_url=aimock.url)
        yield planner
        await planner.close()
