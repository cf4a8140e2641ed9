"""Records to store, and what a test asks about them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from agentic_kernel import Complete, Dispatch, Pause, Resume, Task, apply
from agentic_kernel_engine import Record

AT = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
LATER = AT + timedelta(hours=1)


def running(task_id: str | None = None, **others: Any) -> Record:
    """A dispatched Task at version 1; ``others`` are fields of the record."""
    task = Task.new(id=task_id, summary="a task", instructions="go", runtime_kind="test", at=AT)
    return Record(apply(task, Dispatch(), AT), **others)


def step(before: Record) -> Record:
    """The Task after one more commit of its owner."""
    version = before.version + 1
    return before.changed(version=version, state=b'{"n":%d}' % version, step=before.step + 1)


def paused(before: Record) -> Record:
    """The Task after a pause."""
    task = apply(before.task, Pause(), LATER)
    return before.changed(task=task, version=before.version + 1, owner=None)


def resumed(before: Record, extra: str) -> Record:
    """The Task after a resume that nobody took up."""
    task = apply(before.task, Resume(extra), LATER)
    return before.changed(task=task, version=before.version + 1)


def ended(before: Record, at: datetime = LATER) -> Record:
    """The Task after its end."""
    task = apply(before.task, Complete({"n": before.version}), at)
    return before.changed(task=task, version=before.version + 1, owner=None)


def event(record: Record) -> bytes:
    """The event of the commit that led to a record."""
    return b'{"version":%d}' % record.version


def all_events(version: int) -> list[tuple[tuple[int, int], bytes]]:
    """Every event of a Task, when each commit up to a version wrote that of `event`."""
    return [((n, 0), b'{"version":%d}' % n) for n in range(1, version + 1)]
