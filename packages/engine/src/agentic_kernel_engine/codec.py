"""Codec: JSON documents of a Task, an Agent and an Event, for people and other programs.

Moments are ISO 8601. A document from outside is checked strictly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from agentic_kernel import Agent, Failure, InvalidTask, InvalidValue, Task, TaskStatus
from agentic_kernel.catalog import check_name
from agentic_kernel.frozen import shown

from . import edges, moments, values
from .cursor import EventId
from .events import Event


def task_to_json(task: Task) -> str:
    """A Task as a JSON document.

    Raises:
        InvalidValue: A value in the Task cannot be written as JSON; the message names its path.
    """
    if not isinstance(task, Task):
        raise InvalidValue("task", f"must be a Task, not {type(task).__name__}")
    # Check each part by itself: the whole document may exceed the limits of one stored value.
    fields = task_to_dict(task)
    for name, part in fields.items():
        if name not in ("metadata", "failure"):
            values.encode(part, f"task.{name}")
    for key, note in task.metadata.items():
        values.encode({key: None}, "task.metadata")
        values.encode(note, f"task.metadata[{shown(key)}]")
    if task.failure is not None:
        values.encode(task.failure.metadata, "task.failure.metadata")
        values.encode([task.failure.code, task.failure.message], "task.failure")
    return msgspec.json.encode(fields).decode()


def task_to_dict(task: Task) -> dict[str, Any]:
    """A Task as plain values. Moments are ISO 8601; a result or failure only if there is one."""
    fields: dict[str, Any] = {
        "id": task.id,
        "summary": task.summary,
        "instructions": task.instructions,
        "runtime_kind": task.runtime_kind,
        "agent_name": task.agent_name,
        "metadata": task.metadata,
        "noted": sorted(task.noted),
        "status": task.status.value,
        "supplements": task.supplements,
        "created_at": stamp(task.created_at),
        "started_at": stamp(task.started_at),
        "ended_at": stamp(task.ended_at),
    }
    if task.status is TaskStatus.SUCCESS:
        fields["result"] = task.result
    if task.failure is not None:
        fields["failure"] = failure_to_dict(task.failure)
    return fields


def task_from_json(text: str | bytes) -> Task:
    """A Task from its JSON document.

    Raises:
        InvalidValue: The document is not JSON, or has a duplicate key, NaN, or a number out of
            range.
        InvalidTask: The document is not a legal Task.
    """
    fields = _strict(text)
    if not isinstance(fields, Mapping):
        raise InvalidTask("task", "must be a JSON object")
    unknown = fields.keys() - _TASK_FIELDS
    if unknown:
        some = ", ".join(sorted(map(shown, unknown))[:5])
        raise InvalidTask("task", f"has {len(unknown):,} unknown fields: {some}")
    given = dict(fields)
    try:
        for name in ("created_at", "started_at", "ended_at"):
            if given.get(name) is not None:
                given[name] = _moment(given[name], f"task.{name}")
        if given.get("failure") is not None:
            given["failure"] = failure_from_dict(given["failure"])
        missing = [name for name in _NEEDED if name not in given]
        if missing:
            raise InvalidTask("task", f"lacks {', '.join(missing)}")
        task = Task(**given)
        if task.agent_name is not None:
            check_name(task.agent_name, "task.agent_name")
        for key in task.noted:
            check_name(key, "task.noted")
        return task
    except InvalidTask:
        raise
    except InvalidValue as error:
        raise InvalidTask(error.path, error.reason) from None


_TASK_FIELDS = frozenset(Task.__slots__)
_NEEDED = ("id", "summary", "instructions", "runtime_kind", "created_at")


def agent_to_json(agent: Agent) -> str:
    """An Agent as a JSON document.

    Raises:
        InvalidValue: A value in the Agent's metadata cannot be written as JSON.
    """
    if not isinstance(agent, Agent):
        raise InvalidValue("agent", f"must be an Agent, not {type(agent).__name__}")
    document = {
        "name": agent.name,
        "capabilities": [capability.name for capability in agent.capabilities],
        "metadata": agent.metadata,
    }
    return values.encode(document, "agent").decode()


def agent_from_json(text: str | bytes) -> Agent:
    """An Agent from its JSON document.

    Raises:
        InvalidValue: The document is not JSON, or not a legal Agent.
    """
    fields = _strict(text)
    if not isinstance(fields, dict) or not fields.keys() <= {"name", "capabilities", "metadata"}:
        raise InvalidValue("agent", "must be a JSON object of name, capabilities and metadata")
    capabilities = fields.get("capabilities", [])
    if not isinstance(capabilities, list):
        raise InvalidValue("agent.capabilities", "must be a list of names")
    return Agent(fields.get("name", ""), tuple(capabilities), fields.get("metadata", {}))


def event_to_json(event: Event) -> str:
    """An Event as a JSON document.

    Raises:
        InvalidValue: It is not an Event, or its data cannot be written as JSON; the message names
            the path.
    """
    edges.instance(event, "event", Event)
    edges.text(event.type, "event.type")
    text = values.encode(values.mapping(event.data, "event.data"), "event.data")
    return msgspec.json.encode({**event_to_dict(event), "data": msgspec.Raw(text)}).decode()


def event_to_dict(event: Event) -> dict[str, Any]:
    """An Event as plain values: ``id`` as its text, ``at`` in ISO 8601, ``type`` and ``data``.

    ``id`` is None for an event that is not durable yet.
    """
    return {
        "id": None if event.id is None else str(EventId(*event.id)),
        "at": stamp(event.at),
        "type": event.type,
        "data": event.data,
    }


def event_from_json(text: str | bytes) -> Event:
    """An Event from its JSON document; ``id`` and ``at`` may be left out.

    Raises:
        InvalidValue: The document is not JSON, or not the document of an Event.
    """
    fields = _strict(text)
    if not isinstance(fields, Mapping) or not fields.keys() <= {"id", "at", "type", "data"}:
        raise InvalidValue("event", "must be a JSON object of id, at, type and data")
    id, at = fields.get("id"), fields.get("at")
    return Event(
        edges.text(fields.get("type"), "event.type", empty=False, remedy="name the event's kind"),
        values.mapping(fields.get("data", {}), "event.data"),
        None if at is None else _moment(at, "event.at"),
        None if id is None else EventId.parse(id),
    )


def failure_to_dict(failure: Failure) -> dict[str, Any]:
    """The fields of a Failure."""
    return {
        "code": failure.code,
        "message": failure.message,
        "metadata": failure.metadata,
    }


def failure_from_dict(fields: Any) -> Failure:
    """The Failure with these fields.

    Raises:
        InvalidValue: The fields are not those of a Failure.
    """
    if not isinstance(fields, Mapping) or not fields.keys() <= {"code", "message", "metadata"}:
        raise InvalidValue("failure", "must be an object of code, message and metadata")
    return Failure(fields.get("code", ""), fields.get("message", ""), fields.get("metadata", {}))


def stamp(at: datetime | None) -> str | None:
    """A moment in ISO 8601; None for None."""
    return None if at is None else at.isoformat()


def _moment(text: Any, path: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise InvalidValue(path, f"is {shown(text)}, not an ISO 8601 date and time") from None
    return moments.aware(path, moment)


def _strict(text: str | bytes) -> Any:
    """Parse JSON from outside; refuse duplicate keys, NaN, infinity and numbers out of range."""
    if not isinstance(text, (str, bytes, bytearray)):
        raise InvalidValue("document", f"must be JSON text, not {type(text).__name__}")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except InvalidValue:
        raise
    except RecursionError:
        raise InvalidValue("document", "is nested too deeply") from None
    except ValueError as error:
        raise InvalidValue("document", f"is not JSON: {error}") from None
    values.check(value, "document")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise InvalidValue("document", f"has the key {shown(key)} twice")
        made[key] = value
    return made


def _no_constant(name: str) -> Any:
    raise InvalidValue("document", f"holds {name}, which is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise InvalidValue("document", f"holds {text[:40]}, which no float can hold")
    return number
