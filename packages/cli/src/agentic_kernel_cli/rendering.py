"""Rendering: Tasks and events as text for people, and as one JSON object per line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import typer
from rich.console import Console
from rich.text import Text

from agentic_kernel import Failure, Task, TaskStatus
from agentic_kernel_engine import Event, Unreadable
from agentic_kernel_engine.codec import event_to_dict, task_to_dict
from agentic_kernel_engine.plans import vocabulary
from agentic_kernel_engine.waiting import WAITING_FOR

from . import waiting
from .costs import NOTHING, Used
from .text import as_json, content, label, line

COLOURS: Mapping[str, str] = {
    TaskStatus.RUNNING: "cyan",
    TaskStatus.PAUSED: "yellow",
    TaskStatus.SUCCESS: "green",
    TaskStatus.FAILURE: "red",
    TaskStatus.CANCELLED: "magenta",
}


_NAMED: Final = 20
"""Maximum number of unreadable Tasks that a message names."""
_DECIDED: Final[Mapping[str, str]] = {
    vocabulary.APPROVAL_GIVEN: "approved",
    vocabulary.APPROVAL_REFUSED: "denied",
    vocabulary.APPROVAL_IGNORED: "ignored",
    vocabulary.QUESTION_ANSWERED: "answered",
    vocabulary.RUN_RETUNED: "retuned",
}


class Paper(Console):
    """A console that raises an error if the output is closed, and does not end the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def json_line(kind: str, fields: Mapping[str, Any]) -> None:
    """Print one object on stdout; ``kind`` names its type: ``task``, ``event``, ``error``, …

    The line is ASCII, so that no character in it can control a terminal.
    """
    # DEL is the only control character that `json.dumps` does not escape.
    line = json.dumps({"kind": kind, **fields}).replace("\x7f", "\\u007f")
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def task_line(task: Task, **more: Any) -> None:
    """Print a Task as one JSON object."""
    json_line("task", {**task_to_dict(task), **more})


def unreadable_line(found: Unreadable) -> None:
    """Print a record that cannot be read as one JSON object."""
    fields = {name: getattr(found, name) for name in ("version", "status", "newer", "why")}
    json_line("unreadable", {"id": found.task_id, **fields})


def event_line(task_id: str, event: Event) -> None:
    """Print an event as one JSON object; its ``id`` is null while it is not durable yet."""
    json_line("event", {"task_id": task_id, **event_to_dict(event)})


def unreadable_lines(found: Sequence[Unreadable]) -> Iterator[str]:
    """One line about all Tasks that cannot be read; no line if there are none."""
    if not found:
        return
    count = len(found)
    some = [label(each.task_id) for each in found[:_NAMED]]
    more = f" and {count - _NAMED} more" if count > _NAMED else ""
    yield (
        f"{count} Task{'' if count == 1 else 's'} cannot be read: {', '.join(some)}{more}; "
        "show ID says why, and kill ID buries it"
    )


def task_details(
    console: Console,
    task: Task,
    *,
    said: str,
    left: str = "",
    used: Used = NOTHING,
    reserved: Used = NOTHING,
    ran: str | None = None,
    decisions: Sequence[str] = (),
    doubts: Sequence[str] = (),
    way_on: str | None = None,
    host: str | None = None,
) -> None:
    """Print every fact of one Task.

    In a pipe each fact is one line, its line breaks escaped, so that no text of the Task can look
    like another fact.

    Args:
        said: The text so far; shown while there is no result.
        left: The remedy if the Task is running and no live process runs it; else empty.
        used: The use of its own calls of models that are over.
        reserved: The most that a call beside these may have used; shown if the Task has ended.
        ran: The time that it ran; None if it is not known.
        decisions: The decisions of people, with the names that were recorded.
        doubts: The steps whose outcome is unknown, because a run ended in them.
        way_on: The command that lets the Task go on.
        host: The Host in which the Task goes on, if this command does not run it.
    """
    from rich.table import Table  # Only this screen has a table.

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    shown = content if console.is_terminal else label
    facts = list(_facts(task, said, left, shown))
    if ran is not None:
        facts.append(("ran", ran))
    if used.total or used.cost:
        facts.append(("used", _spent(used)))
    if task.status.terminal and (reserved.total or reserved.cost):
        facts.append(("may have used", f"{_spent(reserved)} more, in the call that was cut"))
    facts += [("decided", decision) for decision in decisions]
    facts += [("unknown outcome", step) for step in doubts]
    if way_on is not None:
        facts.append(("go on with", way_on))
    if host is not None:
        facts.append(("goes on in", host))
    for name, value in facts:
        if console.is_terminal:
            grid.add_row(name, Text(value))
        else:
            typer.echo(f"{name}: {value}")
    console.print(grid, end="")


