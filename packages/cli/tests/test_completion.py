"""Completion: what is offered at the cursor, and real shells that offer it."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentic_kernel import Dispatch, Kill, Mutation, Pause, Task, apply
from agentic_kernel_cli import completing
from agentic_kernel_cli.commands import VERBS, app
from agentic_kernel_cli.completing import answer, offered
from agentic_kernel_cli.naming import STATE_VARIABLE
from agentic_kernel_cli.shells import ASKED, SCRIPTS
from agentic_kernel_engine import Record
from agentic_kernel_file import FileStore

HOSTILE = ("$(touch pwned)", "`touch pwned`", "a b", "x\x1b[2J", "it's", "*", "-rf", "~x", "a\\b")
ASKS = {
    "kind": "approval",
    "requests": [{"digest": "d" * 64, "action": {"type": "tool_call", "tool": "write"}}],
}
SHELLS = [
    "bash",
    *(
        pytest.param(
            name,
            marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed"),
        )
        for name in ("fish", "zsh")
    ),
]
PATIENCE = 30.0
NOW = datetime(2030, 1, 1, tzinfo=UTC)
LATER = datetime(2030, 1, 2, tzinfo=UTC)


def kept(name: str, *then: Mutation, at: datetime = NOW) -> Record:
    """The record of a Task that was dispatched and then changed so."""
    task = Task.new(id=name, summary=f"a\t{name}", instructions="", runtime_kind="local", at=at)
    for mutation in (Dispatch(), *then):
        task = apply(task, mutation, at)
    return Record(task)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a paused Task, an ended one, and some with hostile ids."""
    folder = tmp_path / "state"

    async def keeping() -> None:
        store = FileStore(folder)
        await store.insert(kept("order-7", Pause(notes={"engine/waiting_for": ASKS}), at=LATER))
        await store.insert(kept("old:1", Kill()))
        for name in HOSTILE:
            await store.insert(kept(name))
        store.close()

    asyncio.run(keeping())
    monkeypatch.setenv(STATE_VARIABLE, str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def words(*given: str) -> list[str]:
    return [word for word, _ in offered(given).words]


@pytest.mark.parametrize(
    ("given", "there"),
    [
        (["sho"], ["show"]),
        (["--json", "re"], ["resume", "retune", "recover", "rerun"]),
        (["guard", "appro"], ["approvals", "approve"]),
        (["list", "--st"], ["--status", "--state"]),
        (["list", "--status", "pa"], ["paused"]),
        (["list", "--status=pa"], ["--status=paused"]),
        (["run", "text", "--runtime", "loc"], ["local"]),
        (["resume", "--runtime=op"], ["--runtime=openai"]),
        (["run", "text", "--tools", "calculator,"], ["calculator,write"]),
        (["run", "text", "--yes", "--ye"], []),
        (["run", "text", "--", "--ye"], []),
        (["completion", "z"], ["zsh"]),
        (["prune", "--old"], ["--older-than"]),
        (["keys", "make", "--scope", "ag"], ["agent"]),
        (["frob", ""], None),
    ],
)
def test_words_fit_the_place_of_the_cursor(given: list[str], there: list[str] | None) -> None:
    if there is None:
        with pytest.raises(KeyError):
            offered(given)
    else:
        assert words(*given) == there


def test_every_verb_is_offered() -> None:
    assert words("") == list(VERBS)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (["--state", ""], "folders"),
        (["run", "t", "--workspace", ""], "folders"),
        (["run", "t", "--mcp", ""], "files"),
        (["run", "t", "--model", ""], "files"),
        (["run", "t", "--runtime", "openai", "--model", ""], "words"),
        (["run", ""], "words"),
    ],
)
def test_files_are_offered_where_a_file_is_meant(given: list[str], kind: str) -> None:
    assert offered(given).kind == kind


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        (["show", ""], {"order-7", "old:1"}),
        (["show", "ord"], {"order-7"}),
        (["resume", ""], {"order-7"}),
        (["rerun", "--model", "x", ""], {"old:1"}),
        (["list", "--after", "o"], {"order-7", "old:1"}),
        (["show", "rder-7"], {"order-7"}),
        (["list", "--after=rder-7"], {"--after=order-7"}),
        (["show", "der-7"], set()),
        (["rerun", "rder-7"], set()),
        (["pause", ""], set()),
        (["approve", "order-7", ""], {"d" * 64}),
        (["approve", "--last", ""], {"d" * 64}),
        (["answer", "--last", ""], set()),
    ],
)
@pytest.mark.usefixtures("state")
def test_ids_fit_the_verb_and_none_can_run_a_command(given: list[str], ids: set[str]) -> None:
    found = offered(given).words
    assert {word for word, _ in found} == ids
    assert all(remark.isprintable() for _, remark in found)


