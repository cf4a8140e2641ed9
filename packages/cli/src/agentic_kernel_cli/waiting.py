"""Waiting: the approval, answer or moment that a paused Task waits for, as its run noted it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agentic_kernel import KernelError, Task, TaskStatus
from agentic_kernel_engine import Record
from agentic_kernel_engine.waiting import WAITING_FOR

from .text import as_json, label, named

MIN_DIGEST: Final = 8
"""Minimum length of an abbreviated digest, in characters."""
SHOWN: Final = 12
"""Number of characters of a digest that are shown."""
_NEEDS: Final = {"approval": "an approval", "question": "an answer", "schedule": "a moment"}


class NotAwaited(KernelError):
    """The Task does not wait for this decision.

    Attributes:
        task_id: The id of the Task.
        reason: The state of the Task, and what to do.
    """

    def __init__(self, task_id: str, reason: str) -> None:
        self.task_id = task_id
        self.reason = reason
        super().__init__(task_id, reason)

    def __str__(self) -> str:
        return f"{named(self.task_id)} {self.reason}"


@dataclass(frozen=True)
class Request:
    """One action that a person has to decide about."""

    digest: str
    action: Mapping[str, Any]
    reason: str

    def __str__(self) -> str:
        why = f"  ({label(self.reason)})" if self.reason else ""
        return f"{label(self.digest[:SHOWN])}  {said(self.action)}{why}"


def kind(task: Task) -> str | None:
    """The kind of request that the Task is paused for; None if not paused, or without a request."""
    found = _note(task).get("kind")
    return found if isinstance(found, str) else None


def requests(task: Task) -> list[Request]:
    """The actions that wait for an approval, in the order of the plan.

    Raises:
        NotAwaited: The Task does not wait for an approval.
    """
    check(task, "approval")
    return _requests(_note(task))


def chosen(task: Task, digests: Sequence[str]) -> list[Request]:
    """The requests that these digests or their first characters name, in the order of the plan.

    Without a digest these are all requests.

    Raises:
        NotAwaited: The Task does not wait for an approval, or a digest fits no request or several.
    """
    found = requests(task)
    if not digests:
        return found
    named = [_named(task, found, digest) for digest in digests]
    return [request for request in found if request in named]


def check_shown(record: Record, wanted: Sequence[Request]) -> None:
    """Refuse a request that shows another action than the action that its approval allows.

    The person reads the note of the run; the Loop acts on its state.

    Raises:
        NotAwaited: The two actions differ.
    """
    try:
        at_hand = json.loads(record.state or b"{}")["at_hand"]
        judged = zip(at_hand["plan"]["actions"], at_hand["verdicts"], strict=False)
        meant = {each["digest"]: action for action, each in judged if each.get("digest")}
    except (AttributeError, KeyError, TypeError, ValueError):
        return  # No Loop at an action of its own: the substrate or a child made the request.
    for request in wanted:
        if request.digest in meant and meant[request.digest] != request.action:
            raise NotAwaited(
                record.task.id,
                f"shows another action than the one with the digest {request.digest[:SHOWN]}; "
                "do not decide about it: kill it",
            )


def question_digest(task: Task) -> str:
    """The digest of the question that the Task asks; empty if there is none."""
    found = _note(task).get("digest")
    return found if isinstance(found, str) else ""


def _named(task: Task, found: Sequence[Request], digest: str) -> Request:
    fitting = [request for request in found if request.digest == digest] or [
        request
        for request in found
        if len(digest) >= MIN_DIGEST and request.digest.startswith(digest)
    ]
    if len(fitting) == 1:
        return fitting[0]
    if len(digest) < MIN_DIGEST:
        raise NotAwaited(
            task.id,
            f"takes at least {MIN_DIGEST} characters of a digest, and {digest!r} has "
            f"{len(digest)}; see the digests with show",
        )
    if fitting:
        instead = "several actions whose digest begins with"
    else:
        instead = "no action whose digest begins with"
    raise NotAwaited(task.id, f"asks about {instead} {digest[:80]!r}; see the digests with show")


def check(task: Task, wanted: str) -> None:
    """Refuse a decision that the Task does not wait for.

    Raises:
        NotAwaited: The Task does not wait for a decision of the kind ``wanted``.
    """
    if kind(task) == wanted:
        return
    if task.status.terminal:
        instead = f"it has ended ({task.status.value})"
    elif task.status is not TaskStatus.PAUSED:
        instead = f"it is {task.status.value}"
    elif (other := kind(task)) is not None:
        instead = f"it waits for {_NEEDS.get(other, other)}"
    else:
        instead = "it was paused without a request; resume it"
    raise NotAwaited(task.id, f"does not wait for {_NEEDS[wanted]}: {instead}")


def check_resumed(task: Task, way_on: str | None) -> None:
    """Refuse a resume that decides nothing, before it is handed to another Host.

    The Task would count as running until a Host takes it, and meanwhile take no decision.

    Args:
        way_on: The command that decides; None if this command has none.

    Raises:
        NotAwaited: The Task waits for an approval or an answer.
    """
    wanted = kind(task)
    if wanted in ("approval", "question"):
        then = "see with show where it goes on" if way_on is None else f"go on with: {way_on}"
        raise NotAwaited(task.id, f"waits for {_NEEDS[wanted]}, and resume gives none; {then}")


def lines(task: Task) -> list[str]:
    """The things that the Task waits for, one printable line each; empty if there are none."""
    note = _note(task)
    match note.get("kind"):
        case None:
            return []
        case "approval":
            return [f"approval of {request}" for request in _requests(note)]
        case "question":
            return [label(f"an answer to: {note.get('question', '')}")]
        case "schedule":
            why = f"  ({note['reason']})" if note.get("reason") else ""
            return [label(f"the moment {note.get('at', '')}{why}")]
        case other:
            return [f"{label(str(other))}: {as_json(note)}"]


def _note(task: Task) -> Mapping[str, Any]:
    found = task.metadata.get(WAITING_FOR)
    if task.status is not TaskStatus.PAUSED or WAITING_FOR not in task.noted:
        return {}  # The caller wrote this into the Task, not the run.
    return found if isinstance(found, Mapping) else {}


def _requests(note: Mapping[str, Any]) -> list[Request]:
    return [
        Request(str(each["digest"]), each.get("action", {}), str(each.get("reason", "")))
        for each in note.get("requests", ())
        if isinstance(each, Mapping) and each.get("digest")
    ]


def said(action: Mapping[str, Any]) -> str:
    """An action as one visible line: its type and fields, or the tool and arguments of a call."""
    parts = dict(action)
    name = parts.pop("type", "action")
    if name == "tool_call":
        parts.pop("id", None)
        return f"{label(str(parts.get('tool')))} {as_json(parts.get('arguments', {}))}"
    return f"{label(str(name))} {as_json(parts)}"
