"""The verb ``rerun``: the work of a Task again, as a new Task."""

from __future__ import annotations

import typer

from ..kinds import LOCAL
from ..parameters import (
    AcceptTools,
    Granted,
    Last,
    Mcp,
    Model,
    Option,
    TaskOrLast,
    Tools,
    Workspace,
    Yes,
    granted_by,
    invocation,
    wanted,
)


def rerun(
    context: typer.Context,
    given: TaskOrLast = None,
    last: Last = False,
    runtime: Granted = LOCAL,
    model: Model = None,
    option: Option = None,
    tools: Tools = None,
    workspace: Workspace = None,
    yes: Yes = False,
    mcp: Mcp = None,
    accept_tools: AcceptTools = False,
) -> int:
    """Run the work of a Task again, as a new Task that names the old one."""
    from agentic_kernel_engine import rerun as again

    from ..grants import check_no_flags
    from ..place import find_task

    called, grant = invocation(context), granted_by(context)
    record = called.controlled(lambda host: find_task(host, wanted(given, last)))
    task = again(record.task, "cli")
    if called.app_runs(task):
        check_no_flags(grant, str(called.app))
        return called.run_app(lambda here: here.launch(task))
    return called.run(called.granted(task, grant), lambda here: here.launch(task))
