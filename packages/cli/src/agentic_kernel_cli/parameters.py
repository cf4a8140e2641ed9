"""Parameters that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from .invocation import Invocation

TaskId = Annotated[
    str, typer.Argument(metavar="ID", help="A Task's id, or its first characters (at least 6).")
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="MODEL", help="A GGUF file; for other runtimes, the model's name there."
    ),
]


def invocation(context: typer.Context) -> Invocation:
    """What the global options said."""
    assert isinstance(context.obj, Invocation)
    return context.obj
