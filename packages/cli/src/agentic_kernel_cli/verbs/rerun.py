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
    from dataclasses import replace

    from agentic_kernel_engine import rerun as again

    from ..grants import check_no_flags
    from ..origin import APP_KEY
    from ..place import find_task

    called, grant = invocation(context), granted_by(context)
    record = called.controlled(lambda host: find_task(host, wanted(given, last)))
    task = again(record.task, "cli")
    if called.app is not None and called.app_runs(task):
        check_no_flags(grant, str(called.app))
        own = replace(task, metadata={**task.metadata, APP_KEY: called.app.name})
        return called.run_app(lambda here: here.launch(own))
    grants = called.granted(task, grant, again=record.task)
    return called.run(grants, lambda here: here.launch(task))
