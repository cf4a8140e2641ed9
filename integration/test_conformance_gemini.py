"""GeminiRuntime passes the contracts of a Runtime and a Query, on an independent server."""

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
from agentic_kernel_gemini import RUNTIME_KIND, GeminiRuntime

from .peers.aimock import Aimock
from .watched import Watched

pytestmark = pytest.mark.slow

FEATURES = RuntimeFeatures(pauses=True, keeps_partial_output=True, streams=True, refuses=True)
STEPS = 3
LONG = "and so on " * 4_000
"""With a piece every 10 ms it takes minutes."""
CALL = {"name": "step", "arguments": {}}
TOO_LONG = {"message": "prompt is too long: 3 tokens > 2 maximum", "type": "invalid_request_error"}
SCRIPT: list[dict[str, Any]] = [
    {"match": {"userMessage": "Say hello."}, "response": {"content": "Hello."}},
    {"match": {"userMessage": "Fail."}, "response": {"error": TOO_LONG, "status": 400}},
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


class GeminiWork:
    """Tasks that the script has an answer for."""

    def __init__(self) -> None:
        self._answering: dict[str, asyncio.Event] = {}

    def observe(self, task_id: str, event: Event) -> None:
        """Notice the first text of an answer."""
        if event.type == RUN_DELTA:
            self._first_text(task_id).set()

    def succeed(self) -> Task:
        return _asked("Say hello.")

    def fail(self) -> Task:
        return _asked("Fail.")

    def run_until_stopped(self) -> Task:
        return _asked("Go on.")

    def pass_safe_points(self) -> Task:
        return _asked("Step.")

    def refused(self) -> Task:
        return _asked("Say hello.", max_tokens=0)

    def expected_result(self, task: Task) -> Any:
        return "Hello."

    async def until_output(self, task: Task) -> None:
        await self._first_text(task.id).wait()

    def _first_text(self, task_id: str) -> asyncio.Event:
        return self._answering.setdefault(task_id, asyncio.Event())


def _asked(instructions: str, **options: Any) -> Task:
    return Task.new(
        summary="",
        instructions=instructions,
        runtime_kind=RUNTIME_KIND,
        metadata={f"gemini/{name}": value for name, value in options.items()},
    )


@pytest.fixture(scope="module")
def scripted() -> Iterator[Aimock]:
    """An independent server that follows `SCRIPT`."""
    with Aimock(SCRIPT) as peer:
        yield peer


class _Gemini(Watched):
    patience = 60.0

    @pytest.fixture
    def work(self) -> GeminiWork:
        return GeminiWork()

    @pytest_asyncio.fixture
    async def runtime(self, work: GeminiWork, scripted: Aimock) -> AsyncIterator[GeminiRuntime]:
        async with GeminiRuntime(
            "gemini-3.8-flash",
            tools=[step],
            api_key="none",
            base_url=f"{scripted.url}/v1beta",
            observer=work,
        ) as runtime:
            yield runtime


class TestGeminiRuntime(_Gemini, RuntimeContract):
    features = FEATURES


class TestGeminiRuntimeAsQuery(_Gemini, QueryContract):
    features = FEATURES
