"""One program on every runtime: another import and another name of a model, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agentic_kernel import TaskStatus
from agentic_kernel_claude import ClaudeRuntime
from agentic_kernel_copilot import CopilotRuntime, find_cli
from agentic_kernel_engine import Done, Limits, ReadyRuntime
from agentic_kernel_engine.loop import ToolCall
from agentic_kernel_gemini import GeminiRuntime
from agentic_kernel_local import Example, LocalRuntime
from agentic_kernel_ollama import OllamaRuntime
from agentic_kernel_openai import OpenAIRuntime

from .peers.aimock import Aimock
from .peers.node import installed

SKY = "The sky scatters blue light."
FIXTURES: list[Mapping[str, Any]] = [
    {
        "match": {"userMessage": "umbrella", "hasToolResult": False},
        "response": {"toolCalls": [{"name": "weather", "arguments": {"city": "Bonn"}}]},
    },
    {
        "match": {"userMessage": "umbrella", "hasToolResult": True},
        "response": {"content": '{"city": "Bonn", "umbrella": true}'},
    },
    {"match": {}, "response": {"content": SKY}},
]
UMBRELLA = Example(
    "Do I need an umbrella in Rome?", ToolCall("weather", {"city": "Rome"}),
    "The sun shines in Rome.", {"city": "Rome", "umbrella": False},
)  # fmt: skip
VENDORS = ("openai", "chat", "claude", "gemini", "ollama")


@dataclass
class Advice:
    city: str
    umbrella: bool


@pytest.fixture(scope="module")
def peer() -> Iterator[Aimock]:
    with Aimock(FIXTURES) as server:
        yield server


def ready(name: str, url: str, home: Path) -> ReadyRuntime:
    """The runtime, led to a peer of this machine."""
    match name:
        case "openai":
            return OpenAIRuntime("scripted", base_url=f"{url}/v1", api_key="none")
        case "chat":
            return OpenAIRuntime("scripted", api="chat", base_url=f"{url}/v1", api_key="none")
        case "claude":
            return ClaudeRuntime("scripted", base_url=url, api_key="none")
        case "gemini":
            return GeminiRuntime("scripted", base_url=f"{url}/v1beta", api_key="none")
        case "ollama":
            return OllamaRuntime("scripted", host=url)
        case "copilot":
            return CopilotRuntime(
                model="scripted", offline=True, home=home, cli_path=find_cli(installed("copilot")),
                provider={
                    "type": "openai", "wire_api": "completions", "base_url": f"{url}/v1",
                    "api_key": "none",
                },
            )  # fmt: skip
        case _:
            return LocalRuntime(examples=[UMBRELLA])


@pytest_asyncio.fixture
async def runtime(
    request: pytest.FixtureRequest, peer: Aimock, tmp_path: Path
) -> AsyncIterator[ReadyRuntime]:
    async with ready(request.param, peer.url, tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    "runtime",
    [
        *VENDORS,
        # Two whole answers of the real model: its package's own tests look at such answers.
        pytest.param("local", marks=pytest.mark.torture),
        pytest.param("copilot", marks=pytest.mark.slow),
    ],
    indirect=True,
)
async def test_a_text_gives_text_whole_and_in_pieces(runtime: ReadyRuntime) -> None:
    done = await runtime.run("Why is the sky blue?")
    assert isinstance(done, Done)
    assert done.task.status is TaskStatus.SUCCESS
    assert done.task.runtime_kind == runtime.runtime_kind
    text = done.unwrap()
    assert isinstance(text, str)
    assert text
    assert "".join([piece async for piece in runtime.stream_text("Why is the sky blue?")]) == text


@pytest.mark.parametrize(
    "runtime", [*VENDORS, pytest.param("local", marks=pytest.mark.slow)], indirect=True
)
async def test_a_decorated_tool_and_a_typed_answer(runtime: ReadyRuntime) -> None:
    asked = []

    @runtime.tool(effect="read")
    def weather(city: str) -> str:
        """Tell the weather in a city."""
        asked.append(city)
        return f"It rains in {city}."

    # The small model may need to be told that it has a tool, and what it says may be wrong.
    local = runtime.runtime_kind == "local"
    done = await runtime.run(
        "Do I need an umbrella?",
        output_type=Advice,
        limits=Limits(max_iterations=4),
        metadata={"local/tool_choice": "weather"} if local else None,
    )
    if local:
        assert isinstance(done.unwrap(), Advice)
        assert asked
        return
    assert done.unwrap() == Advice("Bonn", umbrella=True)
    assert asked == ["Bonn"]


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["copilot"], indirect=True)
async def test_a_typed_answer_of_a_session(runtime: ReadyRuntime) -> None:
    """The model also calls a tool that the session does not have, and is told so."""
    done = await runtime.run("Do I need an umbrella?", output_type=Advice)
    assert done.unwrap() == Advice("Bonn", umbrella=True)
