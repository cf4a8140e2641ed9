"""A client of the user's own belongs to the event loop that first used it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import anthropic
import ollama
import openai
import pytest
from google import genai

from agentic_kernel import CannotStart
from agentic_kernel_claude import ClaudeRuntime
from agentic_kernel_engine.providers import ProviderRuntime
from agentic_kernel_gemini import GeminiRuntime
from agentic_kernel_ollama import OllamaRuntime
from agentic_kernel_openai import OpenAIRuntime

from .peers.aimock import Aimock

ONCE: Mapping[str, str] = {"Connection": "close"}
"""So that no connection outlives its event loop."""


def _openai(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", default_headers=ONCE)


CLIENTS: Mapping[str, Callable[[str], Any]] = {
    "openai": _openai,
    "chat": _openai,
    "claude": lambda url: anthropic.AsyncAnthropic(
        base_url=url, api_key="none", default_headers=ONCE
    ),
    "gemini": lambda url: genai.Client(
        api_key="none",
        http_options={"base_url": url, "api_version": "v1beta", "headers": dict(ONCE)},
    ),
    "ollama": lambda url: ollama.AsyncClient(url, headers=dict(ONCE)),
}
RUNTIMES: Mapping[str, Callable[[Any], ProviderRuntime]] = {
    "openai": lambda client: OpenAIRuntime("scripted", client=client),
    "chat": lambda client: OpenAIRuntime("scripted", api="chat", client=client),
    "claude": lambda client: ClaudeRuntime("scripted", client=client),
    "gemini": lambda client: GeminiRuntime("scripted", client=client),
    "ollama": lambda client: OllamaRuntime("scripted", client=client),
}
REFUSED = (
    "client=: .*belongs to the event loop that first used it.*of its own, or leave client= out"
)
each_vendor = pytest.mark.parametrize("name", CLIENTS)


@pytest.fixture(scope="module")
def peer() -> Iterator[Aimock]:
    with Aimock([{"match": {}, "response": {"content": "Blue."}}]) as server:
        yield server


@each_vendor
def test_two_event_loops_do_not_share_a_client(name: str, peer: Aimock) -> None:
    """Each runtime has an event loop of its own for `run_sync`."""
    client = CLIENTS[name](peer.url)
    one, other = RUNTIMES[name](client), RUNTIMES[name](client)
    try:
        assert one.run_sync("Why?").unwrap() == "Blue."
        with pytest.raises(CannotStart, match=REFUSED):
            other.run_sync("Why?")
        assert one.run_sync("Why?").unwrap() == "Blue."
    finally:
        one.close_sync()
        other.close_sync()


@each_vendor
def test_a_client_of_a_closed_event_loop_is_refused(name: str, peer: Aimock) -> None:
    client = CLIENTS[name](peer.url)

    async def asked() -> Any:
        async with RUNTIMES[name](client) as runtime:
            return (await runtime.run("Why?")).unwrap()

    assert asyncio.run(asked()) == "Blue."
    with pytest.raises(CannotStart, match=REFUSED):
        asyncio.run(asked())


@each_vendor
async def test_runtimes_of_one_event_loop_share_a_client(name: str, peer: Aimock) -> None:
    client = CLIENTS[name](peer.url)
    async with RUNTIMES[name](client) as one, RUNTIMES[name](client) as other:
        for runtime in (one, other, one):
            assert (await runtime.run("Why?")).unwrap() == "Blue."
    async with RUNTIMES[name](client) as later:
        assert (await later.run("Why?")).unwrap() == "Blue."


def test_a_client_that_takes_no_weak_references_is_not_checked(peer: Aimock) -> None:
    """Claude takes any object with the methods of a client."""

    class Slotted:
        __slots__ = ("_inner",)

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    client: Any = Slotted(CLIENTS["claude"](peer.url))

    async def asked() -> Any:
        async with ClaudeRuntime("scripted", client=client) as runtime:
            return (await runtime.run("Why?")).unwrap()

    assert [asyncio.run(asked()) for _ in range(2)] == ["Blue.", "Blue."]
