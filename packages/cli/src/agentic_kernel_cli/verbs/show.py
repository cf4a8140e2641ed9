"""The verb ``show``: everything about one Task."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ..parameters import After, Last, TaskOrLast, cursor, invocation, wanted

if TYPE_CHECKING:
    from agentic_kernel_engine import Host


def show(
    context: typer.Context,
    given: TaskOrLast = None,
    last: Last = False,
    events: Annotated[
        bool, typer.Option("--events", help="Also show the events of the Task.")
    ] = False,
    after: After = None,
) -> int:
    """Show everything about one Task."""
    from datetime import UTC, datetime

    from agentic_kernel import TaskStatus

    from .. import rendering
    from ..costs import reserved_in, used_in
    from ..doubts import doubted
    from ..durations import duration_in
    from ..origin import Tools
    from ..place import find_task, history, orphaned, text_of
    from ..proposals import host_of, proposal, remedy

    called, place = invocation(context), cursor(after)
    if place is not None and not events:
        raise typer.BadParameter("--after chooses events; add --events")

    async def showing(host: Host) -> None:
        record = await find_task(host, wanted(given, last))
        task = record.task
        happened = await history(host, task.id)
        said, gone = text_of(happened), await orphaned(host, record)
        used, doubts = used_in(happened), list(doubted(happened))
        reserved = reserved_in(record, happened)
        ran = duration_in(happened)
        until = None if gone else task.ended_at or datetime.now(UTC)
        decided = list(rendering.decisions(happened))
        rests = gone or task.status is TaskStatus.PAUSED
        tools = Tools(happened)
        way_on = proposal(called.ways, task, tools) if rests else None
        taker = host_of(called.ways, task, tools) if rests else None
        console = rendering.Paper(highlight=False)
        if called.as_json:
            rendering.task_line(
                task,
                said=said,
                orphaned=gone,
                used=asdict(used),
                reserved=asdict(reserved),
                ran_seconds=ran.seconds(until),
                decided=[asdict(decision) for decision in decided],
                unknown_outcomes=[doubt.as_json() for doubt in doubts],
                go_on_with=way_on,
                goes_on_in=taker,
            )
        else:
            rendering.task_details(
                console,
                task,
                said=said,
                used=used,
                reserved=reserved,
                ran=ran.told(until),
                left=remedy(called.ways, task, tools) if gone else "",
                decisions=[decision.line for decision in decided],
                doubts=[doubt.step for doubt in doubts],
                way_on=way_on,
                host=None if gone else taker,  # The remedy names it.
            )
        for event in happened if events else ():
            if place is not None and event.id is not None and event.id <= place:
                continue
            if called.as_json:
                rendering.event_line(task.id, event)
            else:
                rendering.event_row(event)

    called.controlled(showing)
    return 0
