"""Secrets: a key that the server quotes is in no event, failure, record on disk or log record."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import Task
from agentic_kernel_engine import Event, Limits
from agentic_kernel_file import FileStore
from agentic_kernel_openai import OpenAIRuntime
from integration.peers.faulty import FaultyServer
from integration.peers.quotes import KEY, QUOTES, leaks


class Told:
    """An observer that keeps what it is told, piece by piece."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.text = ""

    def observe(self, task_id: str, event: Event) -> None:
        self.events.append(repr(event))
        self.text += str(event.data.get("text", "")) if event.type == "run.delta" else ""


def on_disk(folder: Path) -> list[str]:
    """What all files below a folder hold."""
    return [
        path.read_bytes().decode(errors="replace") for path in folder.rglob("*") if path.is_file()
    ]


@pytest.mark.parametrize("api", ["responses", "chat"])
@pytest.mark.parametrize("place", QUOTES)
async def test_a_key_that_the_server_quotes_is_told_nobody(
    api: Any, place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told, task = Told(), Task.new(summary="", instructions="Hello.", runtime_kind="openai")
    with FaultyServer(QUOTES[place], times=1) as server:
        async with OpenAIRuntime(
            "m",
            FileStore(tmp_path),
            api_key=KEY,
            base_url=f"{server.url}/v1",
            observer=told,
            middleware=[],
            limits=Limits(max_iterations=3),
            api=api,
        ) as runtime:
            done = await runtime.run(task)
    said = [*told.events, told.text, repr(done), caplog.text]
    said += on_disk(tmp_path)
    assert server.requests[0].headers
    assert [*leaks("\n".join(said))] == []
