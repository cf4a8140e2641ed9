"""LocalRuntime, with the real model, passes the contracts of a Runtime and a Query."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from agentic_kernel import Task
from agentic_kernel_conformance import QueryContract, RuntimeContract, RuntimeFeatures
from agentic_kernel_engine import Event
from agentic_kernel_local import LocalRuntime
from agentic_kernel_local.engine import Engine, EngineOptions
from agentic_kernel_local.model import find_model

from .watched import Watched

# The gate has one runtime that is a Loop, OpenAI's: the contract is about what they share.
pytestmark = pytest.mark.torture

FEATURES = RuntimeFeatures(pauses=True, keeps_partial_output=True, streams=True, refuses=True)
SLOTS = 4
CONTEXT_TOKENS = 2048


class LocalWork:
    """Tasks for a language model: a short answer, an impossible one, a long one, one in steps."""

    def __init__(self) -> None:
        self._answering: dict[str, asyncio.Event] = {}

    def observe(self, task_id: str, event: Event) -> None:
        """Notice the first text of an answer."""
        if event.type == "run.delta":
            self._first_text(task_id).set()

    def succeed(self) -> Task:
        return _asked("Say hello.", max_tokens=100)

    def fail(self) -> Task:
        return _asked("word " * CONTEXT_TOKENS, max_tokens=4)

    def run_until_stopped(self) -> Task:
        return _asked("Count from one to ten thousand in words.", max_tokens=CONTEXT_TOKENS - 256)

    def pass_safe_points(self) -> Task:
        return _asked("Say hello.", max_tokens=200)

    def refused(self) -> Task:
        return Task.new(summary="", instructions="Say hello.", runtime_kind="somebody-elses")

    async def until_output(self, task: Task) -> None:
        await self._first_text(task.id).wait()

    def _first_text(self, task_id: str) -> asyncio.Event:
        return self._answering.setdefault(task_id, asyncio.Event())


def _asked(instructions: str, max_tokens: int) -> Task:
    return Task.new(
        summary="",
        instructions=instructions,
        runtime_kind="local",
        metadata={"local/max_tokens": max_tokens},
    )


@pytest.fixture(scope="module")
def model() -> Iterator[Engine]:
    """Keeps the model loaded between tests."""
    engine = asyncio.run(Engine.open(EngineOptions(find_model(), SLOTS, CONTEXT_TOKENS)))
    yield engine
    asyncio.run(engine.close())


class _Local(Watched):
    patience = 60.0

    @pytest.fixture
    def work(self) -> LocalWork:
        return LocalWork()

    @pytest_asyncio.fixture
    async def runtime(self, work: LocalWork, model: Engine) -> AsyncIterator[LocalRuntime]:
        async with LocalRuntime(
            slots=SLOTS,
            context_tokens=CONTEXT_TOKENS,
            observer=work,
        ) as runtime:
            yield runtime


class TestLocalRuntime(_Local, RuntimeContract):
    features = FEATURES


class TestLocalRuntimeAsQuery(_Local, QueryContract):
    features = FEATURES
