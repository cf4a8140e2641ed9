"""Proposals: the command line with which a person lets a Task go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from agentic_kernel import CannotStart, Task, TaskNotFound, TaskStatus

from . import waiting
from .grants import Wish
from .kinds import elsewhere, serves, taker
from .origin import Tools, app_of, program_of
from .place import Place, history, orphaned
from .text import label

if TYPE_CHECKING:
    from agentic_kernel_engine import Host, Record

    from .application import Ways
    from .invocation import Invocation


def proposal(place: Place | Ways, task: Task, tools: Tools | None = None) -> str | None:
    """The command that lets this Task go on, ready to paste.

    None if the Task is neither running nor paused, or if it waits for a Host that serves its kind,
    or for another program.

    The command names each request by its digest, so that it decides about the request that was
    shown and never about a later one. It has the flags that grant what the Task asks for, except
    ``--yes``.

    Args:
        tools: Has read the history of the Task; None if the history is not at hand.
    """
    if task.status is TaskStatus.RUNNING:
        verb, then = "recover", []
    elif task.status is not TaskStatus.PAUSED:
        return None
    elif waiting.kind(task) == "approval":
        verb, then = "approve", [request.digest for request in waiting.requests(task)]
    elif waiting.kind(task) == "question":
        asked = waiting.question_digest(task)
        verb, then = "answer", ["TEXT", *(["--digest", asked] if asked else [])]
    else:
        verb, then = "resume", []
    own = _ways(place, task, tools)
    if own is None and program_of(task, tools) is not None:
        return None
    if own is None and verb == "recover" and not serves(task.runtime_kind):
        return None
    flags = _flags(task) if own is None else []
    command = place.command if own is None else own.app_command
    if task.id.startswith("-"):
        flags = [*then[1:], *flags] if verb == "answer" else flags
        return command(verb, *flags, "--", task.id, *(then[:1] if verb == "answer" else then))
    return command(verb, task.id, *then, *flags)


def last_words(place: Place | Ways, tasks: Sequence[Task]) -> str:
    """The last words of a process that leaves these Tasks at once, so that they stay running.

    Args:
        tasks: The Tasks that it runs; empty before they have begun.
    """
    shown = tasks[:_MOST]
    told = [f"go on with: {way}" for task in shown if (way := proposal(place, task)) is not None]
    if not told or len(tasks) > _MOST:
        told.append(f"see {'the others' if told else 'the Tasks'} with: {place.command('list')}")
    return "left at once; committed work is kept; " + "\n".join(told)


_MOST: Final = 20
"""The most Tasks whose commands the last words name."""
_HIGHEST: Final = 100
"""The most parents that are looked up, one above the other."""
APP: Final = "MODULE:OBJECT"
"""Stands for the app that a person may have."""


def remedy(place: Place | Ways, task: Task, tools: Tools | None = None) -> str:
    """The remedy for a running Task that no process runs, in a few words."""
    own = _ways(place, task, tools)
    if own is not None:
        condition = _condition(own, task)
        return f"recover it, {condition}" if condition else "recover it"
    program = program_of(task, tools)
    return taker(task.runtime_kind) if program is None else f"recover it with {program}"


async def way_back(called: Invocation, host: Host, task: Task) -> str:
    """The remedy for a running Task that no process runs, with the command.

    Args:
        host: Reads the history of the Task.
    """
    tools = Tools(await history(host, task.id))
    recover = proposal(called.ways, task, tools)
    if recover is not None:
        ways = _ways(called.ways, task, tools)
        condition = "" if ways is None else _condition(ways, task)
        return f"let it go on{condition and f', {condition},'} with: {recover}"
    own = called.place.command("--app", APP, "recover", "--", task.id)
    program = program_of(task, tools)
    if program is not None:
        return f"recover it with {program}: {own}"
    return f"start a Host that serves {label(task.runtime_kind)}, or name yours: {own}"


async def onward(called: Invocation, host: Host, record: Record) -> str:
    """The end of a sentence: the way on of a Task that this command controls, but does not run.

    A child goes on when the Task above it runs, in the Host that serves that one.
    """
    above = await _highest(host, record)
    if above is not None and await orphaned(host, above):
        return f"it goes on with its parent; {await way_back(called, host, above.task)}"
    return elsewhere(record.task.runtime_kind)


async def _highest(host: Host, record: Record) -> Record | None:
    """The parent, or the Task highest above it that is stored here; None if there is none."""
    found = None
    for _ in range(_HIGHEST):
        if record.parent is None:
            break
        try:
            found = record = await host.record(record.parent)
        except TaskNotFound:
            break  # Its store is another one.
    return found


def host_of(place: Place | Ways, task: Task, tools: Tools | None = None) -> str | None:
    """The Host in which a Task goes on that no process runs now.

    None if this command or its app runs it, or if the Task has ended.
    """
    if task.status.terminal or _ways(place, task, tools) is not None:
        return None
    program = program_of(task, tools)
    if program is not None:
        return program
    kind = task.runtime_kind
    return (
        None
        if serves(kind)
        else f"a Host that serves {label(kind)}; to run it here, add --app {APP}"
    )


def _condition(ways: Ways, task: Task) -> str:
    """The condition of a proposal whose app may not serve the Task; empty if it does.

    A proposal does not open the app, because an open app may take up Tasks.
    """
    if ways.app.known or app_of(task) is not None:
        return ""
    return f"if {ways.app} serves {label(task.runtime_kind)}"


def _ways(place: Place | Ways, task: Task, tools: Tools | None) -> Ways | None:
    """The ways of the person's app if it runs this Task; else None."""
    from .application import Ways

    if not isinstance(place, Ways):
        return None
    app, kind, started = place.app, task.runtime_kind, app_of(task)
    if started == app.name:
        return place if app.serves(kind) or not app.known else None
    if started is not None:
        # Only an app that the command line names goes on with the Task of another one.
        return place if app.named and app.serves(kind) else None
    # An app that was not opened yet may serve any kind, and this command leaves these Tasks to it.
    left = not serves(kind) or program_of(task, tools) is not None
    return place if (app.serves(kind) if app.known else left) else None


def _flags(task: Task) -> list[str]:
    if not serves(task.runtime_kind):
        return []
    try:
        return Wish.of(task).words()
    except CannotStart:
        return []
