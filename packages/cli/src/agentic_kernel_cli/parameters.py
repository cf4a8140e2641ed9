"""Parameters that several commands share."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from .invocation import Invocation
from .kinds import LOCAL, RUNTIMES

LARGEST = 2**53 - 1
"""The largest whole number that every reader of JSON takes."""

TaskId = Annotated[
    str, typer.Argument(metavar="ID", help="A Task's id, or its first characters (at least 6).")
]


def _served(given: str) -> str:
    if given not in RUNTIMES:
        raise typer.BadParameter(f"is {given!r}; use {', '.join(RUNTIMES)}")
    return given


def finite(given: float | None) -> float | None:
    """Refuse what is no number; infinity is one too large."""
    if given is not None and not math.isfinite(given):
        raise typer.BadParameter("must be a finite number")
    return given


Runtime = Annotated[
    str,
    typer.Option(metavar="NAME", help=f"Who runs it: {', '.join(RUNTIMES)}.", callback=_served),
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
        "--model", metavar="MODEL", help="A GGUF file; for other runtimes, the model's name there."
    ),
]
Tools = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Tools for the model: calculator,write."),
]
Workspace = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The only folder that the tool write writes in."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Write without an approval.")]


def invocation(context: typer.Context) -> Invocation:
    """What the global options said."""
    assert isinstance(context.obj, Invocation)
    return context.obj
