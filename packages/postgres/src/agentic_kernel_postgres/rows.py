"""Rows: a Record as an input, which never changes, and a head, which each commit replaces (R16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from agentic_kernel import InvalidValue, Task, TaskStatus
from agentic_kernel_engine.errors import Unreadable
from agentic_kernel_engine.record import Record
from agentic_kernel_engine.stored import (
    NewerForm,
    decode_change,
    decode_record,
    encode_change,
    encode_record,
)

COLUMNS: Final = """t.id, h.version, h.status, h.owner, h.attempts, h.head, t.input,
    CASE WHEN h.supplements > 0
    THEN ARRAY(SELECT s.text FROM {schema}.supplements AS s WHERE s.task = h.key ORDER BY s.place)
    END"""
"""The columns that `from_row` reads, of ``heads`` as ``h`` and ``tasks`` as ``t``."""

OWNER: Final = 3
"""The index of the owner in such a row."""
_STATUSES: Final = {status.value: status for status in TaskStatus}

_INPUT: Final = Record(
    Task.new(
        id="any",
        summary="",
        instructions="",
        runtime_kind="any",
        at=datetime(1970, 1, 1, tzinfo=UTC),
    )
)
"""A placeholder for the input of any Task, because the encoded change does not depend on it."""


def input_of(record: Record) -> bytes:
    """The Task as it was inserted, with its parent, terms and realm, as bytes."""
    task = record.task
    given = Task(
        id=task.id,
        summary=task.summary,
        instructions=task.instructions,
        runtime_kind=task.runtime_kind,
        agent_name=task.agent_name,
        metadata={key: value for key, value in task.metadata.items() if key not in task.noted},
        created_at=task.created_at,
    )
    return encode_record(
        Record(given, parent=record.parent, terms=record.terms, realm=record.realm)
    )


def head_of(record: Record) -> bytes:
    """The parts of a record that change, as bytes, without supplements and fields with a column."""
    task = record.task
    if task.supplements:
        task = replace(task, supplements=())
    return encode_change(_INPUT, record.changed(task=task, version=2, owner=None, attempts=0))


def from_row(row: Sequence[Any]) -> Record:
    """The Record of a row of `COLUMNS`.

    Raises:
        Unreadable: The row is damaged, or a newer version wrote it.
    """
    task_id, version, status, owner, attempts, head, given, supplements = row[:8]
    try:
        record = decode_change(decode_record(given), head)
        task = record.task
        if supplements:
            task = replace(task, supplements=supplements)
        # Writes and listings use the columns, so a column that differs from the record is damage.
        if (task.id, task.status.value) != (task_id, status):
            said = f"{ascii(task_id)[:60]}, {ascii(status)[:60]}"
            raise InvalidValue("record", f"is of another id or status than its row: {said}")
        if version < 1:
            raise InvalidValue("record.version", f"is {version}; it starts at 1")
    except InvalidValue as fault:
        newer, why = isinstance(fault, NewerForm), f"{fault.path} {fault.reason}"
        found = _STATUSES.get(status)
        raise Unreadable(task_id, version, found, newer=newer, why=why) from None
    return record.changed(task=task, version=version, owner=owner, attempts=attempts)
