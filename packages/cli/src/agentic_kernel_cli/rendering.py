"""How Tasks and events look: for people, and as one JSON object per line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Event
from agentic_kernel_engine.codec import task_to_dict
from agentic_kernel_engine.loop.reasons import WAITING_FOR

from . import waiting
from .text import content, label

COLOURS: Mapping[str, str] = {
    TaskStatus.RUNNING: "cyan",
    TaskStatus.PAUSED: "yellow",
    TaskStatus.SUCCESS: "green",
    TaskStatus.FAILURE: "red",
    TaskStatus.CANCELLED: "magenta",
}


class Paper(Console):
    """A console on which a reader that left is an error, and not the end of the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def json_line(kind: str, fields: Mapping[str, Any]) -> None:
    """Print one object on stdout; ``kind`` says which: ``task``, ``event``, ``error``, …

    ASCII only, so that no character of it can drive a terminal.
    """
    sys.stdout.write(json.dumps({"kind": kind, **fields}) + "\n")
    sys.stdout.flush()


def task_line(task: Task, **more: Any) -> None:
    """Print a Task as one JSON object."""
    json_line("task", {**task_to_dict(task), **more})


def event_line(task_id: str, event: Event) -> None:
    """Print an event as one JSON object; its ``id`` is null while it is not durable yet."""
    at = None if event.at is None else event.at.isoformat()
    fields = {"task_id": task_id, "id": event.id, "at": at, "type": event.type, "data": event.data}
    json_line("event", fields)


def task_table(console: Console, tasks: Iterable[Task]) -> None:
    """Print one line per Task; aligned in a terminal, separated by tabs in a pipe."""
    rows = [
        (
            label(task.id),
            task.status,
            label(task.runtime_kind),
            stamp(task.created_at),
            label(task.summary or task.instructions, 200),
            label("; ".join(waiting.lines(task)), 200),
        )
        for task in tasks
    ]
    if not console.is_terminal:
        for row in rows:
            typer.echo("\t".join(row))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("ID", "STATUS", "RUNTIME", "CREATED", "SUMMARY", "WAITS FOR"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    for id, status, kind, created, title, waits in rows:
        table.add_row(Text(id), state_text(status), Text(kind), created, Text(title), Text(waits))
    console.print(table)


def task_details(console: Console, task: Task, *, said: str, orphaned: bool) -> None:
    """Print every fact of one Task.

    Args:
        said: The text in progress; shown while there is no result.
        orphaned: It is running, and nobody runs it.
    """
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in _facts(task, said, orphaned):
        if console.is_terminal:
            grid.add_row(label(name), Text(value))
        else:
            typer.echo(f"{label(name)}: {value}")
    console.print(grid, end="")


def _facts(task: Task, said: str, orphaned: bool) -> Iterator[tuple[str, str]]:
    yield "id", label(task.id)
    yield "status", task.status + (" (nobody runs it; recover it)" if orphaned else "")
    yield "summary", label(task.summary)
    yield "runtime", label(task.runtime_kind)
    if task.agent_name is not None:
        yield "agent", label(task.agent_name)
    for name in ("created", "started", "ended"):
        at = getattr(task, f"{name}_at")
        if at is not None:
            yield name, stamp(at)
    yield "instructions", content(task.instructions)
    for number, extra in enumerate(task.supplements, 1):
        yield f"extra {number}", content(extra)
    for line in waiting.lines(task):
        yield "waits for", line
    for key in sorted(task.metadata):
        if key == WAITING_FOR:
            continue  # Shown above while it holds.
        yield key, content(plain(task.metadata[key]))
    if task.failure is not None:
        yield "failure", label(f"{task.failure.code}: {task.failure.message}")
    if task.status is TaskStatus.SUCCESS:
        yield "result", content(plain(task.result))
    elif said:
        yield f"said ({len(said)} characters)", content(said)


def event_row(event: Event) -> None:
    """Print an event as one line for people."""
    at = "" if event.at is None else event.at.astimezone().strftime("%H:%M:%S.%f")[:-3]
    where = "" if event.id is None else "{}.{}".format(*event.id)
    data = json.dumps(event.data, ensure_ascii=False) if event.data else ""
    typer.echo(label(f"{where:>8}  {at}  {event.type:<22} {data}"))


def finding_line(
    console: Console, name: str, ok: bool, detail: str, advice: str, needed: bool
) -> None:
    """Print one finding of the doctor, and what to do about it."""
    if ok:
        line = Text("ok  ", style="green")
    else:
        line = Text("NO  ", style="bold red") if needed else Text("--  ", style="dim")
    line.append(f"{name:<22} {label(detail)}", style="default")
    console.print(line, soft_wrap=True)
    if not ok:
        console.print(Text(f"    {label(advice)}", style="yellow"), soft_wrap=True)


def state_text(status: TaskStatus) -> Text:
    """A status in its colour."""
    return Text(status.value, style=COLOURS.get(status, ""))


def plain(value: Any) -> str:
    """A JSON value for people: a text, or the text in a result, as it is; the rest as JSON."""
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        value = value["text"]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def stamp(at: datetime) -> str:
    """A moment in the user's own time zone, to the second."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
