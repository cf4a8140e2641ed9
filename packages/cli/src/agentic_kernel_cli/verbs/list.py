"""The verb ``list``: Tasks, newest first."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..kinds import LOCAL, LOCAL_TOOLS
from ..listing import FAR, found
from ..parameters import invocation
from ..text import command_line, label, seconds

if TYPE_CHECKING:
    from agentic_kernel_engine import Host, Unreadable

    from ..invocation import Invocation
    from ..listing import Listed

_Status = Literal["running", "paused", "success", "failure", "cancelled"]


def list_tasks(
    context: typer.Context,
    status: Annotated[
        _Status | None,
        typer.Option(
            metavar="STATUS",
            help="Only Tasks in this status: running, paused, success, failure or cancelled.",
        ),
    ] = None,
    runtime: Annotated[
        str | None, typer.Option(metavar="KIND", help="Only Tasks of this runtime kind.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only Tasks of the Agent with this name.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help="Only Tasks created within this time: 45m, 12h, 7d."),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help=f"Only Tasks with this text in their id, summary, instructions or extras. "
            f"Looks at {FAR:,} Tasks at most.",
        ),
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="Only Tasks older than this one: a next page.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=FAR, help="Show at most this many Tasks.")] = 100,
) -> int:
    """List Tasks, newest first.

    In a pipe each Task is one line of nine values between tabs: id, status, runtime, moment,
    summary, what it waits for, parent, tokens, cost. One that is not known is empty.

    Examples:  list --status paused  ·  list --since 12h --text invoice
    """
    from agentic_kernel import TaskStatus

    from .. import rendering, rows
    from ..place import unreadable

    called = invocation(context)
    filters: dict[str, Any] = {
        "status": None if status is None else TaskStatus(status),
        "kinds": None if runtime is None else _kinds(runtime),
        "agent": agent,
        "created_from": None if since is None else _since(since),
    }
    chosen = text is not None or any(value is not None for value in filters.values())

    async def listing(host: Host) -> tuple[Listed, list[Unreadable]]:
        return await found(host, filters, text, after, limit), await unreadable(host)

    listed, damaged = called.controlled(listing)
    if called.as_json:
        for record in listed.records:
            used = listed.used.get(record.task.id)
            rendering.task_line(
                record.task,
                parent=record.parent,
                orphaned=record.task.id in listed.lost,
                used=None if used is None else asdict(used),
            )
        for each in damaged:
            rendering.unreadable_line(each)
        return 0
    rows.show(
        rendering.Paper(), listed.records, _lost(called, listed), datetime.now(UTC), listed.used
    )
    if not listed.records and not damaged:
        where = label(str(called.place))
        _note(f"no Task in {where} fits" if chosen or after else f"no Tasks in {where} yet")
    if not listed.ended and listed.last is not None:
        way_on = f"add --after {command_line([listed.last.id])}"
        if text is not None and listed.looked >= FAR:
            made = rendering.stamp(listed.last.created_at)
            _note(f"looked at {FAR:,} Tasks, back to {made}; to look further, {way_on}")
        else:
            _note(f"there are more Tasks: {way_on}")
    for told in rendering.unreadable_lines(damaged):
        _note(told)
    return 0


def _lost(called: Invocation, listed: Listed) -> dict[str, str]:
    """The remedies for the Tasks that no process runs, by their ids."""
    if not listed.lost:
        return {}
    from ..proposals import remedy  # Most lists need none.

    tasks = [record.task for record in listed.records if record.task.id in listed.lost]
    return {task.id: remedy(called.ways, task, listed.lost[task.id]) for task in tasks}


def _kinds(runtime: str) -> tuple[str, ...]:
    return (LOCAL, LOCAL_TOOLS) if runtime == LOCAL else (runtime,)


def _since(span: str) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=seconds(span, "--since"))


def _note(text: str) -> None:
    typer.echo(text, err=True)
