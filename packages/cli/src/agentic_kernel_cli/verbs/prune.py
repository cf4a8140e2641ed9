"""The verb ``prune``: remove Tasks that ended long ago."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Annotated

import typer

from ..parameters import invocation
from ..text import label, seconds


def prune(
    context: typer.Context,
    older_than: Annotated[
        str, typer.Option(help="Remove Tasks that ended longer ago than this: 90s, 12h, 30d, 2w.")
    ],
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for a confirmation.")
    ] = False,
) -> int:
    """Remove Tasks that ended long ago, with everything that is stored about them."""
    from .. import control, rendering

    called = invocation(context)
    age = timedelta(seconds=seconds(older_than, "--older-than"))
    if not yes:
        where = label(str(called.place))
        question = f"Remove every Task in {where} that ended more than {older_than} ago?"
        if not sys.stdin.isatty():
            raise typer.BadParameter("there is no terminal to ask on; add --yes")
        if not typer.confirm(question, err=True):
            return 1
    count = called.controlled(lambda host: control.prune(host, age))
    if called.as_json:
        rendering.json_line("pruned", {"count": count})
    else:
        typer.echo(f"removed {count} Task{'' if count == 1 else 's'}")
    return 0
