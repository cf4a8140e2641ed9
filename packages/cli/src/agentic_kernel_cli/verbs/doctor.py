"""The verb ``doctor``: check this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from ..kinds import LOCAL, check_known, offered
from ..parameters import Model, invocation


def doctor(
    context: typer.Context,
    runtime: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Of the runtimes, check only this one; without it, every one."
        ),
    ] = None,
    model: Model = None,
) -> int:
    """Check that this machine can run Tasks, and say how to repair what fails.

    The exit status is 1 if a part that you name fails, or a package that is installed is broken.
    --state and --observer name further parts. A package that is not installed is no failure.
    """
    import asyncio
    from dataclasses import asdict

    from .. import rendering
    from ..doctor import findings

    called, alone = invocation(context), runtime is not None
    if runtime is None:
        model = called.settings.model if model is None else model
        # `run` takes the local model by default, if its package is there.
        runtime = called.settings.runtime or (
            LOCAL if LOCAL in offered() and called.app is None else ""
        )
    elif called.app is None:
        check_known(runtime)
    found = asyncio.run(
        findings(called.place, runtime, model, called.app, alone=alone, observers=called.observers)
    )
    for finding in found:
        if called.as_json:
            rendering.json_line("finding", asdict(finding))
        else:
            rendering.finding_line(rendering.Paper(highlight=False), **asdict(finding))
    return 0 if all(finding.ok for finding in found if finding.needed) else 1
