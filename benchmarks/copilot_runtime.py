"""CopilotRuntime: how soon the CLI starts, a kill, a pause, twenty sessions, and what is left.

The provider is a server of ours whose stream stalls, so that a turn ends when it is ended; where
answers are wanted, it is aimock, in a process of its own. This module has not the name of the
vendor's package, which it would hide.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from copilot import CopilotClient, RuntimeConnection
from figure import Figure
from interrupted import Pieces, slowest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_copilot import CopilotRuntime, find_cli
from agentic_kernel_engine import tool

sys.path.append(str(Path(__file__).parents[1]))
from integration.peers.aimock import Aimock
from integration.peers.faulty import FaultyServer
from integration.peers.node import installed

STARTS = 7
KILLS = 200
PAUSES = 100
SESSIONS = 20
MEET = {"toolCalls": [{"name": "meet", "arguments": "{}"}]}
STEPS = [
    {"match": {"turnIndex": 0}, "response": MEET},
    {"match": {"turnIndex": 1}, "response": {"content": "Yes."}},
]


def measure() -> list[Figure]:
    """The figures of the Copilot runtime."""
    with TemporaryDirectory(prefix="copilot-") as home, Aimock(STEPS) as peer:
        place = _place(Path(home))
        asyncio.run(_start(place, peer.url))  # The CLI unpacks itself when it first starts.
        began = _held(peer)
        starts, bare = zip(
            *(asyncio.run(_starts(place, peer.url)) for _ in range(STARTS)), strict=True
        )
        together = asyncio.run(_together(place, peer))
        with FaultyServer("stall") as server:
            ended, aborted = asyncio.run(_kills(place, server))
            paused = asyncio.run(_pauses(place, server))
        left = _held(peer)
    return [
        Figure(
            name=f"the CLI starts, median of {STARTS}",
            ours=statistics.median(starts), unit="s", limit=statistics.median(bare),
            limit_is="the bare SDK starts it", bar=1.5,
        ),
        slowest(f"kill to terminal, p99 of {KILLS}", ended, 20),
        slowest(
            f"kill to the CLI's turn aborted and its connection closed, p99 of {KILLS}",
            aborted, 300,
        ),
        slowest(f"pause in the middle of an answer to paused, p99 of {PAUSES}", paused, 300),
        together,
        Figure(
            name="child processes, connections and open files, after all of it",
            ours=left, unit="", limit=began, limit_is="before it", bar=began,
        ),
    ]  # fmt: skip


def _place(home: Path) -> Mapping[str, Any]:
    return {
        "cli_path": find_cli(installed("copilot")),
        "home": home,
        "working_directory": home,
        "env": {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")},
    }


def _runtime(place: Mapping[str, Any], url: str, **given: Any) -> CopilotRuntime:
    provider: Any = {"type": "openai", "wire_api": "completions", "base_url": f"{url}/v1"}
    return CopilotRuntime(
        model="scripted", provider=provider, offline=True, system_message="Be brief.",
        **place, **given,
    )  # fmt: skip


def _task() -> Task:
    return Task.new(summary="", instructions="Hi", runtime_kind="copilot")


async def _start(place: Mapping[str, Any], url: str) -> float:
    async with _runtime(place, url) as runtime:
        began = time.perf_counter()
        await runtime.substrate.cli.open()
        return time.perf_counter() - began


async def _starts(place: Mapping[str, Any], url: str) -> tuple[float, float]:
    """Seconds until the CLI is there, ours and with the bare SDK, one after the other."""
    ours = await _start(place, url)
    client = CopilotClient(
        connection=RuntimeConnection.for_stdio(path=str(place["cli_path"])),
        mode="empty",
        base_directory=str(place["home"]),
    )
    began = time.perf_counter()
    await client.start()
    bare = time.perf_counter() - began
    await client.stop()
    return ours, bare


async def _kills(place: Mapping[str, Any], server: FaultyServer) -> tuple[list[float], list[float]]:
    """Seconds from a kill to the terminal Task, and until the CLI asks the model no more."""
    ended, aborted = [], []
    pieces = Pieces()
    async with _runtime(place, server.url, observer=pieces) as runtime:
        for _ in range(KILLS):
            task = _task()
            await pieces.begun(runtime, task)
            began = time.perf_counter()
            await runtime.kill(task.id)
            assert (await runtime.get(task.id)).status.terminal
            ended.append(time.perf_counter() - began)
            await asyncio.to_thread(server.wait_closed)
            aborted.append(server.closed_at[-1] - began)
        assert runtime.substrate.cli.starts == 1
    return ended, aborted


async def _pauses(place: Mapping[str, Any], server: FaultyServer) -> list[float]:
    paused = []
    pieces = Pieces()
    async with _runtime(place, server.url, observer=pieces) as runtime:
        for _ in range(PAUSES):
            task = _task()
            await pieces.begun(runtime, task)
            began = time.perf_counter()
            await runtime.pause(task.id)
            await runtime.wait(task.id, TaskStatus.PAUSED)
            paused.append(time.perf_counter() - began)
            await runtime.kill(task.id)
            await asyncio.to_thread(server.wait_closed)
    return paused


async def _together(place: Mapping[str, Any], peer: Aimock) -> Figure:
    """All of them are in the middle of a turn at the same moment."""
    met = asyncio.Barrier(SESSIONS)

    @tool(effect="none")
    async def meet() -> str:
        """Wait for all the others."""
        async with asyncio.timeout(60):
            await met.wait()
        return "met"

    before = _children()
    async with _runtime(place, peer.url, tools=[meet]) as runtime:
        done = await asyncio.gather(*(runtime.run(_task()) for _ in range(SESSIONS)))
        processes = _children() - before
        assert runtime.substrate.cli.starts == 1
    assert [each.result for each in done] == ["Yes."] * SESSIONS
    return Figure(
        name=f"processes of the CLI for {SESSIONS} sessions at once",
        ours=processes, unit="", limit=1, limit_is="one of them", bar=1,
    )  # fmt: skip


def _held(peer: Aimock) -> int:
    """What this process holds: children, connections to the peer, files, sockets and pipes."""
    return _children() + peer.connections() + len(list(Path("/proc/self/fd").iterdir()))


def _children() -> int:
    threads = Path("/proc/self/task").iterdir()
    return sum(len((thread / "children").read_text().split()) for thread in threads)
