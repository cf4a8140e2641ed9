"""The verb ``resume``: a paused Task goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..kinds import LOCAL, serves
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
from ..text import label, utf8

if TYPE_CHECKING:
    from agentic_kernel import Task
    from agentic_kernel_engine import Host


def resume(
    context: typer.Context,
    given: TaskOrLast = None,
    last: Last = False,
    extra: Annotated[str | None, typer.Option(help="A further instruction for the Task.")] = None,
    runtime: Granted = LOCAL,
    model: Model = None,
    option: Option = None,
    tools: Tools = None,
    workspace: Workspace = None,
    yes: Yes = False,
    mcp: Mcp = None,
    accept_tools: AcceptTools = False,
) -> int:
    """Resume a paused Task here, in the foreground, with what these flags grant.

    A Task of a kind that neither this command nor the app runs goes on in a Host that serves it.
    """
    from agentic_kernel import IllegalTransition, TaskStatus

    from .. import control, waiting
    from ..deciding import found
    from ..grants import check_no_flags
    from ..proposals import onward, proposal

    called, grant = invocation(context), granted_by(context)
    utf8(extra or "", "--extra")
    record = found(called, wanted(given, last))
    if record.task.status is not TaskStatus.PAUSED:
        raise IllegalTransition(record.task.id, record.task.status, "resume")
    kind = record.task.runtime_kind
    if called.app_runs(record.task):
        check_no_flags(grant, str(called.app))
        return called.run_app(lambda here: here.resume(record, extra))
    if not serves(kind):
        check_no_flags(grant, f"a Host that serves {label(kind)}")
        waiting.check_resumed(record.task, proposal(called.ways, record.task))

        async def resuming(host: Host) -> tuple[Task, str]:
            after = await control.resume(host, record, extra)
            return after, f"resumed; {await onward(called, host, record)}"

        called.report(*called.controlled(resuming))
        return 0
    grants = called.granted(record.task, grant)
    return called.run(grants, lambda here: here.resume(record, extra))