@pytest.fixture
def alike(state: Path) -> None:
    """More paused Tasks: two ids with the same end, one that begins with it, one with a colon."""

    async def keeping() -> None:
        store = FileStore(state)
        for name in ("11-one-abcdef", "12-two-abcdef", "two-abcdef-13", "ab:123456"):
            await store.insert(kept(name, Pause()))
        store.close()

    asyncio.run(keeping())


@pytest.mark.parametrize(
    ("part", "kind", "ids"),
    [
        ("abcdef", "ends", {"11-one-abcdef", "12-two-abcdef"}),
        ("two-abcdef", "words", {"two-abcdef-13"}),
        ("wo-abcdef", "ends", {"12-two-abcdef"}),
    ],
)
@pytest.mark.usefixtures("alike")
def test_ids_that_end_so_are_offered_if_no_id_begins_so(
    part: str, kind: str, ids: set[str]
) -> None:
    found = offered(["show", part])
    assert found.kind == kind
    assert {word for word, _ in found.words} == ids


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        (["show", "123456"], ["ends", "ab:123456"]),
        (["show", "b", ":", "123456"], ["ends"]),
        (["list", "--after", "=", "123456"], ["ends", "ab:123456"]),
    ],
)
@pytest.mark.usefixtures("alike")
def test_bash_gets_an_id_only_if_it_replaces_all_that_does_not_fit(
    parts: list[str], lines: list[str]
) -> None:
    assert [line.partition("\t")[0] for line in answer("bash", parts)] == lines


def test_nothing_is_made_or_imported_for_a_completion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "not_to_import.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "absent"))
    assert words("show", "") == []
    assert not (tmp_path / "absent").exists()
    monkeypatch.delenv(STATE_VARIABLE)
    assert words("--app", "not_to_import:host", "show", "") == []
    assert "not_to_import" not in sys.modules


@pytest.mark.parametrize(
    ("parts", "joined", "cut"),
    [
        (["list", "--status", "=", "pa"], ["list", "--status=pa"], 9),
        (["list", "--status", "="], ["list", "--status="], 9),
        (["show", "old", ":", ""], ["show", "old:"], 4),
        (["--state", "'my dir'", "show", ""], ["--state", "my dir", "show", ""], 0),
        (["run", "'open"], ["run", "open"], 0),
    ],
)
def test_words_that_bash_split_are_put_together(
    parts: list[str], joined: list[str], cut: int
) -> None:
    assert completing._joined(parts) == (joined, cut)


def test_a_completion_loads_no_part_that_runs_and_says_nothing_about_an_error(
    tmp_path: Path,
) -> None:
    script = (
        "import sys\nfrom agentic_kernel_cli.app import main\nmain()\n"
        "print(*[n for n in ('pydantic', 'asyncio', 'rich', 'agentic_kernel_engine')"
        " if n in sys.modules], file=sys.stderr)"
    )
    for given in (["list", "--st"], ["frob", ""], ["\x1b[2J", "--x"]):
        env = {**os.environ, ASKED: "bash"}
        done = subprocess.run(
            [sys.executable, "-c", script, *given], env=env, capture_output=True, text=True
        )
        assert done.returncode == 0
        assert done.stderr == "\n"
        assert done.stdout.startswith("words\n--status\t") == (given[0] == "list")


