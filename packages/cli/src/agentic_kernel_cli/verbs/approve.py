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


def approve(
    context: typer.Context,
    given: TaskOrLast = None,
    digests: Digests = None,
    last: Last = False,
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

    called, grant = invocation(context), granted_by(context)
    utf8(why, "--why")
    task, named = wanted_with(given, last, [*(digests or ()), *(digest or ())])
    record, wanted = seen(called, "approve", task, named)
    decisions = approvals(wanted, True, by, why)
    return 1 if not wanted else decide(called, record, decisions, "approved", grant)
