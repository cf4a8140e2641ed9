"""The command ``list``: Tasks, newest first, and the filters that choose them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

import typer

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Record, Unreadable

from . import rendering, rows
from .kinds import LOCAL, LOCAL_TOOLS
from .parameters import invocation
from .place import find_task, orphaned, unreadable
from .text import command_line, label, seconds

FAR: Final = 10_000
"""The most Tasks that one search for a text looks at."""
_PAGE: Final = 1_000
_Status = Literal["running", "paused", "success", "failure", "cancelled"]


@dataclass(frozen=True)
class Listed:
    """The Tasks that were found, newest first."""

    records: Sequence[Record]
    lost: frozenset[str]
    """The ids of those that run although no living process runs them."""
    looked: int
    """The number of Tasks that were looked at."""
    last: Task | None
    """The last of these."""
    ended: bool
    """True if no older Task is left."""


def list_tasks(
    context: typer.Context,
    status: Annotated[_Status | None, typer.Option(help="Only Tasks in this status.")] = None,
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

    Examples:  list --status paused  ·  list --since 12h --text invoice
    """
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
            rendering.task_line(
                record.task, parent=record.parent, orphaned=record.task.id in listed.lost
            )
        for each in damaged:
            rendering.unreadable_line(each)
        return 0
    rows.show(rendering.Paper(), listed.records, listed.lost, datetime.now(UTC))
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


async def found(
    host: Host, filters: dict[str, Any], text: str | None, after: str | None, limit: int
) -> Listed:
    """Find Tasks, newest first; with a text, look at `FAR` Tasks at most.

    Raises:
        TaskNotFound: There is no Task ``after``.
    """
    place = None if after is None else _place((await find_task(host, after)).task)
    wanted = None if text is None else text.casefold()
    records: list[Record] = []
    looked, last, ended = 0, None, False
    while len(records) < limit and looked < FAR and not ended:
        size = limit + 1 if wanted is None else min(_PAGE, FAR - looked)
        page = await host.store.find(newest=True, after=place, limit=size, **filters)
        ended = len(page) < size
        for record in page:
            if len(records) == limit:
                ended = False
                break
            looked, last = looked + 1, record.task
            place = _place(last)
            if wanted is None or wanted in _words(last):
                records.append(record)
    lost = [record.task.id for record in records if await orphaned(host, record)]
    return Listed(records, frozenset(lost), looked, last, ended)


def _kinds(runtime: str) -> tuple[str, ...]:
    return (LOCAL, LOCAL_TOOLS) if runtime == LOCAL else (runtime,)


def _since(span: str) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=seconds(span, "--since"))


def _place(task: Task) -> tuple[datetime, str]:
    return task.created_at, task.id


def _words(task: Task) -> str:
    return "\n".join((task.id, task.summary, task.instructions, *task.supplements)).casefold()


def _note(text: str) -> None:
    typer.echo(text, err=True)
