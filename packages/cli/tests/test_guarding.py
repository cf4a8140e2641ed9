"""Rule files are checked and tested from the command line."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from agentic_kernel_cli.app import _run, parted

RULES = """version: 1
rules:
  - {name: small, priority: 1, effect: allow, match: {capability: "pay/*"},
     arguments: {amount: {max: 100}}}
"""
TESTS = """tests:
  - {name: little, capability: pay/x, arguments: {amount: 1}, expect: allow}
"""


def command(*words: str) -> tuple[int, str]:
    """The exit code and the output of the command, in this process: Python starts in a second."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = _run(*parted(words))
    return code, said.getvalue()


def test_a_rule_file_is_checked_and_its_tests_are_run(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(RULES + TESTS)
    assert command("guard", "policy", "check", str(file))[0] == 0
    assert command("guard", "policy", "test", str(file)) == (0, "1 of 1 tests passed\n")
    file.write_text(RULES + TESTS.replace("amount: 1", "amount: 101"))
    code, said = command("--json", "guard", "policy", "test", str(file))
    assert (code, json.loads(said)["passed"]) == (1, False)
    assert "expected allow" in command("guard", "policy", "test", str(file))[1]


def test_the_folder_of_a_server_is_checked_as_the_server_reads_it(tmp_path: Path) -> None:
    (tmp_path / "_global.yaml").write_text(RULES)
    (tmp_path / "swe.yaml").write_text(RULES.replace("small, priority: 1", "own, priority: 2"))
    code, said = command("guard", "policy", "check", str(tmp_path))
    assert (code, said) == (0, f"{tmp_path}: 2 rules, no problem found\n")
    found = json.loads(command("--json", "guard", "policy", "check", str(tmp_path))[1])
    assert (found["file"], found["rules"]) == (str(tmp_path), 2)
    (tmp_path / "swe.yaml").write_text(RULES)
    code, said = command("guard", "policy", "check", str(tmp_path))
    assert code == 1
    assert "swe.yaml" in said
    assert "rename one" in said
    (tmp_path / "swe.yaml").write_text(RULES.replace("small", "own") + "tests: 7\n")
    assert "swe.yaml" in command("guard", "policy", "check", str(tmp_path))[1]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.yaml", "version: 1\nrules: [{name: no}]", "line 2, column 16"),
        ("a.txt", RULES, ".toml"),
        ("b.yaml", RULES, "has no tests"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    (tmp_path / name).write_text(text)
    code, said = command("guard", "policy", "test", str(tmp_path / name))
    assert code == 1
    assert says in said
