"""The stored form of a Record, as JSON text.

There are two forms: a whole Record (`encode_record`), and the change that one commit made
(`encode_change`), which a log appends. A change never repeats the Task's input (R16), holds only
the new supplements, and leaves out the fields that stayed the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from agentic_kernel import InvalidValue, Task, TaskStatus
from agentic_kernel.frozen import freeze, same

from . import edges, moments, values
from .codec import failure_from_dict, failure_to_dict, stamp
from .errors import Unreadable
from .record import Record

SCHEMA = 2
"""The newest version of the stored form that this code reads. A record is written in the oldest
version that holds all of it (`Record.needs_schema`), so that older code can read it if possible."""


class _Head(msgspec.Struct, omit_defaults=True):
    """The stored form: short keys, defaults left out, the state embedded unchanged."""

    v: int
    i: dict[str, Any] | None = None
    st: str | None = None
    state: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    inbox: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    owner: str | msgspec.UnsetType | None = msgspec.UNSET
    step: int | None = None
    tries: int | None = None
    due: str | msgspec.UnsetType | None = msgspec.UNSET
    parent: str | None = None
    notes: dict[str, Any] | None = None
    res: Any = msgspec.UNSET
    fail: dict[str, Any] | None = None
    sup: list[str] | None = None
    start: str | None = None
    end: str | None = None
    terms: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    realm: str = ""
    form: str | None = None


_UNFIT = (
    msgspec.MsgspecError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError,
    RecursionError,
)  # fmt: skip
"""The exceptions that decoding damaged bytes can raise; bytes that are not UTF-8 raise ValueError.
"""


class NewerForm(InvalidValue):
    """Error for a stored form that only a newer version of this code reads."""


_encode = msgspec.json.Encoder().encode
_decode_head = msgspec.json.Decoder(_Head).decode


def encode_record(record: Record) -> bytes:
    """A whole Record, as JSON text."""
    task = record.task
    head = _Head(
        v=record.version,
        i={
            "schema": record.needs_schema,
            "id": task.id,
            "summary": task.summary,
            "instructions": task.instructions,
            "runtime_kind": task.runtime_kind,
            "agent_name": task.agent_name,
            "metadata": {k: m for k, m in task.metadata.items() if k not in task.noted},
            "created_at": stamp(task.created_at),
        },
        st=task.status.value,
        inbox=list(record.inbox) if record.inbox else msgspec.UNSET,  # type: ignore[arg-type]
        owner=record.owner,
        step=record.step,
        tries=record.attempts,
        due=stamp(record.due_at),
        parent=record.parent,
        notes={key: task.metadata[key] for key in sorted(task.noted)},
        sup=list(task.supplements),
        start=stamp(task.started_at),
        end=stamp(task.ended_at),
        realm=record.realm,
        form=record.form or None,
    )
    if record.state is not None:
        head.state = msgspec.Raw(record.state)
    if record.terms is not None:
        head.terms = msgspec.Raw(record.terms)
    _put_outcome(head, task)
    return _encode(head)


def decode_record(text: bytes) -> Record:
    """Decode a whole Record from its stored form.

    Raises:
        NewerForm: A newer version of this code wrote it.
        InvalidValue: The text is damaged, or not a whole record.
    """
    head = _head("record", text)
    if head.i is None:
        raise InvalidValue("record", "has no input; it is a change, not a whole record")
    schema = head.i.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise NewerForm(
            "record.schema",
            f"is {schema}, and this version reads 1 to {SCHEMA}; upgrade agentic-kernel-engine",
        )
    if schema not in range(1, SCHEMA + 1):
        raise InvalidValue("record.schema", f"is {edges.came(schema)}; use 1 to {SCHEMA}")
    try:
        return _record(head, head.i)
    except InvalidValue:
        raise
    except KeyError as error:
        raise InvalidValue("record", f"lacks the field {error}") from None
    except _UNFIT as error:
        raise InvalidValue("record", f"is damaged: {error}") from None


def _record(head: _Head, given: Mapping[str, Any]) -> Record:
    task = Task(
        id=given["id"],
        summary=given["summary"],
        instructions=given["instructions"],
        runtime_kind=given["runtime_kind"],
        agent_name=given["agent_name"],
        metadata={**given["metadata"], **(head.notes or {})},
        noted=frozenset(head.notes or ()),
        status=TaskStatus(head.st),
        result=None if head.res is msgspec.UNSET else head.res,
        failure=None if head.fail is None else failure_from_dict(head.fail),
        supplements=head.sup or [],
        created_at=moments.stored("record.created_at", given["created_at"]),
        started_at=None if head.start is None else moments.stored("record.start", head.start),
        ended_at=None if head.end is None else moments.stored("record.end", head.end),
    )
    return Record(
        task=task,
        version=head.v,
        state=None if head.state is msgspec.UNSET else bytes(head.state),
        inbox=() if head.inbox is msgspec.UNSET else tuple(head.inbox),
        owner=None if head.owner is msgspec.UNSET else head.owner,
        step=head.step or 0,
        attempts=head.tries or 0,
        due_at=_due(head.due),
        parent=head.parent,
        terms=None if head.terms is msgspec.UNSET else bytes(head.terms),
        realm=head.realm,
        form=head.form or "",
    )


def buried(task_id: str, version: int, at: datetime) -> Record:
    """The record that `Store.bury` puts in the place of one that cannot be read.

    Except for the id, the version and the moment it is constant: a ``cancelled`` Task without
    other facts.
    """
    note = {"engine/unreadable": "the record could not be read and was buried"}
    task = Task(
        id=task_id,
        summary="unreadable",
        instructions="",
        runtime_kind="unreadable",
        metadata=note,
        noted=frozenset(note),
        status=TaskStatus.CANCELLED,
        created_at=at,
        started_at=at,
        ended_at=at,
    )
    return Record(task, version)


def unreadable(task_id: str, version: int, fault: InvalidValue, *texts: bytes) -> Unreadable:
    """The error of a store for a record that `decode_record` or `decode_change` refused.

    Args:
        texts: The stored whole record, then its changes, oldest first. The error carries the
            latest status that is still legible in them.
    """
    status: TaskStatus | None = None
    for text in texts:
        with suppress(ValueError):
            status = TaskStatus(_legible(text, "st"))
    newer = isinstance(fault, NewerForm)
    return Unreadable(task_id, version, status, newer=newer, why=f"{fault.path} {fault.reason}")


def owner_in(*texts: bytes) -> str | None:
    """The owner of an unreadable record if it is still legible and there is one; else None."""
    owner: Any = None
    for text in texts:
        owner = _legible(text, "owner", owner)
    return owner if isinstance(owner, str) else None


def _legible(text: bytes, name: str, default: Any = None) -> Any:
    try:
        fields = values.decode(text)
    except _UNFIT:
        return default
    return fields.get(name, default) if isinstance(fields, dict) else default


def _head(path: str, text: bytes) -> _Head:
    try:
        return _decode_head(text)
    except _UNFIT as error:
        raise InvalidValue(path, f"is damaged: {error}") from None


def encode_change(before: Record, after: Record) -> bytes:
    """The change that one commit made, as JSON text: the bytes that a log appends for it."""
    old, new = before.task, after.task
    head = _Head(v=after.version)
    if after.state != before.state:
        head.state = msgspec.Raw(b"null" if after.state is None else after.state)
    if after.inbox is not before.inbox and not _same_inbox(before.inbox, after.inbox):
        head.inbox = list(after.inbox)  # type: ignore[arg-type]
    if after.owner != before.owner:
        head.owner = after.owner
    if after.step != before.step:
        head.step = after.step
    if after.attempts != before.attempts:
        head.tries = after.attempts
    if after.due_at != before.due_at:
        head.due = stamp(after.due_at)
    if after.form != before.form:
        head.form = after.form
    if new is not old:
        if new.status is not old.status:
            head.st = new.status.value
            _put_outcome(head, new)
        if new.metadata is not old.metadata:
            head.notes = {
                key: new.metadata[key]
                for key in new.noted
                if key not in old.metadata or not same(new.metadata[key], old.metadata[key])
            }
        if len(new.supplements) > len(old.supplements):
            head.sup = list(new.supplements[len(old.supplements) :])
        if new.started_at != old.started_at:
            head.start = stamp(new.started_at)
        head.end = stamp(new.ended_at)
    return _encode(head)


def decode_change(before: Record, text: bytes) -> Record:
    """Decode a change, and return the Record after it.

    Raises:
        InvalidValue: The text is damaged, or is not the next change of this record.
    """
    head = _head("change", text)
    if head.v != before.version + 1:
        raise InvalidValue("change", f"leads to version {head.v} and not {before.version + 1}")
    try:
        return _changed(before, head)
    except InvalidValue:
        raise
    except _UNFIT as error:
        raise InvalidValue("change", f"is damaged: {error}") from None


def _changed(before: Record, head: _Head) -> Record:
    task = before.task
    if head.st is not None or head.notes or head.sup or head.start or head.end:
        task = Task(
            id=task.id,
            summary=task.summary,
            instructions=task.instructions,
            runtime_kind=task.runtime_kind,
            agent_name=task.agent_name,
            metadata={**task.metadata, **head.notes} if head.notes else task.metadata,
            noted=task.noted.union(head.notes or ()),
            status=task.status if head.st is None else TaskStatus(head.st),
            result=None if head.res is msgspec.UNSET else head.res,
            failure=None if head.fail is None else failure_from_dict(head.fail),
            supplements=[*task.supplements, *head.sup] if head.sup else task.supplements,
            created_at=task.created_at,
            started_at=_later("change.start", head.start, task.started_at),
            ended_at=_later("change.end", head.end, task.ended_at),
        )
    unset = msgspec.UNSET
    return Record(
        task=task,
        version=head.v,
        state=before.state if head.state is unset else _raw_state(bytes(head.state)),
        inbox=before.inbox if head.inbox is unset else tuple(head.inbox),
        owner=before.owner if head.owner is unset else head.owner,
        step=before.step if head.step is None else head.step,
        attempts=before.attempts if head.tries is None else head.tries,
        due_at=before.due_at if head.due is unset else _due(head.due),
        parent=before.parent,
        terms=before.terms,
        realm=before.realm,
        form=before.form if head.form is None else head.form,
    )


def _later(name: str, text: str | None, before: datetime | None) -> datetime | None:
    return moments.stored(name, text) if text else before


def _same_inbox(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(map(same, freeze(list(one)), freeze(list(other))))


def _raw_state(text: bytes) -> bytes | None:
    return None if text == b"null" else text


def _put_outcome(head: _Head, task: Task) -> None:
    if task.status is TaskStatus.SUCCESS:
        head.res = task.result
    if task.failure is not None:
        head.fail = failure_to_dict(task.failure)


def _due(text: Any) -> datetime | None:
    return None if text is None or text is msgspec.UNSET else moments.stored("due", text)