# Real shells


def typed(shell: str, keys: str, until: str, folder: Path, env: Mapping[str, str]) -> str:
    """The screen of an interactive shell after these keys; it ends with the shell's answer."""
    start: Mapping[str, list[str]] = {
        "bash": ["bash", "--norc", "--noprofile", "-i"],
        "zsh": ["zsh", "-f", "-i"],
        "fish": ["fish", "--no-config", "--interactive"],
    }
    process, screen = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.execvpe(shell, start[shell], dict(env))
    shown = b""
    try:
        os.write(screen, keys.encode())
        deadline = time.monotonic() + PATIENCE
        while until not in seen(shown) and time.monotonic() < deadline:
            if select.select([screen], [], [], 0.1)[0]:
                shown += os.read(screen, 4096)
    finally:
        os.kill(process, 9)
        os.waitpid(process, 0)
        with suppress(OSError):
            os.close(screen)
    return seen(shown)


def seen(shown: bytes) -> str:
    """The text without colours, bells and moves of the cursor; a backspace removes a character."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x07", "", shown.decode(errors="replace"))
    left: list[str] = []
    for char in text:
        if char != "\b":
            left.append(char)
        elif left:
            left.pop()
    return "".join(left)


@pytest.fixture
def terminal(state: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of a shell in which the command is installed with its completion."""
    tools = tmp_path / "bin"
    tools.mkdir()
    command = tools / "agentic-kernel"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m agentic_kernel_cli "$@"\n')
    command.chmod(0o755)
    for shell, script in SCRIPTS.items():
        (tmp_path / f"_agentic-kernel.{shell}").write_text(script)
    return {
        **os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "TERM": "xterm",
        "HOME": str(tmp_path), "COLUMNS": "160", "LINES": "50", "PS1": "> ",
        STATE_VARIABLE: str(state),
    }  # fmt: skip


SOURCED = {
    "bash": "bind 'set enable-bracketed-paste off'; source _agentic-kernel.bash\n",
    "zsh": "autoload -U compinit; compinit -u -D; source ./_agentic-kernel.zsh\n",
    "fish": "source _agentic-kernel.fish\n",
}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("agentic-kernel resume ", "order-7"),
        ("agentic-kernel run text --mcp my-", "my-servers.json"),
        ("agentic-kernel show rder-7", "show order-7"),
        pytest.param(
            "agentic-kernel list --after=rder-7", "--after=order-7", marks=pytest.mark.torture
        ),
        pytest.param("agentic-kernel sho", "show ", marks=pytest.mark.torture),
        pytest.param("agentic-kernel show old", "old:1", marks=pytest.mark.torture),
        pytest.param(
            "agentic-kernel list --status=pau", "--status=paused", marks=pytest.mark.torture
        ),
    ],
)
@pytest.mark.slow
def test_a_real_shell_completes_at_the_tab_key(
    shell: str, line: str, completed: str, terminal: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "my-servers.json").write_text("{}")
    keys = f"{SOURCED[shell]}{line}\t"
    shown = typed(shell, keys, completed, tmp_path, terminal)
    assert completed in shown, shown
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.slow
@pytest.mark.torture
@pytest.mark.usefixtures("alike")
def test_a_real_shell_keeps_an_end_that_several_ids_have_and_lists_them(
    shell: str, terminal: dict[str, str], tmp_path: Path
) -> None:
    tabs = "\t\t" if shell == "bash" else "\t"
    keys = f"{SOURCED[shell]}agentic-kernel show abcdef{tabs}"
    shown = typed(shell, keys, "11-one-abcdef", tmp_path, terminal)
    assert "12-two-abcdef" in shown, shown
    # The common beginning of the two did not replace the end.
    assert re.search(r"show 1(?![12])", shown) is None, shown


@pytest.mark.parametrize("shell", sorted(SCRIPTS))
def test_the_script_is_printed_as_it_is(shell: str) -> None:
    assert CliRunner().invoke(app, ["completion", shell]).stdout == SCRIPTS[shell]
