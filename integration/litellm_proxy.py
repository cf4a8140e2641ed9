"""The contracts over LiteLLM's proxy; only by name, for it needs an environment of its own::

    python3 -m venv litellm && litellm/bin/pip install 'litellm[proxy]==1.106.2'
    LITELLM_PYTHON=litellm/bin/python pytest integration/litellm_proxy.py

Its authors wrote Responses and Messages anew, over a server's Chat Completions, so what passes here
does not pass for knowing one server. Without ``LITELLM_PYTHON`` everything fails: nothing that was
not run may look as if it was.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar, Final, Literal, get_args

import pytest
import pytest_asyncio

from agentic_kernel import Task
from agentic_kernel_claude import ClaudePlanner, ClaudeRuntime
from agentic_kernel_conformance import PlannerContract, PlannerFeatures, RuntimeContract
from agentic_kernel_engine import tool
from agentic_kernel_engine.providers import Price
from agentic_kernel_openai import OpenAIChatPlanner, OpenAIPlanner, OpenAIRuntime

from . import scripted_work, test_conformance_openai
from .peers.aimock import Aimock
from .peers.faulty import FaultyServer
from .peers.fixtures import aimock, aimock_process, llama
from .peers.litellm import SCRIPTED, LiteLLMProxy
from .peers.llama import LlamaServer
from .scripted_work import ScriptedWork
from .test_conformance_openai import OpenAIWork
from .watched import Watched

__all__ = ["aimock", "aimock_process", "llama"]

PATIENCE: Final = 120.0
FREE_SECONDS: Final = 5.0
"""How long the model may go on after a kill; left alone, its story takes twice as long or more."""
PLANNERS: Final = PlannerFeatures(streams=True, forecasts=True, grounded=True, fails=True)
SCHEMA: Final = {
    "type": "object",
    "properties": {"capital": {"enum": ["Paris", "Rome"]}},
    "required": ["capital"],
    "additionalProperties": False,
}


@pytest.fixture(scope="session", autouse=True)
def proxy(llama: LlamaServer, aimock_process: Aimock) -> Iterator[LiteLLMProxy]:
    """One proxy for all tests of the session."""
    with LiteLLMProxy(llama, aimock_process) as peer:
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
    features = PLANNERS
    kind = OpenAIPlanner


class TestChat(_OpenAI, PlannerContract):
    features = PLANNERS
    kind = OpenAIChatPlanner


class TestMessages(PlannerContract):
    features = PLANNERS
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


class TestRuntimeOverResponses(Watched, RuntimeContract):
    """On the script: when a real model stops is its own affair."""

    features = test_conformance_openai.FEATURES
    patience = PATIENCE

    @pytest.fixture
    def work(self) -> OpenAIWork:
        return OpenAIWork()

    @pytest_asyncio.fixture
    async def runtime(
        self, work: OpenAIWork, proxy: LiteLLMProxy, aimock: Aimock
    ) -> AsyncIterator[OpenAIRuntime]:
        aimock.load(test_conformance_openai.SCRIPT)
        async with OpenAIRuntime(
            SCRIPTED,
            tools=[test_conformance_openai.step],
            api_key=proxy.api_key,
            base_url=f"{proxy.url}/v1",
            observer=work,
        ) as runtime:
            yield runtime


class TestRuntimeOverMessages(Watched, RuntimeContract):
    features = scripted_work.FEATURES
    patience = PATIENCE

    @pytest.fixture
    def work(self) -> ScriptedWork:
        return ScriptedWork("claude")

    @pytest_asyncio.fixture
    async def runtime(
        self, work: ScriptedWork, proxy: LiteLLMProxy, aimock: Aimock
    ) -> AsyncIterator[ClaudeRuntime]:
        aimock.load(scripted_work.SCRIPT)
        async with ClaudeRuntime(
            SCRIPTED,
            tools=[scripted_work.step],
            api_key=proxy.api_key,
            base_url=proxy.url,
            observer=work,
        ) as runtime:
            yield runtime


Wire = Literal["responses", "chat", "messages"]


def runtime_over(
    wire: Wire, proxy: LiteLLMProxy, model: str, **options: Any
) -> OpenAIRuntime | ClaudeRuntime:
    """A runtime whose planner speaks this wire to the proxy."""
    options = {"api_key": proxy.api_key, "temperature": 0, "max_tokens": 100, **options}
    if wire == "messages":
        return ClaudeRuntime(model, base_url=proxy.url, **options)
    return OpenAIRuntime(model, api=wire, base_url=f"{proxy.url}/v1", **options)


def asked(wire: Wire, instructions: str) -> Task:
    """A Task for the runtime over this wire."""
    kind = "claude" if wire == "messages" else "openai"
    return Task.new(summary="", instructions=instructions, runtime_kind=kind)


def idle(llama: LlamaServer) -> bool:
    """Whether the model works on nothing within `FREE_SECONDS`."""
    until = time.monotonic() + FREE_SECONDS
    while (working := llama.working()) and time.monotonic() < until:
        time.sleep(0.01)
    return not working


class TestEveryWire:
    """What the contracts leave open, the same on each of them."""

    @pytest.fixture(params=get_args(Wire))
    def wire(self, request: pytest.FixtureRequest) -> Wire:
        wire: Wire = request.param
        return wire

    async def test_an_answer_under_a_schema_fits_it(self, wire: Wire, proxy: LiteLLMProxy) -> None:
        async with runtime_over(wire, proxy, proxy.model, output_schema=SCHEMA) as runtime:
            ended = await runtime.run(asked(wire, "What is the capital of France?"))
        assert ended.result in ({"capital": "Paris"}, {"capital": "Rome"})

    async def test_parallel_calls_come_with_their_arguments_and_their_results_go_back(
        self, wire: Wire, proxy: LiteLLMProxy, aimock: Aimock
    ) -> None:
        added: list[tuple[int, int]] = []

        @tool(effect="none", inline=True)
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            added.append((a, b))
            return a + b

        calls = [
            {"name": "add", "arguments": {"a": 1, "b": 2}, "id": "call_1"},
            {"name": "add", "arguments": {"a": 3, "b": 4}, "id": "call_2"},
        ]
        aimock.script({"toolCalls": calls}, {"content": "3 and 7."})
        async with runtime_over(wire, proxy, SCRIPTED, tools=[add]) as runtime:
            ended = await runtime.run(asked(wire, "Add 1 and 2, and 3 and 4."))
        assert ended.result == "3 and 7."
        assert sorted(added) == [(1, 2), (3, 4)]
        told = aimock.requests()[-1].body["messages"]
        results = {each["tool_call_id"]: each["content"] for each in told if each["role"] == "tool"}
        assert results == {"call_1": "3", "call_2": "7"}

    async def test_an_answer_that_is_cut_short_is_no_answer(
        self, wire: Wire, proxy: LiteLLMProxy
    ) -> None:
        async with runtime_over(wire, proxy, proxy.model, max_tokens=8) as runtime:
            ended = await runtime.run(asked(wire, "Count from one to a hundred in words."))
        assert ended.failure is not None
        assert ended.failure.code.endswith("/max_tokens")

    async def test_a_prompt_that_is_too_long_is_told_by_its_code(
        self, wire: Wire, proxy: LiteLLMProxy
    ) -> None:
        async with runtime_over(wire, proxy, proxy.model) as runtime:
            ended = await runtime.run(asked(wire, "word " * 4_000))
        assert ended.failure is not None
        assert ended.failure.code.endswith("/context_length")

    async def test_a_kill_reaches_the_model_behind_the_proxy(
        self, wire: Wire, proxy: LiteLLMProxy, llama: LlamaServer
    ) -> None:
        work = OpenAIWork()
        task = asked(wire, "Write a long story about the sea.")
        options = {"max_tokens": 1_500, "observer": work}
        async with runtime_over(wire, proxy, proxy.model, **options) as runtime:
            await runtime.dispatch(task)
            async with asyncio.timeout(PATIENCE):
                await work.until_output(task)
            assert llama.working() == 1
            killed = await runtime.kill(task.id)
            assert killed.changed
            assert await asyncio.to_thread(idle, llama)
