"""The verb ``kill``: end a Task for good."""

from __future__ import annotations

from typing import Annotated

import typer

from ..parameters import Last, TaskOrLast, invocation, wanted


def kill(
    context: typer.Context,
    given: TaskOrLast = None,
    last: Last = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also bury a Task that only a newer version can read."),
    ] = False,
) -> int:
    """End a Task for good, wherever it runs; the text so far is kept.

    A Task that cannot be read is buried: a cancelled Task takes its place.
    """
    from .. import control

    called = invocation(context)
    called.report(
        *called.controlled(lambda host: control.kill(host, wanted(given, last), force=force))
    )
    return 0
