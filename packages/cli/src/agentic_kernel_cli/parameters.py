"""Parameters that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .invocation import Invocation

TaskId = Annotated[
    str, typer.Argument(metavar="ID", help="A Task's id, or its first characters (at least 6).")
]
Model = Annotated[
    Path | None, typer.Option("--model", metavar="PATH", help="A GGUF file to use as the model.")
]


def invocation(context: typer.Context) -> Invocation:
    """What the global options said."""
    assert isinstance(context.obj, Invocation)
    return context.obj
