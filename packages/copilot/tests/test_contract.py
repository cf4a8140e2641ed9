"""CopilotRuntime, with the real CLI on the real model, passes the contracts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from agentic_kernel import Task
from agentic_kernel_conformance import QueryContract, RuntimeContract, RuntimeFeatures
from agentic_kernel_copilot import CopilotRuntime
from agentic_kernel_engine import Event
from integration.peers.llama import LlamaServer
from integration.watched import Watched

from .conftest import asked

pytestmark = pytest.mark.torture

FEATURES = RuntimeFeatures(pauses=True, keeps_partial_output=True, streams=True, refuses=True)


class CopilotWork:
    """Tasks for a small model behind the CLI."""

    def __init__(self) -> None:
        self._answering: dict[str, asyncio.Event] = {}

    def observe(self, task_id: str, event: Event) -> None:
        """Notice the first text of an answer."""
        if event.type == "run.delta":
            self._first_text(task_id).set()

    def succeed(self) -> Task:
        return asked("What is 2 + 2?")

    def fail(self) -> Task:
        return asked("word " * 4096)

    def run_until_stopped(self) -> Task:
        return asked("Write a very long poem.")

    def pass_safe_points(self) -> Task:
        return asked("What is 2 + 2?")

    def refused(self) -> Task:
        return Task.new(summary="", instructions="Say hello.", runtime_kind="somebody-elses")

    async def until_output(self, task: Task) -> None:
        await self._first_text(task.id).wait()

    def _first_text(self, task_id: str) -> asyncio.Event:
        return self._answering.setdefault(task_id, asyncio.Event())


class _Copilot(Watched):
    patience = 60.0

    @pytest.fixture
    def work(self) -> CopilotWork:
        return CopilotWork()

    @pytest_asyncio.fixture
    async def runtime(
        self,
        work: CopilotWork,
        llama: LlamaServer,
        place: Mapping[str, Any],
    ) -> AsyncIterator[CopilotRuntime]:
        async with CopilotRuntime(
            **place,
            model=llama.model,
            provider={
                "type": "openai",
                "wire_api": "completions",
                "base_url": f"{llama.url}/v1",
                "api_key": llama.api_key,
            },
            offline=True,
            system_message="Be brief.",
            observer=work,
        ) as runtime:
            yield runtime


class TestCopilotRuntime(_Copilot, RuntimeContract):
    features = FEATURES


class TestCopilotRuntimeAsQuery(_Copilot, QueryContract):
    features = FEATURES
