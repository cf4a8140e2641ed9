"""Records to store, each version of a Task with content of its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from agentic_kernel import Complete, Dispatch, Pause, Task, apply
from agentic_kernel_engine import Record

AT = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
LATER = AT + timedelta(hours=1)


def running(
    task_id: str | None = None,
    *,
    owner: str | None = None,
    kind: str = "test",
    parent: str | None = None,
    instructions: str = "go",
) -> Record:
    """A dispatched Task at version 1."""
    task = Task.new(
        id=task_id, summary="a task", instructions=instructions, runtime_kind=kind, at=AT
    )
    return Record(apply(task, Dispatch(), AT), owner=owner, parent=parent)


def step(before: Record) -> Record:
    """The Task after one more commit of its owner."""
    version = before.version + 1
    return before.changed(
        version=version, state=b'{"n":%d}' % version, step=before.step + 1, attempts=0
    )


def paused(before: Record, due_at: datetime | None = None) -> Record:
    """The Task after a pause."""
    task = apply(before.task, Pause(), LATER)
    return before.changed(task=task, version=before.version + 1, owner=None, due_at=due_at)


def ended(before: Record, at: datetime = LATER) -> Record:
    """The Task after its end."""
    task = apply(before.task, Complete({"n": before.version}), at)
    return before.changed(task=task, version=before.version + 1, owner=None)


def events(record: Record) -> list[bytes]:
    """The two events of the commit that led to a record."""
    return [b'{"version":%d,"index":%d}' % (record.version, index) for index in range(2)]


def all_events(version: int) -> list[tuple[tuple[int, int], bytes]]:
    """Every event of a Task, when each commit up to a version wrote those of `events`."""
    return [
        ((n, index), b'{"version":%d,"index":%d}' % (n, index))
        for n in range(1, version + 1)
        for index in range(2)
    ]
