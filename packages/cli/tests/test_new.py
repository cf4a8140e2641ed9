"""The commands about new packages: their output, their questions, and a missing package."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from agentic_kernel import CannotStart, InvalidValue
from agentic_kernel_cli.commands import app
from agentic_kernel_cli.kinds import install


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def command(*words: str) -> str:
    """The output of a command that succeeds."""
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def test_a_package_is_made_and_a_newer_template_brought_in(tmp_path: Path) -> None:
    made = json.loads(command("--json", "new", "observer", "acme-lines", "--entry", "lines"))
    assert made == {
        "kind": "made", "offers": "observer", "name": "acme-lines", "entry": "lines",
        "folder": "acme-lines",
    }  # fmt: skip
    answers = tmp_path / "acme-lines" / ".copier-answers.yml"
    readme = tmp_path / "acme-lines" / "README.md"
    older = "older\n"
    found = yaml.safe_load(answers.read_text("utf-8"))
    found["files"]["README.md"] = hashlib.sha256(older.encode()).hexdigest()
    answers.write_text(yaml.safe_dump(found), "utf-8")
    readme.write_bytes(b"\x1b[2Jmine \xff\n")
    folder = ("new", "recopy", "acme-lines")
    shown = command(*folder, "--diff")
    kept = "README.md: kept, because you and the newer template changed it"
    assert f"{kept}\n" in shown
    assert "--- README.md (yours)\n+++ README.md (the newer template's)\n" in shown
    assert shown.endswith("So these lines undo your own changes, too.\n")
    assert "-\\x1b[2Jmine \\xff\n" in shown
    assert "\x1b" not in shown
    later = "named again only after the template's next change\n"
    assert f"{kept}; {later}" in command(*folder, "--settle")
    assert command(*folder) == "The template has no change for this package.\n"
    answers.write_text(yaml.safe_dump(found), "utf-8")
    assert f"{kept}; would be {later}" in command(*folder, "--settle", "--dry-run")
    assert json.loads(command("--json", *folder, "--settle")) == {
        "kind": "recopied", "written": [], "kept": ["README.md"], "dropped": [], "dry_run": False,
    }  # fmt: skip
    assert command(*folder) == "The template has no change for this package.\n"
    readme.write_text(older)
    answers.write_text(yaml.safe_dump(found), "utf-8")
    assert command(*folder) == "README.md: written, as the newer template has it\n"
    assert readme.read_text("utf-8").startswith("# acme-lines\n")


def test_questions_are_asked_at_a_terminal_only_and_after_the_name_is_checked(
    tmp_path: Path,
) -> None:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "agentic_kernel_cli", "new", "store", "acme-tables"]
    with os.fdopen(ours, "r+b", buffering=0) as screen:
        with os.fdopen(theirs, "r+b", buffering=0) as end:
            process = subprocess.Popen(words, stdin=end, stdout=end, stderr=end, cwd=tmp_path)
        screen.write(b"Keeps it all.\nAnn\n")
        shown = b""
        with suppress(OSError):  # A terminal whose last user left reads as an error.
            while piece := screen.read(4096):
                shown += piece
    assert process.wait(60) == 0, shown
    assert b"Summary [Keeps AgenticKernel Tasks in one SQLite file.]:" in shown
    text = (tmp_path / "acme-tables" / "pyproject.toml").read_text("utf-8")
    project = tomllib.loads(text)["project"]
    assert (project["description"], project["authors"]) == ("Keeps it all.", [{"name": "Ann"}])
    with pytest.raises(InvalidValue, match="keyword of Python"):
        CliRunner().invoke(app, ["new", "store", "class"], catch_exceptions=False)


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "agentic_kernel_new", None)
    for words in (["new", "store", "acme-tables"], ["new", "recopy"]):
        with pytest.raises(CannotStart) as refused:
            CliRunner().invoke(app, words, catch_exceptions=False)
        assert str(refused.value).endswith(install("new"))
        assert "agentic-kernel-cli[new]" in str(refused.value)


def test_the_help_has_examples() -> None:
    for kind in ("runtime", "store", "provider", "observer", "recopy"):
        shown = " ".join(command("new", kind, "--help").split())
        assert f"Example: agentic-kernel new {kind} acme-" in shown


def test_no_group_has_a_completion_of_its_own() -> None:
    for verb in ("guard", "keys", "new"):
        assert "--install-completion" not in command(verb, "--help")


def test_a_kind_has_its_article() -> None:
    assert "acme-lines: an observer that passes" in command("new", "observer", "acme-lines")
