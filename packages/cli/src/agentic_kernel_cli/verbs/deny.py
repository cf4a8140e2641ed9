"""The verb ``deny``: refuse what a Task asks for."""

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


def deny(
    context: typer.Context,
    given: TaskId,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why you refuse it; the Task gets this text.")
    ],
    digests: Digests = None,
    digest: Digest = None,
    by: By = None,
    runtime: Granted = LOCAL,
    model: Model = None,
    option: Option = None,
    tools: Tools = None,
    workspace: Workspace = None,
    mcp: Mcp = None,
    accept_tools: AcceptTools = False,
) -> int:
    """Refuse what a paused Task asks for, and let it go on without it."""
    from ..deciding import approvals, decide, seen
    from ..grants import grant_of

    called, grant = (
        invocation(context),
        grant_of(runtime, model, tools, workspace, False, mcp, accept_tools, option),
    )
    record, refused = seen(called, "deny", given, [*(digests or ()), *(digest or ())])
    decisions = approvals(refused, False, by, reason)
    return 1 if not refused else decide(called, record, decisions, "denied", grant)
