"""The contracts against a real Ollama server; only by name, for one has to be there::

    OLLAMA_HOST=http://127.0.0.1:11434 pytest integration/real_ollama.py

``OLLAMA_MODEL`` says which model to use, one that can call tools; a small one is pulled if it is
not there. Without ``OLLAMA_HOST`` everything fails: nothing that was not run may look as if it was.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import pytest
import pytest_asyncio

from agentic_kernel import Task
from agentic_kernel_conformance import (
    PlannerContract,
    PlannerFeatures,
    QueryContract,
    RuntimeContract,
)
from agentic_kernel_engine import tool
from agentic_kernel_engine.providers import Price
from agentic_kernel_ollama import OllamaPlanner, OllamaRuntime

from .peers.faulty import FaultyServer
from .test_conformance_ollama import FEATURES, OllamaWork

MODEL: Final = os.environ.get("OLLAMA_MODEL", "qwen3:0.6b")
PATIENCE: Final = 600.0
"""Seconds; a model may have to be pulled or loaded first."""
OPTIONS: Final[dict[str, Any]] = {
    "think": False,
    "temperature": 0,
    "timeout": PATIENCE,
    "options": {"num_ctx": 8192, "seed": 1},
    "pull": True,
}


@pytest.fixture(scope="session", autouse=True)
def server() -> None:
    """Somebody's server."""
    if not os.environ.get("OLLAMA_HOST"):
        pytest.fail("there is no server to run this against; set OLLAMA_HOST to its address")


class TestPlanner(PlannerContract):
    features = PlannerFeatures(streams=True, forecasts=True, fails=True)
    patience = PATIENCE

    @pytest_asyncio.fixture
    async def planner(self) -> AsyncIterator[OllamaPlanner]:
        prices = {MODEL: Price(1.0, 2.0)}
        planner = OllamaPlanner(
            MODEL, system="Give short answers.", max_tokens=400, prices=prices, **OPTIONS
        )
        yield planner
        await planner.close()

    @pytest.fixture
    def unreachable(self) -> Iterator[str]:
        with FaultyServer("closed") as nobody:
            yield nobody.url

    @pytest_asyncio.fixture
    async def failing(self, unreachable: str) -> AsyncIterator[OllamaPlanner]:
        planner = OllamaPlanner(MODEL, host=unreachable)
        yield planner
        await planner.close()


class _Real:
    patience = PATIENCE

    @pytest.fixture
    def work(self) -> OllamaWork:
        return OllamaWork()

    @pytest_asyncio.fixture
    async def runtime(self, work: OllamaWork) -> AsyncIterator[OllamaRuntime]:
        async with OllamaRuntime(MODEL, observer=work, **OPTIONS) as runtime:
            yield runtime


class TestRuntime(_Real, RuntimeContract):
    features = FEATURES


class TestRuntimeAsQuery(_Real, QueryContract):
    features = FEATURES


@tool(effect="none", inline=True)
def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


def _asked(instructions: str) -> Task:
    return Task.new(summary="", instructions=instructions, runtime_kind="ollama")


async def test_it_calls_a_tool_and_uses_its_result() -> None:
    async with OllamaRuntime(MODEL, tools=[multiply], **OPTIONS) as runtime:
        ended = await runtime.run(_asked("What is 1234 * 5678? Call the tool."))
    assert "7006652" in str(ended.result).replace(",", "")


async def test_an_answer_under_a_schema_fits_it() -> None:
    schema = {
        "type": "object",
        "properties": {"capital": {"type": "string"}},
        "required": ["capital"],
        "additionalProperties": False,
    }
    async with OllamaRuntime(MODEL, output_schema=schema, **OPTIONS) as runtime:
        ended = await runtime.run(_asked("What is the capital of France?"))
    assert ended.result == {"capital": "Paris"}


async def test_a_model_that_does_not_exist_cannot_be_pulled() -> None:
    async with OllamaRuntime("nobody/nothing-of-the-kind", pull=True) as runtime:
        ended = await runtime.run(_asked("Hi"))
    assert ended.failure is not None
    assert ended.failure.code == "ollama/model_not_found"
