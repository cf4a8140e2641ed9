"""The verb ``doctor``: check this machine."""

from __future__ import annotations

import typer

from ..kinds import LOCAL
from ..parameters import Model, Runtime, invocation


def doctor(
    context: typer.Context,
    runtime: Runtime = None,
    model: Model = None,
) -> int:
    """Check that this machine can run Tasks, and say how to repair what fails."""
    import asyncio
    from dataclasses import asdict

    from .. import rendering
    from ..doctor import findings

    called = invocation(context)
    if runtime is None:
        model = called.settings.model if model is None else model
        runtime = called.settings.runtime or ("" if called.app else LOCAL)
    found = asyncio.run(findings(called.place, runtime, model, called.app))
    for finding in found:
        if called.as_json:
            rendering.json_line("finding", asdict(finding))
        else:
            rendering.finding_line(rendering.Paper(highlight=False), **asdict(finding))
    return 0 if all(finding.ok for finding in found if finding.needed) else 1
