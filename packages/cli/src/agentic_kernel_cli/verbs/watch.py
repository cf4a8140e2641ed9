"""The verb ``watch``: follow a Task that runs elsewhere."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import typer

from ..parameters import After, Last, TaskOrLast, cursor, invocation, wanted

if TYPE_CHECKING:
    from agentic_kernel_engine import Host


def watch(
    context: typer.Context, given: TaskOrLast = None, last: Last = False, after: After = None
) -> int:
    """Follow a Task that runs elsewhere, until it ends or is paused."""
    from .. import control
    from ..place import find_task
    from ..proposals import way_back
    from ..stop import Stop

    called, place = invocation(context), cursor(after)

    async def watching(host: Host) -> int:
        stop = Stop("left at once; the Task goes on")
        with stop.on_signals():
            task = (await find_task(host, wanted(given, last))).task
            left = partial(way_back, called, host)
            return await control.watch(host, task, called.screen(stop), stop, left, place)

    return called.controlled(watching)
