"""A client of the user's own and its connections belong to the event loop that first used them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import anthropic
import httpx
import httpx2
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
Two: TypeAlias = tuple[Any, Any]
"""Two clients on the same connections."""
REFUSED = (
    "client=: .*belongs to the event loop that first used it.*of its own, or leave client= out"
)
each_vendor = pytest.mark.parametrize("name", CLIENTS)


@pytest.fixture(scope="module")
def peer() -> Iterator[Aimock]:
    with Aimock([{"match": {}, "response": {"content": "Blue."}}]) as server:
        yield server


def expect_only_the_first(one: ProviderRuntime, other: ProviderRuntime) -> None:
    """Expect that only the runtime that asks first may ask; each has an event loop of its own."""
    try:
        assert one.run_sync("Why?").unwrap() == "Blue."
        with pytest.raises(CannotStart, match=REFUSED):
            other.run_sync("Why?")
        assert one.run_sync("Why?").unwrap() == "Blue."
    finally:
        one.close_sync()
        other.close_sync()


@each_vendor
def test_two_event_loops_do_not_share_a_client(name: str, peer: Aimock) -> None:
    client = CLIENTS[name](peer.url)
    one, other = RUNTIMES[name](client), RUNTIMES[name](client)
    expect_only_the_first(one, other)


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


def _of_openai(url: str) -> Two:
    client = _openai(url)
    return client, client.with_options(timeout=5)


def _of_claude(url: str) -> Two:
    client = CLIENTS["claude"](url)
    return client, client.copy(max_retries=0)


def _of_one_http_client(url: str) -> Two:
    http = httpx2.AsyncClient(headers=ONCE)
    first, other = (
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, http_client=http)
        for key in ("one", "two")
    )
    return first, other


def _of_gemini(url: str) -> Two:
    options: Any = {
        "base_url": url,
        "api_version": "v1beta",
        "httpx_async_client": httpx2.AsyncClient(headers=ONCE),
    }
    return (
        genai.Client(api_key="one", http_options=options),
        genai.Client(api_key="two", http_options=options),
    )


def _of_ollama(url: str) -> Two:
    transport = httpx.AsyncHTTPTransport()
    first, other = (
        ollama.AsyncClient(url, headers=dict(ONCE), mounts={"http://": transport}) for _ in range(2)
    )
    return first, other


def _without_weak_references(url: str) -> Two:
    """Claude takes any object with the methods of a client."""

    class Slotted:
        __slots__ = ("_inner",)

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    client = CLIENTS["claude"](url)
    return Slotted(client), Slotted(client)


SHARED: Mapping[str, tuple[str, Callable[[str], Two]]] = {
    "openai, with_options": ("openai", _of_openai),
    "openai, one http_client": ("chat", _of_one_http_client),
    "claude, copy": ("claude", _of_claude),
    "claude, objects without weak references": ("claude", _without_weak_references),
    "gemini, one httpx_async_client": ("gemini", _of_gemini),
    "ollama, one transport": ("ollama", _of_ollama),
}


@pytest.mark.parametrize(("name", "two"), SHARED.values(), ids=SHARED)
def test_two_event_loops_do_not_share_the_connections_of_two_clients(
    name: str, two: Callable[[str], Two], peer: Aimock
) -> None:
    first, second = two(peer.url)
    one, other = RUNTIMES[name](first), RUNTIMES[name](second)
    expect_only_the_first(one, other)


@pytest.mark.parametrize(("name", "two"), SHARED.values(), ids=SHARED)
async def test_two_clients_of_one_event_loop_share_connections(
    name: str, two: Callable[[str], Two], peer: Aimock
) -> None:
    first, second = two(peer.url)
    async with RUNTIMES[name](first) as one, RUNTIMES[name](second) as other:
        for runtime in (one, other, one):
            assert (await runtime.run("Why?")).unwrap() == "Blue."


def test_a_refused_copy_belongs_to_the_event_loop_of_its_connections(peer: Aimock) -> None:
    client, copy = _of_openai(peer.url)
    with asyncio.Runner() as runner:

        async def asked(client: Any) -> Any:
            async with RUNTIMES["openai"](client) as runtime:
                return (await runtime.run("Why?")).unwrap()

        assert runner.run(asked(client)) == "Blue."
        with pytest.raises(CannotStart, match=REFUSED):
            asyncio.run(asked(copy))
        assert runner.run(asked(copy)) == "Blue."


def test_a_client_whose_connections_are_hidden_is_not_checked(peer: Aimock) -> None:
    """It takes no weak references, and has no HTTP client where the vendor's client has it."""

    class Hidden:
        __slots__ = ("_inner", "messages", "timeout", "with_options")

        def __init__(self, inner: Any) -> None:
            self._inner, self.messages, self.timeout = inner, inner.messages, inner.timeout
            self.with_options = lambda **_: self

    client: Any = Hidden(CLIENTS["claude"](peer.url))

    async def asked() -> Any:
        async with ClaudeRuntime("scripted", client=client) as runtime:
            return (await runtime.run("Why?")).unwrap()

    assert [asyncio.run(asked()) for _ in range(2)] == ["Blue.", "Blue."]
