"""The real CLI, installed once, with a home of its own for the session."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import Task
from agentic_kernel_copilot import find_cli
from agentic_kernel_engine.loop import Action, Context, Decision
from agentic_kernel_engine.seams import Tool, tool
from integration.peers.aimock import Aimock
from integration.peers.fixtures import aimock, aimock_process, llama
from integration.peers.node import installed

__all__ = ["aimock", "aimock_process", "llama"]

KEY = "sk-loopback-0123456789"
MARK = ("AGENTIC_KERNEL_TESTS", secrets.token_hex(8))
"""In the environment of every CLI that these tests start, so that they count no other."""


@pytest.fixture(scope="session")
def cli_path() -> Path:
    return find_cli(installed("copilot"))


@pytest.fixture(scope="session")
def cli_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kept for the session: the CLI unpacks itself into it when it first starts."""
    return tmp_path_factory.mktemp("copilot")


@pytest.fixture
def place(cli_path: Path, cli_home: Path, tmp_path: Path) -> Mapping[str, Any]:
    """The CLI's place and folder, and the environment that it may see."""
    return {
        "cli_path": cli_path,
        "home": cli_home,
        "working_directory": tmp_path,
        "env": {"HOME": str(cli_home), "XDG_CACHE_HOME": str(cli_home / ".cache"), **dict([MARK])},
    }


@pytest.fixture
def scripted(place: Mapping[str, Any], aimock: Aimock) -> Mapping[str, Any]:
    """Keywords for a runtime whose provider is aimock."""
    provider = {
        "type": "openai",
        "wire_api": "completions",
        "base_url": f"{aimock.url}/v1",
        "api_key": KEY,
    }
    return {
        **place,
        "model": "scripted",
        "provider": provider,
        "offline": True,
        "system_message": "Be brief.",
    }


@pytest.fixture(autouse=True)
def no_process_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test with the CLI ends with as many processes of it as it began with: none."""
    if "cli_path" not in request.fixturenames:
        yield
        return
    cli_path = request.getfixturevalue("cli_path")
    assert processes(cli_path) == []
    yield
    assert processes(cli_path) == []


def processes(program: Path) -> list[int]:
    """Ids of the living processes of these tests that run this program."""
    found = []
    mark = "=".join(MARK).encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            ours = (entry / "exe").readlink() == program and not _zombie(entry)
            if ours and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def _zombie(entry: Path) -> bool:
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"


class Recorded:
    """A policy that says the same about everything, and keeps what it was asked."""

    def __init__(self, decision: Decision) -> None:
        self.asked: list[tuple[str, str]] = []
        self._decision = decision

    async def authorize(self, action: Action, context: Context) -> Decision:
        tool = context.tools[-1]
        self.asked.append((tool.name, tool.effect))
        return self._decision


class HeldWrite:
    """A tool that writes, once it may."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()

    def tool(self) -> Tool:
        @tool(effect="write")
        async def write() -> str:
            """Write."""
            self.begun.set()
            await self.may_end.wait()
            return "written"

        return write


def asked(instructions: str, **metadata: Any) -> Task:
    return Task.new(
        summary="", instructions=instructions, runtime_kind="copilot", metadata=metadata
    )
