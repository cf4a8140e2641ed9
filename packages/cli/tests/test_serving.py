"""The commands about the server: its keys, its address, and the tools of a runner."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentic_kernel import CannotStart, KernelError
from agentic_kernel_cli import serving
from agentic_kernel_cli.commands import app
from agentic_kernel_cli.kinds import install

TOOLS = """
from agentic_kernel_engine.seams import Tools, tool

@tool
def double(number: int) -> int:
    "Twice the number."
    return 2 * number

registry = Tools(double)
several = [double]
nothing = []
"""


def command(*words: str) -> tuple[int, str, str]:
    """The exit code, the output, and the error; an unexpected one is raised."""
    result = CliRunner().invoke(app, words)
    if isinstance(result.exception, (KernelError, OSError)):
        return 1, result.stdout, str(result.exception)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_a_key_is_made_shown_once_listed_and_revoked(tmp_path: Path) -> None:
    file = str(tmp_path / "keys.json")
    words = ("--principal", "ann", "--scope", "client", "--scope", "approver", "--tenant", "red")
    code, text, said = command("keys", "make", "--keys", file, *words)
    assert (code, said) == (0, "")
    _, number, secret = text.strip().split("_", 2)  # The secret itself may have a "_".
    code, listed, _ = command("--json", "keys", "list", "--keys", file)
    shown = json.loads(listed)
    assert (shown["id"], shown["scopes"], shown["tenant"]) == (
        number,
        ["approver", "client"],
        "red",
    )
    assert secret not in listed
    assert "usable" in command("keys", "list", "--keys", file)[1]
    assert command("keys", "revoke", number, "--keys", file)[0] == 0
    assert "revoked" in command("keys", "list", "--keys", file)[1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("make", "--keys", "k", "--principal", "ann", "--scope", "root"), "use some of client"),
        (("make", "--keys", "k", "--principal", "a", "--scope", "client,agent"), "give each one"),
        (("make", "--keys", "none/k", "--principal", "a", "--scope", "client"), "that exists"),
        (("list", "--keys", "none"), "agentic-kernel keys make"),
        (("revoke", "x", "--keys", "none"), "cannot be read"),
    ],
    ids=["scope", "scopes", "folder", "list", "revoke"],
)
def test_a_key_that_cannot_be_kept_is_told_with_the_remedy(
    words: tuple[str, ...], says: str
) -> None:
    code, _, said = command("keys", *words)
    assert (code, says in said) == (1, True), said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--listen", "0.0.0.0:0"), "make keys and give --keys FILE"),
        (("--listen", "[::]:0"), "make keys and give --keys FILE"),
        (("--listen", "8080"), "use HOST:PORT"),
        (("--listen", "127.0.0.1:99999"), "use HOST:PORT"),
        (("--listen", "127.0.0.1:0", "--policy", "none.yaml"), "cannot be read"),
        (("--listen", "127.0.0.1:0", "--policy", "none"), "cannot be read (No such file"),
        (("--listen", "127.0.0.1:0", "--policy", "bad.yaml"), "line 2"),
        (("--listen", "127.0.0.1:0", "--keys", "none.json"), "agentic-kernel keys make"),
    ],
    ids=[
        "everywhere",
        "everywhere on IPv6",
        "no host",
        "port",
        "no policy",
        "no folder",
        "policy",
        "keys",
    ],
)
def test_a_server_that_cannot_or_must_not_start_says_why(
    tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    (tmp_path / "bad.yaml").write_text("rules: [")
    code, _, said = command("--state", str(tmp_path / "state"), "serve", *words)
    assert (code, says in said) == (1, True), said
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("tools", "server", "says"),
    [
        ("none:tools", "http://127.0.0.1:1", "No module named 'none'"),
        ("mine", "http://127.0.0.1:1", "use MODULE:NAME"),
        ("mine:absent", "http://127.0.0.1:1", "has no absent"),
        ("mine:nothing", "http://127.0.0.1:1", "needs at least one"),
        ("mine:registry", "127.0.0.1:1", "use http://HOST:PORT"),
        ("mine:registry", "http://127.0.0.1:1/v0/", "--server: is"),
    ],
    ids=["module", "form", "name", "empty", "server", "version"],
)
def test_a_runner_without_tools_or_server_says_why(
    tmp_path: Path, tools: str, server: str, says: str
) -> None:
    (tmp_path / "mine.py").write_text(TOOLS)
    code, _, said = command("runner", "--tools", tools, "--server", server)
    assert (code, says in said) == (1, True), said


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = "{}:{}".format(*taken.getsockname())
        code, _, said = command("--state", "state", "serve", "--listen", place)
    assert (code, f"cannot listen on {place} (Address already in use)" in said) == (1, True), said


def test_without_the_server_the_command_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(name="agentic_kernel_server")

    monkeypatch.setattr(serving, "import_module", absent)
    with pytest.raises(CannotStart, match=re.escape(install("server"))):
        serving.installed()


def test_the_short_commands_do_not_load_the_server() -> None:
    script = (
        "import sys, agentic_kernel_cli.commands\n"
        "assert not {'agentic_kernel_server', 'starlette', 'uvicorn'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
