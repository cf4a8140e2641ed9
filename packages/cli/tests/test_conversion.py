"""Values of the command line: those that are converted here are as Typer converts them."""

from __future__ import annotations

from typing import Any

import pytest
from typer.main import get_command

from agentic_kernel_cli.commands import app
from agentic_kernel_cli.conversion import Plain


def parameter(verb: str, name: str) -> Any:
    """A parameter of a verb, new from Typer."""
    command: Any = get_command(app)
    return next(each for each in command.commands[verb].params if each.name == name)


@pytest.mark.parametrize(
    ("verb", "name", "given"),
    [
        ("list", "text", "x"),
        ("list", "text", ""),
        ("list", "text", None),
        ("list", "limit", "1"),
        ("list", "limit", "10000"),
        ("list", "limit", "007"),
        ("list", "limit", " 7"),
        ("list", "limit", "1_0"),
        ("list", "limit", 100),
        ("list", "status", "paused"),
        ("list", "status", None),
        ("approve", "digests", None),
        ("approve", "digests", ("a", "b")),
        ("approve", "digest", []),
        ("pause", "wait", "2.5"),
        ("run", "workspace", "."),
        ("run", "max_tokens", "9007199254740991"),
    ],
)
def test_a_value_is_as_typer_converts_it(verb: str, name: str, given: Any) -> None:
    mine = parameter(verb, name)
    theirs = type(mine).get_runtime_param(mine)
    converted = Plain(mine).coerce(given, param=mine, ctx=None)
    wanted = theirs.coerce(given, param=mine, ctx=None)
    assert (converted, type(converted)) == (wanted, type(wanted))


@pytest.mark.parametrize(
    ("verb", "name", "given"),
    [
        ("list", "limit", "0"),
        ("list", "limit", "10001"),
        ("list", "limit", "-1"),
        ("list", "limit", "\u0664"),
        ("list", "limit", "9" * 5_000),
        ("list", "status", "PAUSED"),
        ("list", "status", "not_started"),
        ("pause", "wait", "nan"),
        ("run", "max_tokens", "9007199254740992"),
    ],
)
def test_a_wrong_value_has_the_message_of_typer(verb: str, name: str, given: str) -> None:
    mine = parameter(verb, name)
    told = []
    for convert in (Plain(mine), type(mine).get_runtime_param(mine)):
        try:
            told.append(str(convert.coerce(given, param=mine, ctx=None)))
        except Exception as error:
            told.append(f"{type(error).__name__}: {error}")
    assert told[0] == told[1]
