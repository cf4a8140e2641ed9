"""Test records, and a comparison that names the field that differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from agentic_kernel import (
    Complete,
    Dispatch,
    Fail,
    Failure,
    Kill,
    Mutation,
    Pause,
    Task,
    TaskStatus,
    apply,
)
from agentic_kernel_engine import Record
from agentic_kernel_engine.record import owner_name

from .rules import expect

HOST = "host-a"
"""The host that owns the records of `owned`."""
KIND = "conformance"
"""The runtime kind of the Tasks made here."""
AT = datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC)
"""A time with microseconds, which a store must not lose."""

ENDS: dict[TaskStatus, Mutation] = {
    TaskStatus.SUCCESS: Complete({"answer": [1, None]}),
    TaskStatus.FAILURE: Fail(Failure("conformance/fault", "as made", {"retry_after_ms": 7})),
    TaskStatus.CANCELLED: Kill(),
}
"""The mutation that ends a Task, by the status of the end."""


def running(
    task_id: str | None = None,
    kind: str = KIND,
    given: Mapping[str, Any] | None = None,
    **others: Any,
) -> Record:
    """Return a record of a running Task without an owner.

    Args:
        given: More metadata of the Task.
        others: Fields of the record.
    """
    task = Task.new(
        id=task_id,
        summary="a title",
        instructions="what to do",
        runtime_kind=kind,
        agent_name="acme/agent",
        metadata={"acme/given": {"deep": [1, {"er": None}]}, **(given or {})},
        at=AT,
    )
    return Record(apply(task, Dispatch(notes={"host/note": ["first"]}), AT), **others)


def owned(task_id: str | None = None, host: str = HOST, **others: Any) -> Record:
    """Return a record of a running Task that ``host`` has owned since its insertion."""
    return running(task_id, owner=owner_name(host, 1), **others)


def after(before: Record, mutation: Mutation | None = None, **others: Any) -> Record:
    """Return the next version of a record, with the Task mutated and these fields changed."""
    task = before.task if mutation is None else apply(before.task, mutation, datetime.now(UTC))
    return before.changed(task=task, version=before.version + 1, **others)


def ended(before: Record, status: TaskStatus) -> Record:
    """Return the next version of a record, with the Task ended and no owner."""
    return after(before, ENDS[status], owner=None)


def paused(before: Record, due_at: datetime | None = None) -> Record:
    """Return the next version of a record, with the Task paused and no owner."""
    return after(before, Pause(), owner=None, due_at=due_at)


def expect_same(rule: str, stored: Record, wanted: Record) -> None:
    """Report ``rule`` as broken unless the records are equal, field by field."""
    for name in Record.__struct_fields__:
        if name != "task":
            _expect_field(rule, name, getattr(stored, name), getattr(wanted, name))
    for field in fields(Task):
        given, found = getattr(wanted.task, field.name), getattr(stored.task, field.name)
        _expect_field(rule, f"task.{field.name}", found, given)


def _expect_field(rule: str, name: str, found: Any, given: Any) -> None:
    if found != given:
        seen = f"{name} is {ascii(found)[:300]} and not {ascii(given)[:300]}"
        expect(False, rule, seen)


def ids_of(records: Iterable[Record]) -> list[str]:
    """Return the ids of the records, in the order given."""
    return [record.task.id for record in records]
