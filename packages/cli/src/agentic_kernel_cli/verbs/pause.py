"""The verb ``pause``: pause a Task, wherever it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..parameters import Last, TaskOrLast, finite, invocation, wanted

if TYPE_CHECKING:
    from agentic_kernel import Task
    from agentic_kernel_engine import Host


def pause(
    context: typer.Context,
    given: TaskOrLast = None,
    last: Last = False,
    wait: Annotated[
        float,
        typer.Option(min=0, max=3600, help="Seconds to wait until it is paused.", callback=finite),
    ] = 5.0,
) -> int:
    """Pause a Task, wherever it runs."""
    from .. import control
    from ..place import find_task

    called = invocation(context)

    async def pausing(host: Host) -> tuple[Task, str]:
        return await control.pause(host, (await find_task(host, wanted(given, last))).task.id, wait)

    called.report(*called.controlled(pausing))
    return 0
