"""OllamaRuntime passes the contracts of a Runtime and a Query, on an independent scripted server.

`integration.real_ollama` runs them against Ollama's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from agentic_kernel import Task
from agentic_kernel_conformance import QueryContract, RuntimeContract, RuntimeFeatures
from agentic_kernel_engine import Event, tool
from agentic_kernel_engine.events import RUN_DELTA
from agentic_kernel_ollama import OllamaRuntime

from .peers.aimock import Aimock
from .watched import Watched

# The gate has one runtime that is a Loop, OpenAI's: the contract is about what they share.
pytestmark = pytest.mark.torture

FEATURES = RuntimeFeatures(pauses=True, keeps_partial_output=True, streams=True, refuses=True)
STEPS = 3
LONG = "and so on " * 4_000
"""With a piece every 10 ms it takes minutes."""
CALL = {"name": "step", "arguments": "{}"}
SCRIPT: list[dict[str, Any]] = [
    {"match": {"userMessage": "Say hello."}, "response": {"content": "Hello."}},
    {"match": {"userMessage": "Fail."}, "response": {"error": {"message": "No."}}, "status": 400},
    {
        "match": {"userMessage": "Go on."},
        "response": {"content": LONG},
        "latency": 10,
        "chunkSize": 2,
    },
    *(
        {"match": {"userMessage": "Step.", "turnIndex": n}, "response": {"toolCalls": [CALL]}}
        for n in range(STEPS)
    ),
    # It takes the turn that is nearest below, so the last one has a number as well.
    {"match": {"userMessage": "Step.", "turnIndex": STEPS}, "response": {"content": "Done."}},
]


@tool(effect="none", inline=True)
def step() -> str:
    """Do one step."""
    return "done"


class OllamaWork:
    """Tasks that the scripted server has an answer for, and a real model, too."""

    def __init__(self) -> None:
        self._answering: dict[str, asyncio.Event] = {}

    def observe(self, task_id: str, event: Event) -> None:
        """Notice the first text of an answer."""
        if event.type == RUN_DELTA and "channel" not in event.data:
            self._first_text(task_id).set()

    def succeed(self) -> Task:
        return _asked("Say hello.", max_tokens=400)

    def fail(self) -> Task:
        return _asked("Fail. Count from one to a hundred in words.", max_tokens=1)

    def run_until_stopped(self) -> Task:
        return _asked("Go on. Count from one to ten thousand in words.", max_tokens=100_000)

    def pass_safe_points(self) -> Task:
        return _asked("Step.", max_tokens=400)

    def refused(self) -> Task:
        return _asked("Say hello.", max_tokens=0)

    async def until_output(self, task: Task) -> None:
        await self._first_text(task.id).wait()

    def _first_text(self, task_id: str) -> asyncio.Event:
        return self._answering.setdefault(task_id, asyncio.Event())


def _asked(instructions: str, max_tokens: int) -> Task:
    return Task.new(
        summary="",
        instructions=instructions,
        runtime_kind="ollama",
        metadata={"ollama/max_tokens": max_tokens},
    )


@pytest.fixture(scope="module")
def scripted() -> Iterator[Aimock]:
    """An independent server that follows `SCRIPT`."""
    with Aimock(SCRIPT) as peer:
        yield peer


class _Ollama(Watched):
    patience = 60.0

    @pytest.fixture
    def work(self) -> OllamaWork:
        return OllamaWork()

    @pytest_asyncio.fixture
    async def runtime(self, work: OllamaWork, scripted: Aimock) -> AsyncIterator[OllamaRuntime]:
        async with OllamaRuntime(
            "qwen3:8b", tools=[step], host=scripted.url, observer=work
        ) as runtime:
            yield runtime


class TestOllamaRuntime(_Ollama, RuntimeContract):
    features = FEATURES


class TestOllamaRuntimeAsQuery(_Ollama, QueryContract):
    features = FEATURES
