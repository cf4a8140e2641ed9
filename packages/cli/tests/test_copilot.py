"""The real Copilot CLI behind the same commands: on the real small model, and on a script."""

from __future__ import annotations

import os
import shlex
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from agentic_kernel_copilot import find_cli
from integration.peers.aimock import Aimock
from integration.peers.llama import LlamaServer
from integration.peers.node import installed

from .terminals import Terminals
from .test_mcp_servers import listed

pytestmark = pytest.mark.slow


@pytest.fixture
def program() -> Path:
    return find_cli(installed("copilot"))


@pytest.fixture
def copilot(terminals: Terminals, program: Path, tmp_path: Path) -> Terminals:
    """Terminals with the CLI, which keeps its sessions in the test's own folder."""
    home = tmp_path / "home"
    home.mkdir()
    terminals.env |= {
        "COPILOT_CLI_PATH": str(program),
        "COPILOT_HOME": str(home),
        "HOME": str(home),
        "COPILOT_OFFLINE": "true",
    }
    return terminals


def alive(program: Path, home: str) -> list[int]:
    """Ids of the processes of the CLI that keep their sessions in this home."""
    found, mark = [], f"COPILOT_HOME={home}".encode()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            ours = entry.name.isdigit() and (entry / "exe").readlink() == program
            if ours and mark in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


@pytest.mark.torture
def test_a_task_is_paused_and_resumed_elsewhere_and_survives_the_death_of_the_cli(
    copilot: Terminals, llama: LlamaServer, program: Path
) -> None:
    copilot.env |= {
        "COPILOT_PROVIDER_BASE_URL": f"{llama.url}/v1",
        "COPILOT_PROVIDER_API_KEY": llama.api_key,
        "COPILOT_MODEL": llama.model,
    }
    words = ("--runtime", "copilot", "--system", "You tell stories.", "--id", "it")
    first = copilot.start("run", *words, "Tell a long story about the sea.")
    first.until(out=20)
    copilot.call("pause", "it", "--json")
    assert first.end() == 3, first.err
    assert copilot.task("it")["status"] == "paused"
    more = ("--extra", "Tell a long story about a lighthouse.")
    copilot.call("resume", "it", *more, code=5)
    second = copilot.start("resume", "it", *more, "--runtime", "copilot")
    second.until(out=len(first.out) + 20)
    for pid in alive(program, copilot.env["COPILOT_HOME"]):
        os.kill(pid, signal.SIGKILL)
    code = second.end()
    after = copilot.task("it")
    assert (code, after["status"]) in ((0, "success"), (1, "failure")), second.err
    if code:
        assert after["failure"]["code"].startswith("copilot/")
    assert alive(program, copilot.env["COPILOT_HOME"]) == []


@pytest.mark.torture
def test_a_call_is_approved_from_another_terminal(
    copilot: Terminals, aimock: Aimock, tmp_path: Path, program: Path
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    copilot.env |= {"COPILOT_PROVIDER_BASE_URL": f"{aimock.url}/v1", "COPILOT_MODEL": "scripted"}
    call = {"name": "write_file", "arguments": '{"path": "note.txt", "content": "hello"}'}
    aimock.load(
        [
            {"match": {"hasToolResult": True}, "response": {"content": "It is written."}},
            {"match": {}, "response": {"toolCalls": [call]}},
        ]
    )
    words = ("--runtime", "copilot", "--tools", "write", "--workspace", str(workspace))
    asked = copilot.call("run", *words, "--id", "it", "Write it.", code=3)
    assert "waits for approval of " in asked.err
    assert list(workspace.iterdir()) == []
    proposed = shlex.split(asked.err.splitlines()[-1].partition("go on with: ")[2])
    done = copilot.call(*proposed[3:])
    assert "It is written." in done.out
    assert (workspace / "note.txt").read_text() == "hello"
    assert alive(program, copilot.env["COPILOT_HOME"]) == []


@pytest.mark.torture
def test_the_tools_of_an_mcp_server_are_the_sessions(
    copilot: Terminals, aimock: Aimock, tmp_path: Path
) -> None:
    copilot.env |= {
        "COPILOT_PROVIDER_BASE_URL": f"{aimock.url}/v1",
        "COPILOT_PROVIDER_API_KEY": "none-needed",
        "COPILOT_MODEL": "scripted",
    }
    call = {"name": "it__add", "arguments": '{"a": 12, "b": 34}'}
    aimock.load(
        [
            {"match": {"hasToolResult": True}, "response": {"content": "It is worked out."}},
            {"match": {}, "response": {"toolCalls": [call]}},
        ]
    )
    file = listed(tmp_path, "--listing", "sum")
    words = ("--runtime", "copilot", "--mcp", str(file), "--accept-tools")
    assert "It is worked out." in copilot.call("run", *words, "How much is 12 + 34?").out
    told = [each for each in aimock.requests()[-1].body["messages"] if each["role"] == "tool"]
    assert "46" in str(told)
