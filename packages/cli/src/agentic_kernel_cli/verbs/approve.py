"""The verb ``approve``: let a Task do what it asks for."""

from __future__ import annotations

from typing import Annotated

import typer

from ..kinds import LOCAL
from ..parameters import (
    AcceptTools,
    By,
    Digest,
    Digests,
    Granted,
    Mcp,
    Model,
    Option,
    TaskId,
    Tools,
    Workspace,
    invocation,
)


def approve(
    context: typer.Context,
    given: TaskId,
    digests: Digests = None,
    digest: Digest = None,
    by: By = None,
    why: Annotated[str, typer.Option(metavar="TEXT", help="Why you approve it.")] = "",
    runtime: Granted = LOCAL,
    model: Model = None,
    option: Option = None,
    tools: Tools = None,
    workspace: Workspace = None,
    mcp: Mcp = None,
    accept_tools: AcceptTools = False,
) -> int:
    """Approve what a paused Task asks for, and let it go on."""
    from ..deciding import approvals, decide, seen
    from ..grants import grant_of

    called, grant = (
        invocation(context),
        grant_of(runtime, model, tools, workspace, False, mcp, accept_tools, option),
    )
    record, wanted = seen(called, "approve", given, [*(digests or ()), *(digest or ())])
    decisions = approvals(wanted, True, by, why)
    return 1 if not wanted else decide(called, record, decisions, "approved", grant)
