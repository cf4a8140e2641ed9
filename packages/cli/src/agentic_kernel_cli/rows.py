"""Rows: Tasks in a list, for a terminal of any width, and separated by tabs for a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import typer
from rich.console import Console
from rich.text import Text

from agentic_kernel import Task
from agentic_kernel_engine import Record

from . import waiting
from .costs import NOTHING, Used
from .rendering import stamp, state_text
from .text import cut, label, line

WIDE: Final = 120
"""The columns of a terminal from which on the facts of a Task stand in columns."""
COLUMNS: Final = ("ID", "STATUS", "CREATED", "RUNTIME", "COST", "SUMMARY")
"""The columns of a wide terminal; an empty one is left out."""
PIPED: Final = (
    "id", "status", "runtime", "moment", "summary", "what it waits for", "parent", "tokens", "cost",
)  # fmt: skip
"""The values of a line in a pipe. Every line has all of them, so that ``cut -f`` counts right; one
that is not known is empty."""
_LONGEST: Final = 200
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def show(
    console: Console,
    records: Sequence[Record],
    lost: Mapping[str, str],
    now: datetime,
    used: Mapping[str, Used],
) -> None:
    """Print the Tasks: in a terminal children stand below their parents, and no id is cut.

    Args:
        console: The console; if it is no terminal, each Task is one line of values between tabs.
        records: The Tasks, newest first.
        lost: The remedies for those that no living process runs, by their ids.
        now: The moment from which the times are told.
        used: The use of the Tasks, by their ids, if it is known.
    """
    if not records:
        return
    if not console.is_terminal:
        for record in records:
            typer.echo("\t".join(_values(record, lost, used.get(record.task.id))))
        return
    if console.width >= WIDE:
        for told in _lines(records, lost, now, used, console.width):
            console.print(told, soft_wrap=True)
        return
    for record, depth in _families(records):
        task = record.task
        head = Text(_indented(task.id, depth))
        head.append("  ").append_text(state_text(task.status))
        head.append(f"  {ago(task.created_at, now)}", "dim")
        console.print(head, soft_wrap=True)
        price = used.get(task.id, NOTHING).price
        cost = f"cost {price}" if price else ""
        for rest in ("  ".join(filter(None, (cost, _title(task)))), _says(record, lost)):
            if rest:
                console.print(Text(f"{'  ' * depth}  {rest}"), no_wrap=True, overflow="ellipsis")


def _lines(
    records: Sequence[Record],
    lost: Mapping[str, str],
    now: datetime,
    used: Mapping[str, Used],
    width: int,
) -> Iterator[Text]:
    """One line for each Task, below it what it waits for; above all the names of the columns."""
    rows = [tuple(Text(name, "bold") for name in COLUMNS)]
    below = [Text()]
    for record, depth in _families(records):
        task = record.task
        rows.append((
            Text(_indented(task.id, depth)), state_text(task.status),
            Text(ago(task.created_at, now)), Text(label(task.runtime_kind)),
            Text(used.get(task.id, NOTHING).price), Text(_title(task)),
        ))  # fmt: skip
        says = _says(record, lost)
        below.append(Text(f"{'  ' * depth}  {says}" if says else ""))
    ids, *short, _ = (
        max(cell.cell_len for cell in column) if any(column[1:]) else 0
        for column in zip(*rows, strict=True)
    )
    room = (min(ids, WIDE // 2), *short)
    left = max(width - sum(room) - 2 * sum(map(bool, room)), 20)
    for row, more in zip(rows, below, strict=True):
        told = Text()
        for cell, wide in zip(row, (*room, left), strict=True):
            if not wide:
                continue
            if cell.cell_len > wide and cell is not row[0]:  # An id is never cut.
                cell.truncate(wide, overflow="ellipsis")
            told.append_text(cell).append(" " * (wide - cell.cell_len + 2))
        told.rstrip()
        yield told
        if more:
            more.truncate(width, overflow="ellipsis")
            yield more


def _values(record: Record, lost: Mapping[str, str], used: Used | None) -> Iterator[str]:
    task = record.task
    yield from (label(task.id), task.status, label(task.runtime_kind), stamp(task.created_at))
    yield from (_title(task), _says(record, lost))
    yield "" if record.parent is None else label(record.parent)
    yield from ("", "") if used is None else (str(used.total), f"{used.cost:g}")


def _families(records: Sequence[Record]) -> Iterator[tuple[Record, int]]:
    """Each record with its depth: children follow their parent, oldest first."""
    known = {record.task.id for record in records}
    children: dict[str, list[Record]] = {}
    for record in records:
        if record.parent in known and record.parent != record.task.id:
            children.setdefault(str(record.parent), []).append(record)
    below = {record.task.id for family in children.values() for record in family}
    # A stack and no recursion, because a family may be deep. The newest is on top.
    stack = [(record, 0) for record in reversed(records) if record.task.id not in below]
    while stack:
        record, depth = stack.pop()
        yield record, depth
        stack += [(child, depth + 1) for child in children.get(record.task.id, ())]


def _indented(task_id: str, depth: int) -> str:
    return f"{'  ' * (depth - 1)}└ {label(task_id)}" if depth else label(task_id)


def _title(task: Task) -> str:
    return label(task.summary or task.instructions, _LONGEST)


def _says(record: Record, lost: Mapping[str, str]) -> str:
    """The wait of the Task, or the words that no process runs it."""
    task = record.task
    if task.id in lost:
        return line(f"no process runs it; {lost[task.id]}")
    return cut("; ".join(waiting.lines(task)), _LONGEST)


def ago(at: datetime, now: datetime) -> str:
    """The time since a moment, such as ``3 min ago``; the date if that is more than thirty days."""
    passed = (now - at).total_seconds()
    if passed >= 30 * 86_400:
        return stamp(at)[:10]
    for length, unit in _UNITS:
        if passed >= length:
            return f"{int(passed // length)} {unit} ago"
    return "now"
