"""The CLI's process: found, started once, and gone with its Host."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import CannotStart, TaskNotFound
from agentic_kernel_copilot import CLI_VARIABLE, CLI_VERSION, CopilotRuntime, cli, find_cli
from agentic_kernel_engine import MemoryStore
from integration.peers.aimock import Aimock

from .conftest import asked, processes
from .scripts import after, says

pytestmark = pytest.mark.slow

HOST = """
import asyncio, json, sys
from agentic_kernel import Task
from agentic_kernel_copilot import CopilotRuntime

class Say:
    def observe(self, task_id, event):
        if event.type == "run.delta":
            print("talking", flush=True)

async def main():
    async with CopilotRuntime(**json.loads(sys.argv[1]), observer=Say()) as runtime:
        await runtime.run(Task.new(summary="", instructions="Talk.", runtime_kind="copilot"))

asyncio.run(main())
"""


def test_the_program_is_found_behind_npms_script(cli_path: Path) -> None:
    package = cli_path.parent.parent / "copilot"
    assert find_cli(package / "npm-loader.js") == cli_path
    assert find_cli(cli_path.parents[3]) == cli_path
    assert find_cli(cli_path) == cli_path


def test_the_environment_says_where_it_is(cli_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CLI_VARIABLE, str(cli_path))
    assert find_cli() == cli_path


async def test_a_cli_that_is_missing_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CLI_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    store = MemoryStore()
    async with CopilotRuntime(store, home=tmp_path) as runtime:
        task = asked("Hello.")
        with pytest.raises(CannotStart, match=f"npm install -g @github/copilot@{CLI_VERSION}"):
            await runtime.dispatch(task)
        with pytest.raises(TaskNotFound):
            await runtime.get(task.id)


@pytest.mark.torture
async def test_another_version_is_refused_with_what_to_install(
    scripted: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "CLI_VERSION", "0.0.1")
    async with CopilotRuntime(**scripted) as runtime:
        with pytest.raises(CannotStart, match=f"version {CLI_VERSION}, .* 0.0.1; run npm install"):
            await runtime.dispatch(asked("Hello."))


@pytest.mark.torture
async def test_what_is_no_cli_is_refused(scripted: Mapping[str, Any]) -> None:
    async with CopilotRuntime(**{**scripted, "cli_path": "/bin/true"}) as runtime:
        with pytest.raises(CannotStart, match="does not start"):
            await runtime.dispatch(asked("Hello."))


async def test_reading_and_controlling_start_nothing(
    scripted: Mapping[str, Any], cli_path: Path
) -> None:
    async with CopilotRuntime(**scripted) as runtime:
        assert list(await runtime.find()) == []
        assert processes(cli_path) == []


@pytest.mark.torture
async def test_nothing_is_left_open(scripted: Mapping[str, Any], aimock: Aimock) -> None:
    before = _open_files()
    aimock.load([after(0, says("hello"))])
    async with CopilotRuntime(**scripted) as runtime:
        await runtime.run(asked("Hello."))
    assert _open_files() <= before
    assert aimock.connections() == 0


async def test_the_cli_dies_with_a_host_that_is_killed(
    scripted: Mapping[str, Any], aimock: Aimock, cli_path: Path, tmp_path: Path
) -> None:
    """Its input ends with the process that held the other end."""
    aimock.load([{"match": {}, "response": says("word " * 4000), "latency": 50, "chunkSize": 5}])
    given = {
        **scripted,
        "cli_path": str(cli_path),
        "home": str(scripted["home"]),
        "working_directory": str(tmp_path),
    }
    host = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", HOST, json.dumps(given)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert host.stdout is not None
        assert (await asyncio.to_thread(host.stdout.readline)).strip() == "talking"
        assert len(processes(cli_path)) == 1
        host.send_signal(signal.SIGKILL)
        async with asyncio.timeout(20):
            while processes(cli_path):
                await asyncio.sleep(0.02)
    finally:
        host.kill()
        host.wait()
        if host.stdout is not None:
            host.stdout.close()


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
