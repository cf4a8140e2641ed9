"""Proposals: the command line with which a person lets a Task go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentic_kernel import CannotStart, Task, TaskStatus

from . import waiting
from .grants import Wish
from .kinds import serves
from .place import Place

if TYPE_CHECKING:
    from .application import Ways


def proposal(place: Place | Ways, task: Task) -> str | None:
    """The command that lets this Task go on, ready to paste.

    None if the Task is neither running nor paused, or if it waits for a Host that serves its kind.

    The command names each request by its digest, so that it decides about the request that was
    shown and never about a later one. It has the flags that grant what the Task asks for, except
    ``--yes``.
    """
    from .application import Ways

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
    app = place.app if isinstance(place, Ways) else None
    # An app that was not opened yet may serve any kind that this command does not run.
    own = app is not None and (
        app.serves(task.runtime_kind) if app.known else not serves(task.runtime_kind)
    )
    if verb == "recover" and not own and not serves(task.runtime_kind):
        return None
    flags = [] if own else _flags(task)
    if task.id.startswith("-"):
        flags = [*then[1:], *flags] if verb == "answer" else flags
        return place.command(verb, *flags, "--", task.id, *(then[:1] if verb == "answer" else then))
    return place.command(verb, task.id, *then, *flags)


def _flags(task: Task) -> list[str]:
    if not serves(task.runtime_kind):
        return []
    try:
        return Wish.of(task).words()
    except CannotStart:
        return []
