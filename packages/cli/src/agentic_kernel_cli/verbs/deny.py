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
    Last,
    Mcp,
    Model,
    Option,
    TaskOrLast,
    Tools,
    Workspace,
    granted_by,
    invocation,
    wanted_with,
)
from ..text import utf8


def deny(
    context: typer.Context,
    given: TaskOrLast = None,
    *,
    reason: Annotated[
        str,
        typer.Option(
            "--reason", "--why", metavar="TEXT", help="Why you refuse it; the Task gets this text."
        ),
    ],
    digests: Digests = None,
    last: Last = False,
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

    called, grant = invocation(context), granted_by(context)
    utf8(reason, "--reason")
    task, named = wanted_with(given, last, [*(digests or ()), *(digest or ())])
    record, refused = seen(called, "deny", task, named)
    decisions = approvals(refused, False, by, reason)
    return 1 if not refused else decide(called, record, decisions, "denied", grant)
