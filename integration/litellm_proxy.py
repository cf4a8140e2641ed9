"""The contracts over LiteLLM's proxy; only by name, for it needs an environment of its own::

    python3 -m venv litellm && litellm/bin/pip install 'litellm[proxy]==1.106.2'
    LITELLM_PYTHON=litellm/bin/python pytest integration/litellm_proxy.py

Its authors wrote Responses and Messages anew, over a server's Chat Completions, so what passes here
does not pass for knowing one server. Without ``LITELLM_PYTHON`` everything fails: nothing that was
not run may look as if it was.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar, Final

import pytest
import pytest_asyncio

from agentic_kernel import Task
from agentic_kernel_claude import ClaudePlanner, ClaudeRuntime
from agentic_kernel_conformance import PlannerContract, PlannerFeatures, RuntimeContract
from agentic_kernel_engine.providers import Price
from agentic_kernel_openai import OpenAIChatPlanner, OpenAIPlanner, OpenAIRuntime

from .peers.faulty import FaultyServer
from .peers.fixtures import llama
from .peers.litellm import LiteLLMProxy
from .peers.llama import LlamaServer
from .test_conformance_openai import FEATURES, OpenAIWork

__all__ = ["llama"]

PATIENCE: Final = 120.0


@pytest.fixture(scope="session")
def proxy(llama: LlamaServer) -> Iterator[LiteLLMProxy]:
    """One proxy for all tests of the session."""
    with LiteLLMProxy(llama) as peer:
        yield peer


@pytest.fixture
def unreachable() -> Iterator[str]:
    """An address at which nobody listens."""
    with FaultyServer("closed") as nobody:
        yield nobody.url


class _OpenAI:
    kind: ClassVar[Any]
    patience = PATIENCE

    @pytest_asyncio.fixture
    async def planner(self, proxy: LiteLLMProxy) -> AsyncIterator[Any]:
        planner = self.kind(
            proxy.model,
            api_key=proxy.api_key,
            base_url=f"{proxy.url}/v1",
            system="Answer with one word.",
            max_tokens=400,
            temperature=0,
            prices={proxy.model: Price(1.0, 2.0)},
        )
        yield planner
        await planner.close()

    @pytest.fixture
    def question(self) -> str:
        return "Say yes."

    @pytest_asyncio.fixture
    async def failing(self, unreachable: str) -> AsyncIterator[Any]:
        planner = self.kind("m", api_key="k", base_url=unreachable)
        yield planner
        await planner.close()


class TestResponses(_OpenAI, PlannerContract):
    features = PlannerFeatures(streams=True, forecasts=True, grounded=True, fails=True)
    kind = OpenAIPlanner


class TestChat(_OpenAI, PlannerContract):
    features = PlannerFeatures(streams=True, forecasts=True, grounded=True, fails=True)
    kind = OpenAIChatPlanner


class TestMessages(PlannerContract):
    features = PlannerFeatures(streams=True, forecasts=True, grounded=True, fails=True)
    patience = PATIENCE

    @pytest_asyncio.fixture
    async def planner(self, proxy: LiteLLMProxy) -> AsyncIterator[ClaudePlanner]:
        planner = ClaudePlanner(
            proxy.model,
            api_key=proxy.api_key,
            base_url=proxy.url,
            system="Give short answers.",
            max_tokens=200,
            temperature=0.0,
            context_tokens=2048,
            prices={proxy.model: Price(1.0, 2.0)},
            # Left alone, a small model does not always come to an end.
            extra_body={"stop_sequences": [".", "!", "?"]},
        )
        yield planner
        await planner.close()

    @pytest_asyncio.fixture
    async def failing(self, unreachable: str) -> AsyncIterator[ClaudePlanner]:
        planner = ClaudePlanner("m", api_key="none", base_url=unreachable)
        yield planner
        await planner.close()


class TestRuntime(RuntimeContract):
    features = FEATURES
    patience = PATIENCE

    @pytest.fixture
    def work(self) -> OpenAIWork:
        return OpenAIWork()

    @pytest_asyncio.fixture
    async def runtime(self, work: OpenAIWork, proxy: LiteLLMProxy) -> AsyncIterator[OpenAIRuntime]:
        async with OpenAIRuntime(
            proxy.model,
            api_key=proxy.api_key,
            base_url=f"{proxy.url}/v1",
            temperature=0,
            observer=work,
        ) as runtime:
            yield runtime
