"""What a paused Task waits for: an approval, an answer, a moment; read from its run's note."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from agentic_kernel import KernelError, Task, TaskStatus
from agentic_kernel_engine.loop.reasons import WAITING_FOR

from .text import label

MIN_DIGEST: Final = 6
"""How many characters an abbreviated digest needs."""
SHOWN: Final = 12
"""How many characters of a digest are shown."""
_NEEDS: Final = {"approval": "an approval", "question": "an answer", "schedule": "a moment"}


class NotAwaited(KernelError):
    """The Task does not wait for what was decided.

    Attributes:
        task_id: Which Task.
        reason: What it waits for instead, and what to do.
    """

    def __init__(self, task_id: str, reason: str) -> None:
        self.task_id = task_id
        self.reason = reason
        super().__init__(task_id, reason)

    def __str__(self) -> str:
        return f"task {self.task_id!r} {self.reason}"


@dataclass(frozen=True)
class Request:
    """One action that a person has to decide about."""

    digest: str
    action: Mapping[str, Any]
    reason: str

    def __str__(self) -> str:
        why = f"  ({self.reason})" if self.reason else ""
        return label(f"{self.digest[:SHOWN]}  {said(self.action)}{why}")


def kind(task: Task) -> str | None:
    """Which kind of thing the Task is paused for; None if it is not, or for nothing."""
    found = _note(task).get("kind")
    return found if isinstance(found, str) else None


def requests(task: Task) -> list[Request]:
    """The actions that wait for an approval, in the order of the plan.

    Raises:
        NotAwaited: There are none.
    """
    check(task, "approval")
    return _requests(_note(task))


def chosen(task: Task, digest: str | None) -> list[Request]:
    """Those requests that a digest, or its first characters, fits; all of them without one.

    Raises:
        NotAwaited: None does, or several do.
    """
    found = requests(task)
    if digest is None:
        return found
    fitting = [
        request
        for request in found
        if request.digest == digest
        or (len(digest) >= MIN_DIGEST and request.digest.startswith(digest))
    ]
    if len(fitting) != 1:
        many = "several actions" if fitting else "no action"
        raise NotAwaited(
            task.id, f"asks about {many} with the digest {digest[:80]!r}; see it with show"
        )
    return fitting


def check(task: Task, wanted: str) -> None:
    """Refuse to decide what nobody asks.

    Raises:
        NotAwaited: The Task does not wait for that kind of thing.
    """
    if kind(task) == wanted:
        return
    if task.status is not TaskStatus.PAUSED:
        instead = f"it is {task.status.value}"
    elif (other := kind(task)) is not None:
        instead = f"it waits for {_NEEDS.get(other, other)}"
    else:
        instead = "it was paused without a request; resume it"
    raise NotAwaited(task.id, f"does not wait for {_NEEDS[wanted]}: {instead}")


def lines(task: Task) -> list[str]:
    """What the Task waits for, one printable line each; none if it waits for nothing."""
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
            return [label(f"{other}: {_json(note)}")]


def _note(task: Task) -> Mapping[str, Any]:
    found = task.metadata.get(WAITING_FOR)
    return found if task.status is TaskStatus.PAUSED and isinstance(found, Mapping) else {}


def _requests(note: Mapping[str, Any]) -> list[Request]:
    return [
        Request(str(each["digest"]), each.get("action", {}), str(each.get("reason", "")))
        for each in note.get("requests", ())
        if isinstance(each, Mapping) and each.get("digest")
    ]


def said(action: Mapping[str, Any]) -> str:
    """An action for people: its type and what it carries; a tool call by the tool's name."""
    parts = dict(action)
    name = parts.pop("type", "action")
    if name == "tool_call":
        parts.pop("id", None)
        return f"{parts.get('tool')} {_json(parts.get('arguments', {}))}"
    return f"{name} {_json(parts)}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