def _spent(used: Used) -> str:
    told = f"{used.input_tokens:,} tokens in, {used.output_tokens:,} out"
    return f"{told}, cost {used.price}" if used.price else told


def _facts(
    task: Task, said: str, left: str, shown: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """Yield names and values, all safe to show; ``shown`` makes a text of several lines safe."""
    yield "id", label(task.id)
    yield "status", line(task.status + (f" (no process runs it; {left})" if left else ""))
    yield "summary", label(task.summary)
    yield "runtime", label(task.runtime_kind)
    if task.agent_name is not None:
        yield "agent", label(task.agent_name)
    for name in ("created", "started", "ended"):
        at = getattr(task, f"{name}_at")
        if at is not None:
            yield name, stamp(at)
    yield "instructions", shown(task.instructions)
    for number, extra in enumerate(task.supplements, 1):
        yield f"extra {number}", shown(extra)
    for awaited in waiting.lines(task):
        yield "waits for", awaited
    for key in sorted(task.metadata):
        if key == WAITING_FOR:
            continue  # Shown above while it holds.
        if task.metadata[key] in (None, "", [], (), {}):
            continue  # It tells a person nothing; `show --json` has it.
        yield label(key), told(task.metadata[key], shown)
    if task.failure is not None:
        yield "failure", label(failure_text(task.failure))
    if task.status is TaskStatus.SUCCESS:
        yield "result", told(task.result, shown)
    elif said:
        yield f"said ({len(said)} characters)", shown(said)


def event_row(event: Event) -> None:
    """Print an event as one line for people."""
    at = "" if event.at is None else _here(event.at).strftime("%H:%M:%S.%f")[:-3]
    where = "" if event.id is None else str(event.id)
    data = as_json(event.data) if event.data else ""
    typer.echo(f"{where:>8}  {at}  {label(event.type):<22} {data}")


def finding_line(
    console: Console, name: str, ok: bool, detail: str, advice: str, needed: bool
) -> None:
    """Print one finding of the doctor, and what to do about it."""
    if ok:
        found = Text("ok  ", style="green")
    else:
        found = Text("NO  ", style="bold red") if needed else Text("--  ", style="dim")
    found.append(f"{label(name):<22} {label(detail)}", style="default")
    console.print(found, soft_wrap=True)
    if not ok:
        console.print(Text(f"    {line(advice)}", style="yellow"), soft_wrap=True)


def state_text(status: TaskStatus) -> Text:
    """A status in its colour."""
    return Text(status.value, style=COLOURS.get(status, ""))


def plain(value: Any) -> str:
    """A JSON value for people: a text, or the text of a result, unchanged; other values as JSON."""
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        value = value["text"]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def told(value: Any, shown: Callable[[str], str]) -> str:
    """The same as `plain`, but safe to show; ``shown`` makes a text safe."""
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        value = value["text"]
    return shown(value) if isinstance(value, str) else as_json(value)


def failure_text(failure: Failure) -> str:
    """The code and message of a failure, and its place in the user's code if that is known."""
    said = f"{failure.code}: {failure.message}"
    file, line = failure.metadata.get("file"), failure.metadata.get("line")
    if isinstance(file, str) and type(line) is int:
        return f"{said}  at {file}:{line}"
    return said


@dataclass(frozen=True)
class Decided:
    """A decision of a person about a Task, as its history has it."""

    decision: str
    """``approved``, ``denied``, ``ignored``, ``answered`` or ``retuned``."""
    by: str
    """The recorded name; empty if there is none."""
    digest: str
    """The digest of the request; empty if the decision has none."""
    why: str
    at: str
    """The moment in ISO 8601."""
    event_id: str
    """The id of the event that says so."""

    @property
    def line(self) -> str:
        """One line for people."""
        line = f"{self.decision} by {self.by or 'unknown'}"
        line += f", {self.digest[: waiting.SHOWN]}" if self.digest else ""
        return label(line + (f": {self.why}" if self.why else ""))


def decisions(events: Iterable[Event]) -> Iterator[Decided]:
    """The decisions of people about a Task, in order."""
    for event in events:
        made = _DECIDED.get(event.type)
        if made is None:
            continue
        by, digest, why = (_text(event.data.get(name)) for name in ("by", "digest", "why"))
        stored = event_to_dict(event)
        yield Decided(made, by, digest, why, stored["at"], stored["id"])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def stamp(at: datetime) -> str:
    """A moment in the user's own time zone, to the second."""
    return _here(at).replace(tzinfo=None).isoformat(" ", "seconds")


def _here(at: datetime) -> datetime:
    """A moment in the user's time zone; unchanged if that is before year 1 or after year 9999."""
    try:
        return at.astimezone()
    except (OverflowError, ValueError, OSError):
        return at
