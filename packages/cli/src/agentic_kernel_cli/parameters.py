"""Parameters that several commands share."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from agentic_kernel import InvalidValue
from agentic_kernel_engine import EventId

from .invocation import Invocation
from .kinds import LOCAL, RUNTIMES

LARGEST = 2**53 - 1
"""The largest integer that every JSON reader reads exactly."""

TaskId = Annotated[
    str, typer.Argument(metavar="ID", help="A Task's id, or its first characters (at least 6).")
]


def _served(given: str) -> str:
    if given not in RUNTIMES:
        raise typer.BadParameter(f"{given!r} is not a runtime; use {', '.join(RUNTIMES)}")
    return given


def finite(given: float | None) -> float | None:
    """Refuse NaN and infinity."""
    if given is not None and not math.isfinite(given):
        raise typer.BadParameter("must be a finite number")
    return given


Runtime = Annotated[
    str,
    typer.Option(metavar="NAME", help=f"The runtime: {', '.join(RUNTIMES)}.", callback=_served),
]
Granted = Annotated[
    str,
    typer.Option(
        "--runtime",
        metavar="NAME",
        help=f"A runtime that a Task may use: {', '.join(RUNTIMES)}. `{LOCAL}` is always allowed.",
        callback=_served,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="MODEL", help="For local, a GGUF file; else the name of a model."
    ),
]
Tools = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="Tools for the model, separated by commas: calculator,write."
    ),
]
Workspace = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The only folder in which the tool write may write."),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Let tools change something without an approval.")
]
Mcp = Annotated[
    Path | None,
    typer.Option(
        "--mcp", metavar="FILE", help="A JSON file of MCP servers, whose tools the model gets."
    ),
]
AcceptTools = Annotated[
    bool,
    typer.Option("--accept-tools", help="Accept the tools of --mcp that are new or changed."),
]


After = Annotated[
    str | None,
    typer.Option(
        "--after", metavar="EVENT", help="Only events after this one, e.g. 3.1: the next page."
    ),
]


def cursor(given: str | None) -> EventId | None:
    """The cursor that ``--after`` names; None for the beginning.

    Raises:
        BadParameter: It is not the id of an event.
    """
    try:
        return None if given is None else EventId.parse(given)
    except InvalidValue as error:
        raise typer.BadParameter(f"--after {error.reason}") from None


def invocation(context: typer.Context) -> Invocation:
    """The invocation that holds the global options."""
    assert isinstance(context.obj, Invocation)
    return context.obj
