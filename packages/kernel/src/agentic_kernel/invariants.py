"""The Concurrency Contract as predicates on one snapshot (`check`) and on two (`follows`)."""

from __future__ import annotations

from .errors import InvalidTask
from .task import Task, TaskStatus, check_fields

_REACHABLE = {
    TaskStatus.NOT_STARTED: frozenset(TaskStatus),
    TaskStatus.RUNNING: frozenset(TaskStatus) - {TaskStatus.NOT_STARTED},
    TaskStatus.PAUSED: frozenset(TaskStatus) - {TaskStatus.NOT_STARTED},
}


def check(task: Task) -> None:
    """Check that a snapshot is legal (rule 3: a reader never sees a torn Task).

    Raises:
        InvalidTask: A field invariant does not hold; the message names the field.
    """
    if not isinstance(task, Task):
        raise InvalidTask("task", f"must be a Task, not {type(task).__name__}")
    check_fields(task)


def follows(earlier: Task, later: Task) -> bool:
    """True if one observer may see ``later`` after ``earlier`` (rule 7: no Task runs backwards).

    Zero or more steps may lie between them: the relation is reflexive and transitive. Both must be
    legal snapshots; see `check`.
    """
    if earlier is later or earlier == later:
        return True
    if earlier.status.terminal:
        return False
    return (
        later.status in _REACHABLE[earlier.status]
        and _same_input(earlier, later)
        and (earlier.started_at is None or earlier.started_at == later.started_at)
        and list(later.supplements[: len(earlier.supplements)]) == list(earlier.supplements)
        and _stamps_follow(earlier, later)
        and _supplements_explained(earlier, later)
    )


def _same_input(earlier: Task, later: Task) -> bool:
    if not earlier.noted <= later.noted or not earlier.metadata.keys() <= later.metadata.keys():
        return False
    given = earlier.metadata.keys() - earlier.noted
    return (
        earlier.id == later.id
        and earlier.summary == later.summary
        and earlier.instructions == later.instructions
        and earlier.runtime_kind == later.runtime_kind
        and earlier.agent_name == later.agent_name
        and earlier.created_at == later.created_at
        and given == later.metadata.keys() - later.noted
        and all(earlier.metadata[key] == later.metadata[key] for key in given)
    )


def _stamps_follow(earlier: Task, later: Task) -> bool:
    latest = earlier.started_at or earlier.created_at
    return all(
        stamp is None or stamp >= latest
        for stamp in (
            later.started_at if earlier.started_at is None else None,
            later.ended_at,
        )
    )


def _supplements_explained(earlier: Task, later: Task) -> bool:
    """True if no supplement is new, or the Task has started: only a resume adds supplements."""
    return later.started_at is not None or len(later.supplements) == len(earlier.supplements)
