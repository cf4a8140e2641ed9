"""Waiting: the requests of a paused Task to people, from its note ``engine/waiting_for``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Required, TypedDict, cast

from agentic_kernel import Task, TaskStatus

from . import edges

if TYPE_CHECKING:
    from .record import Record

WAITING_FOR: Final = "engine/waiting_for"
"""The note that says what a Task paused with the reason ``interrupt`` waits for."""
ANSWER: Final = "engine/answer"
"""A decision in the inbox that answers a question. Data: ``text``, ``by``."""


class ApprovalRequest(TypedDict, total=False):
    """One action that waits for a person's approval."""

    digest: Required[str]
    """The digest that the decision names."""
    type: str
    """The kind of the action, such as ``tool_call``."""
    action: Mapping[str, Any]
    reason: str
    """The reason that the policy gave."""
    task: str
    """The Task that asks, if it is a child of this one."""


class WaitingFor(TypedDict, total=False):
    """The approval, the answer or the moment that a paused Task waits for.

    Only ``kind`` is always there; the other keys belong to the kinds that they name.
    """

    kind: Required[Literal["approval", "question", "schedule"]]
    requests: Sequence[ApprovalRequest]
    """For an approval: the actions, in the order of the plan."""
    question: str
    """For a question: its text."""
    digest: str
    """For a question: the digest that the answer names."""
    at: str
    """For a schedule: the moment, in ISO 8601."""
    reason: str
    """For a schedule: the reason that the planner gave."""
    task: str
    """For a question: the Task that asks, if it is a child of this one."""
    tool: str
    """For a question: the tool whose call asks; absent if the model asks."""
    children: Sequence[str]
    """The children of this Task that ask; absent if the Task itself asks."""


def waiting_for(task: Task) -> WaitingFor | None:
    """The approval, the answer or the moment that a paused Task waits for.

    Returns:
        None if the Task is not paused, or was paused without a request, so that a plain resume lets
        it go on. A value that came in with the Task's input is ignored.

    Raises:
        InvalidValue: It is not a Task.
    """
    if edges.instance(task, "task", Task).status is not TaskStatus.PAUSED:
        return None
    note = _note(task)
    if note.get("kind") == "schedule":
        return cast(WaitingFor, note) if isinstance(note.get("at"), str) else None
    return cast("WaitingFor | None", request_of(task))


def request_of(task: Task) -> Mapping[str, Any] | None:
    """The Task's note about the decision it needs from people; None if there is no valid one.

    The note asks for an approval, with the digest of each of its ``requests``, or for the answer to
    a question, with its ``digest``. A value that came in with the Task's input is ignored.
    """
    note = _note(task)
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


def _note(task: Task) -> Mapping[str, Any]:
    """The note of the Task's own run about what it waits for; empty if there is none."""
    note = task.metadata.get(WAITING_FOR) if WAITING_FOR in task.noted else None
    return note if isinstance(note, Mapping) else {}


def asked(task: Task) -> Mapping[str, Any] | None:
    """`request_of` a paused Task; None if the Task is not paused."""
    return request_of(task) if task.status is TaskStatus.PAUSED else None


def children_asking(task: Task) -> Sequence[str]:
    """The children because of which a Task is paused: they ask people for something."""
    waiting = asked(task)
    return () if waiting is None else waiting.get("children", ())


def waits_in_vain(paused: Record, children: Mapping[str, Task]) -> bool:
    """True if a Task is paused for a request that is decided, or that its child no longer makes.

    Args:
        paused: The record of the Task, with its inbox.
        children: The children that are known, by id; a child that is missing may still ask.
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
    """True if an entry of the inbox decides the request with this digest.

    A person's answer may come without a digest: it then answers the question that the Task shows.
    """
    if kind == "question" and entry["type"] == ANSWER:
        return bool(entry.get("digest", digest) == digest)
    return bool(entry.get("digest") == digest)


def digests(waiting: Mapping[str, Any]) -> list[str]:
    """The digests of the requests in a note."""
    if waiting.get("kind") == "approval":
        return [request["digest"] for request in waiting["requests"]]
    return [waiting["digest"]] if waiting.get("digest") else []


def surfaced(child: Task, waiting: Mapping[str, Any]) -> dict[str, Any]:
    """The note of a parent that passes on its child's request, with the request's origin.

    ``children`` names the parent's own child; ``task`` names the Task that asks, at any depth.
    """
    found = {**waiting, "children": [child.id]}
    if waiting["kind"] == "approval":
        found["requests"] = [{"task": child.id, **request} for request in waiting["requests"]]
    else:
        found.setdefault("task", child.id)
    return found


def field_text(entry: Mapping[str, Any], name: str) -> str:
    """A field of a stored decision or principal; "" if the field is not text."""
    value = entry.get(name, "")
    return value if isinstance(value, str) else ""
