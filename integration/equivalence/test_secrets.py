"""Secrets: a key that the server quotes is in no event, failure, record on disk or log record."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import Task
from agentic_kernel_claude import ClaudeRuntime
from agentic_kernel_engine import Event, Limits
from agentic_kernel_file import FileStore
from agentic_kernel_gemini import GeminiRuntime
from agentic_kernel_ollama import OllamaRuntime
from agentic_kernel_openai import OpenAIRuntime

from ..peers.faulty import FaultyServer
from ..peers.quotes import KEY, QUOTES, leaks

NAMES = ("claude", "gemini", "ollama", "openai_chat", "openai_responses")


class Told:
    """An observer that keeps what it is told, piece by piece."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.text = ""

    def observe(self, task_id: str, event: Event) -> None:
        self.events.append(repr(event))
        self.text += str(event.data.get("text", "")) if event.type == "run.delta" else ""


def made(name: str, folder: Path, url: str, told: Told) -> Any:
    """A runtime of that name at the address, with its state in the folder."""
    store, limits = FileStore(folder), Limits(max_iterations=3)
    shared: dict[str, Any]
    shared = {"api_key": KEY, "observer": told, "middleware": [], "limits": limits}
    if name == "claude":
        return ClaudeRuntime("m", store, base_url=url, **shared)
    if name == "gemini":
        return GeminiRuntime("m", store, base_url=url, **shared)
    if name == "ollama":
        return OllamaRuntime("m", store, host=url, **shared)
    api: Any = name.partition("_")[2]
    return OpenAIRuntime("m", store, base_url=f"{url}/v1", api=api, **shared)


def on_disk(folder: Path) -> list[str]:
    """What all files below a folder hold."""
    return [
        path.read_bytes().decode(errors="replace") for path in folder.rglob("*") if path.is_file()
    ]


def _cases() -> Iterator[Any]:
    """Every place on one API, by turns: the code that all share is in the engine."""
    for number, name in enumerate(NAMES):
        for at, place in enumerate(QUOTES):
            in_gate = at % len(NAMES) == number
            yield pytest.param(name, place, marks=() if in_gate else pytest.mark.torture)


@pytest.mark.parametrize(("name", "place"), [*_cases()])
async def test_a_key_that_the_server_quotes_is_told_nobody(
    name: str, place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    kind = name.partition("_")[0]
    told, task = Told(), Task.new(summary="", instructions="Hello.", runtime_kind=kind)
    with FaultyServer(QUOTES[place], times=1) as server:
        async with made(name, tmp_path, server.url, told) as runtime:
            done = await runtime.run(task)
    said = [*told.events, told.text, repr(done), caplog.text]
    said += on_disk(tmp_path)
    assert server.requests[0].headers
    assert [*leaks("\n".join(said))] == []
