"""Waiting: what a paused Task asks people for, as its note ``engine/waiting_for`` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from agentic_kernel import Task, TaskStatus

if TYPE_CHECKING:
    from .record import Record

WAITING_FOR: Final = "engine/waiting_for"
"""The note that says what a Task paused with the reason ``interrupt`` waits for."""
PAUSE: Final = "pause"
"""Type of the decision that asks for a pause at the next safe point."""
ANSWER: Final = "engine/answer"
"""A decision in the inbox that answers a question. Data: ``text``, ``by``."""


def waiting_for(task: Task) -> Mapping[str, Any] | None:
    """What people are to decide, as a Task's note says; None for nothing, or what is no such note.

    An approval, with the digest of each of its ``requests``, or the answer to a question, with its
    ``digest``. What came in with the Task is not its own word.
    """
    note = task.metadata.get(WAITING_FOR) if WAITING_FOR in task.noted else None
    if not isinstance(note, Mapping):
        return None
    match note.get("kind"):
        case "question":
            requests: Any = [note] if "digest" in note else []
        case "approval":
            requests = note.get("requests")
        case _:
            return None
    children = note.get("children", ())
    fits = (
        isinstance(requests, Sequence)
        and all(isinstance(each, Mapping) for each in requests)
        and all(isinstance(each.get("digest"), str) for each in requests)
        and isinstance(children, Sequence)
        and all(isinstance(child, str) for child in children)
    )
    return note if fits else None


def asked(task: Task) -> Mapping[str, Any] | None:
    """The same for a Task that is paused; None where nobody is to decide now."""
    return waiting_for(task) if task.status is TaskStatus.PAUSED else None


def children_asking(task: Task) -> Sequence[str]:
    """The children for whose sake a Task is paused: they ask people for something."""
    waiting = asked(task)
    return () if waiting is None else waiting.get("children", ())


def waits_in_vain(paused: Record, children: Mapping[str, Task]) -> bool:
    """Whether a Task is paused for what is decided, or what its children no longer ask for.

    Args:
        paused: The Task, and its inbox.
        children: Those of the children that are known, by id; another one may still ask.
    """
    waiting = asked(paused.task)
    if waiting is None:
        return False
    wanted = digests(waiting)
    if any(decides(entry, waiting["kind"], each) for entry in paused.inbox for each in wanted):
        return True
    for child in waiting.get("children", ()):
        if child in children and set(wanted).isdisjoint(digests(asked(children[child]) or {})):
            return True
    return False


def decides(entry: Mapping[str, Any], kind: str, digest: str) -> bool:
    """Whether an entry of an inbox decides about what is asked for.

    A person's answer names no digest: it is one to whatever question the Task shows.
    """
    if kind == "question" and entry["type"] == ANSWER:
        return bool(entry.get("digest", digest) == digest)
    return bool(entry.get("digest") == digest)


def digests(waiting: Mapping[str, Any]) -> list[str]:
    """The digests of what is asked for."""
    if waiting.get("kind") == "approval":
        return [request["digest"] for request in waiting["requests"]]
    return [waiting["digest"]] if waiting.get("digest") else []


def surfaced(child: Task, waiting: Mapping[str, Any]) -> dict[str, Any]:
    """What a child asks for, as its parent asks for it: the same, and who it is from.

    ``children`` are the parent's own, whose doing it is; ``task`` is whoever asks, at any depth.
    """
    found = {**waiting, "children": [child.id]}
    if waiting["kind"] == "approval":
        found["requests"] = [{"task": child.id, **request} for request in waiting["requests"]]
    else:
        found.setdefault("task", child.id)
    return found


def field_text(entry: Mapping[str, Any], name: str) -> str:
    """A field of a stored decision as text; "" if it is none."""
    value = entry.get(name, "")
    return value if isinstance(value, str) else ""


def pause_waits(record: Record) -> bool:
    """True if a pause request waits in the record's inbox."""
    return any(entry["type"] == PAUSE for entry in record.inbox)


def without_pause(inbox: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """The inbox without its pause requests."""
    return tuple(entry for entry in inbox if entry["type"] != PAUSE)
