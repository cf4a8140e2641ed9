"""Proposals: the command line with which a person lets a Task go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentic_kernel import CannotStart, Task, TaskNotFound, TaskStatus

from . import waiting
from .grants import Wish
from .kinds import elsewhere, serves, taker
from .origin import app_of, where
from .place import Place, orphaned
from .text import label

if TYPE_CHECKING:
    from agentic_kernel_engine import Host, Record

    from .application import Ways
    from .invocation import Invocation


def proposal(place: Place | Ways, task: Task) -> str | None:
    """The command that lets this Task go on, ready to paste.

    None if the Task is neither running nor paused, or if it waits for a Host that serves its kind.

    The command names each request by its digest, so that it decides about the request that was
    shown and never about a later one. It has the flags that grant what the Task asks for, except
    ``--yes``.
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
    own = _ways(place, task)
    if own is None and (app_of(task) or (verb == "recover" and not serves(task.runtime_kind))):
        return None
    flags = _flags(task) if own is None else []
    command = place.command if own is None else own.app_command
    if task.id.startswith("-"):
        flags = [*then[1:], *flags] if verb == "answer" else flags
        return command(verb, *flags, "--", task.id, *(then[:1] if verb == "answer" else then))
    return command(verb, task.id, *then, *flags)


_HIGHEST: Final = 100
"""The most parents that are looked up, one above the other."""
APP: Final = "MODULE:OBJECT"
"""Stands for the app that a person may have."""


def remedy(place: Place | Ways, task: Task) -> str:
    """The remedy for a running Task that no process runs, in a few words."""
    if _ways(place, task) is not None:
        return "recover it"
    app = app_of(task)
    return taker(task.runtime_kind) if app is None else f"recover it with {where(app)}"


def way_back(called: Invocation, task: Task) -> str:
    """The remedy for a running Task that no process runs, with the command."""
    recover = proposal(called.ways, task)
    if recover is not None:
        return f"let it go on with: {recover}"
    own = called.place.command("--app", APP, "recover", "--", task.id)
    app = app_of(task)
    if app is not None:
        return f"recover it with {where(app)}: {own}"
    return f"start a Host that serves {label(task.runtime_kind)}, or name yours: {own}"


async def onward(called: Invocation, host: Host, record: Record) -> str:
    """The end of a sentence: the way on of a Task that this command controls, but does not run.

    A child goes on when the Task above it runs, in the Host that serves that one.
    """
    above = await _highest(host, record)
    if above is not None and await orphaned(host, above):
        return f"it goes on with its parent; {way_back(called, above.task)}"
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


def host_of(place: Place | Ways, task: Task) -> str | None:
    """The Host in which a paused Task goes on; None if this command or its app runs it."""
    kind = task.runtime_kind
    app = app_of(task)
    if task.status is not TaskStatus.PAUSED or (serves(kind) and app is None):
        return None
    if _ways(place, task) is not None:
        return None
    if app is not None:
        return where(app)
    return f"a Host that serves {label(kind)}; to run it here, add --app {APP}"


def _ways(place: Place | Ways, task: Task) -> Ways | None:
    """The ways of the person's app if it runs this Task; else None."""
    from .application import Ways

    if not isinstance(place, Ways):
        return None
    app, kind, started = place.app, task.runtime_kind, app_of(task)
    if started is not None:
        return place if app.named or started == app.name else None
    # An app that was not opened yet may serve any kind that this command does not run.
    runs = app.serves(kind) if app.known else not serves(kind)
    return place if runs else None


def _flags(task: Task) -> list[str]:
    if not serves(task.runtime_kind):
        return []
    try:
        return Wish.of(task).words()
    except CannotStart:
        return []
