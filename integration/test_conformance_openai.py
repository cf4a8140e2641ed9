"""OpenAIRuntime passes the contracts of a Runtime and a Query, over both of OpenAI's APIs."""

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
from agentic_kernel_openai import OpenAIRuntime

from .peers.aimock import Aimock
from .peers.llama import LlamaServer
from .watched import Watched

pytestmark = pytest.mark.slow

FEATURES = RuntimeFeatures(pauses=True, keeps_partial_output=True, streams=True, refuses=True)
LONG = "and so on " * 4_000
"""With a piece every 10 ms it takes minutes."""
# Told apart by what stays the same whatever a resumed Task is told.
SCRIPT: list[dict[str, Any]] = [
    {"match": {"systemMessage": "Say hello."}, "response": {"content": "Hello."}},
    {
        "match": {"systemMessage": "Fail."},
        "response": {"error": {"message": "No.", "code": "context_length_exceeded"}, "status": 400},
    },
    {
        "match": {"systemMessage": "Go on."},
        "response": {"content": LONG},
        "latency": 10,
        "chunkSize": 2,
    },
    {
        "match": {"systemMessage": "Step.", "hasToolResult": False},
        "response": {"toolCalls": [{"name": "step", "arguments": "{}"}]},
    },
    {
        "match": {"systemMessage": "Step.", "hasToolResult": True},
        "response": {"content": "Done, and done again."},
        "latency": 10,
        "chunkSize": 2,
    },
]


@tool(effect="none", inline=True)
def step() -> str:
    """Do one step."""
    return "done"


class OpenAIWork:
    """Tasks that a peer has an answer for, or the real model an opinion on."""

    def __init__(self) -> None:
        self._answering: dict[str, asyncio.Event] = {}

    def observe(self, task_id: str, event: Event) -> None:
        """Notice the first text of an answer."""
        if event.type == RUN_DELTA:
            self._first_text(task_id).set()

    def succeed(self) -> Task:
        return _asked("Say hello.", max_tokens=16)

    def fail(self) -> Task:
        return _asked("Fail.", max_tokens=16, text="word " * 4_000)

    def run_until_stopped(self) -> Task:
        text = "List one hundred reasons to visit Paris, numbered."
        return _asked("Go on.", max_tokens=1_500, text=text)

    def pass_safe_points(self) -> Task:
        return _asked("Step.", max_tokens=16)

    def refused(self) -> Task:
        return _asked("Say hello.", max_tokens=0)

    async def until_output(self, task: Task) -> None:
        await self._first_text(task.id).wait()

    def _first_text(self, task_id: str) -> asyncio.Event:
        return self._answering.setdefault(task_id, asyncio.Event())


def _asked(what: str, max_tokens: int, text: str = "Do it.") -> Task:
    return Task.new(
        summary="",
        instructions=text,
        runtime_kind="openai",
        metadata={"openai/max_tokens": max_tokens, "openai/system": what},
    )


@pytest.fixture(scope="module")
def scripted() -> Iterator[Aimock]:
    """An independent server that follows `SCRIPT`."""
    with Aimock(SCRIPT) as peer:
        yield peer


@pytest.fixture(scope="module")
def real() -> Iterator[LlamaServer]:
    """The real small model."""
    with LlamaServer() as peer:
        yield peer


class _OpenAI(Watched):
    patience = 60.0

    @pytest.fixture
    def work(self) -> OpenAIWork:
        return OpenAIWork()


class _Scripted(_OpenAI):
    @pytest_asyncio.fixture
    async def runtime(self, work: OpenAIWork, scripted: Aimock) -> AsyncIterator[OpenAIRuntime]:
        async with OpenAIRuntime(
            "gpt-4o",
            tools=[step],
            api="chat",
            api_key="sk-none",
            base_url=f"{scripted.url}/v1",
            observer=work,
        ) as runtime:
            yield runtime


class _Real(_OpenAI):
    @pytest_asyncio.fixture
    async def runtime(self, work: OpenAIWork, real: LlamaServer) -> AsyncIterator[OpenAIRuntime]:
        async with OpenAIRuntime(
            real.model,
            api_key=real.api_key,
            base_url=f"{real.url}/v1",
            temperature=0,
            observer=work,
        ) as runtime:
            yield runtime


class TestOpenAIRuntimeOverChat(_Scripted, RuntimeContract):
    features = FEATURES


class TestOpenAIRuntimeAsQuery(_Real, QueryContract):
    features = FEATURES


@pytest.mark.torture
class TestOpenAIRuntime(_Real, RuntimeContract):
    """Hundreds of answers of the real model: a minute."""

    features = FEATURES
