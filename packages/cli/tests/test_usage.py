"""Valid command lines, and the answers to all others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from agentic_kernel_cli.app import _run, parted
from agentic_kernel_cli.commands import VERBS, app
from agentic_kernel_engine import Limits

from .terminals import Terminals

COMMANDS = sorted(VERBS)


def groups(command: Any, *path: str) -> list[tuple[list[str], list[str]]]:
    """Each group from this command on: the words that name it, and its commands."""
    under = {name: command.commands[name] for name in getattr(command, "commands", ())}
    found = [([*path], [*under])] if under else []
    return found + [each for name in under for each in groups(under[name], *path, name)]


def test_every_help_names_each_command_beside_its_description() -> None:
    found = groups(get_command(app))
    assert ["guard", "policy"] in [path for path, _ in found]
    for path, names in found:
        shown = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200"}).output
        _, _, commands = shown.partition("Commands")
        rows = [line.strip("│ ").split("  ")[0] for line in commands.splitlines()]
        assert [row for row in rows if row in names] == names


@pytest.mark.parametrize("group", ["guard", "keys", "new"])
def test_a_group_without_a_command_asks_for_one(
    group: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _run([], [group]) == 2
    told = capfd.readouterr().err.splitlines()[-1]
    assert told == (
        f"agentic-kernel: name a command of agentic-kernel {group} "
        f"(see agentic-kernel {group} --help)"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    shown = CliRunner().invoke(app, [name, "--help"], prog_name="agentic-kernel")
    assert shown.exit_code == 0
    assert f"agentic-kernel {name}" in shown.output


@pytest.mark.parametrize("width", ["60", "80", "120"])
@pytest.mark.parametrize("verb", ["list", "retune", "run"])
def test_the_help_breaks_no_number_and_no_status(verb: str, width: str) -> None:
    shown = CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": width}).output
    assert "9007" not in shown
    if verb == "list":
        words = shown.replace("│", " ").replace(",", " ").replace(".", " ").split()
        assert {"running", "paused", "success", "failure", "cancelled"} <= set(words)


def test_every_limit_can_be_retuned() -> None:
    shown = CliRunner().invoke(app, ["retune", "--help"], env={"COLUMNS": "200"})
    for name in Limits.__struct_fields__:
        assert f"--{name.replace('_', '-')} " in shown.output


@pytest.mark.parametrize(
    ("words", "options", "rest"),
    [
        ("list --json", "--json", "list"),
        ("list --state x --limit 3", "--state x", "list --limit 3"),
        ("show a --state=x --debug", "--state=x --debug", "show a"),
        ("show a --verbose", "--verbose", "show a"),
        ("--json run -- --json --state x", "--json", "run -- --json --state x"),
        ("list --state", "--state", "list"),
    ],
)
def test_global_options_may_stand_anywhere(words: str, options: str, rest: str) -> None:
    assert parted(words.split()) == (options.split(), rest.split())


@pytest.mark.parametrize(
    "words",
    [
        ["frob"],
        ["\x1b[2J"],
        ["run", "\udcff"],
        ["show"],
        ["list", "--limit", "0"],
        ["list", "--status", "odd"],
        ["run", "text", "--max-tokens", "0"],
        ["run", "text", "--id", ""],
        ["prune", "--older-than", "soon", "--yes"],
        ["prune", "--older-than", "1d"],
        ["run", "text", "--tools", "odd\x1b[2J"],
        ["run", "text", "--yes"],
        ["run", "text", "--runtime", "copilot", "--session", "before"],
        ["retune", "nobody"],
        ["retune", "nobody", "--max-seconds", "nan"],
        ["retune", "nobody", "--max-cost", "inf"],
        ["retune", "nobody", "--max-cost", "1e999"],
        ["retune", "nobody", "--max-iterations", "1" + "0" * 400],
        ["pause", "nobody", "--wait", "nan"],
        ["run", "text", "--max-tokens", "1" + "0" * 400],
        ["run", "text", "--tools", "write", "--workspace", "no\u202esuch\nfolder"],
        ["recover", "--runtime", "odd\x1b[2J"],
        ["recover", "--tools", "odd"],
        ["recover", "--yes"],
        ["resume", "nobody", "--workspace", "."],
        ["approve", "nobody", "--yes"],
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert _run(*parted(["--state", str(tmp_path), *words])) == 2
    _one_line(*capfd.readouterr())


@pytest.mark.parametrize("words", [["frob"], ["run", "\udcff"]])
def test_a_process_ends_with_that_code(terminals: Terminals, words: list[str]) -> None:
    said = terminals.call(*words, code=2)
    _one_line(said.out, said.err)


def _one_line(out: str, err: str) -> None:
    assert out == ""
    assert err.startswith("agentic-kernel: ")
    assert err.count("\n") == 1
    assert err.rstrip("\n").isprintable()


def test_nothing_said_shows_the_help(terminals: Terminals) -> None:
    assert "Usage: agentic-kernel" in terminals.program("-m", "agentic_kernel_cli").ended(2).out


def test_the_version_is_told(terminals: Terminals) -> None:
    assert terminals.call("--version").out.startswith("agentic-kernel 0.")


def test_an_error_is_an_object_for_programs_and_a_line_for_people(terminals: Terminals) -> None:
    refused = terminals.call("--json", "show", "nobody", code=1)
    assert [(line["kind"], line["type"], line["code"]) for line in refused.lines] == [
        ("error", "TaskNotFound", 1)
    ]
    assert refused.err.count("\n") == 1


def test_where_an_error_came_from_is_shown_when_asked_for(terminals: Terminals) -> None:
    assert "Traceback" in terminals.call("show", "nobody", "--debug", code=1).err


def test_verbose_tells_the_place_and_the_causes_of_an_error_and_no_traceback(
    terminals: Terminals,
) -> None:
    words = ("--app", "no\x1bwhere:make", "run", "text")
    short = terminals.call(*words, code=2)
    assert short.err.count("\n") == 1
    told = terminals.call(*words, "--verbose", code=2).err.splitlines()
    assert f"info: agentic_kernel_cli.commands: the Tasks are in {terminals.state}" in told
    assert "  because of ModuleNotFoundError: No module named 'no\\\\x1bwhere'" in told
    assert told[-1] == short.err.rstrip("\n"), "the error in the reader's words is the last line"
    assert not any("Traceback" in line for line in told)
    assert all(line.isprintable() for line in told)
