"""The Task: the only aggregate root, and the invariants that its fields keep in every snapshot.

    field        present when
    result       status is success (``None`` is a result: the status decides, not the value)
    failure      status is failure
    started_at   the Task has been running at least once
    ended_at     status is terminal
    supplements  (an entry) the Task has started, because only a resume adds one

Stamps are timezone-aware, in UTC, and in order: created_at <= started_at <= ended_at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from .catalog import check_form, check_name, freeze_mapping, plain_text
from .errors import InvalidTask, InvalidValue
from .frozen import EMPTY_DICT, EMPTY_LIST, FrozenDict, FrozenList, freeze, shown
from .ids import new_id

UTC = UTC


class TaskStatus(str, Enum):
    """The six states of a Task. The last three are terminal: the Task never changes again."""

    NOT_STARTED = "not_started"
    RUNNING = "running"
    PAUSED = "paused"
    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"

    __hash__ = str.__hash__
    __str__ = str.__str__

    @property
    def terminal(self) -> bool:
        """True if no transition leaves this status."""
        return self in _TERMINAL


_TERMINAL = frozenset({TaskStatus.SUCCESS, TaskStatus.FAILURE, TaskStatus.CANCELLED})
_TEXTS = ("id", "summary", "instructions", "runtime_kind", "agent_name")
_STAMPS = ("created_at", "started_at", "ended_at")


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a Task failed: a value on the Task, never an exception at the caller.

    The layers above the kernel decide on a retry, from ``code``.

    Raises:
        InvalidValue: ``code`` or ``message`` is empty or not a string, or the metadata cannot
            be frozen.
    """

    code: str
    """For programs. The implementation defines it, by convention as ``<impl>/<code>``."""
    message: str
    """For people and logs."""
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY_DICT)
    """Details that the kernel never interprets (``retry_after_ms``, ``cause``, …)."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "code", _text(self.code, "Failure.code", empty=False))
        put(self, "message", _text(self.message, "Failure.message", empty=False))
        put(self, "metadata", freeze_mapping(self.metadata, "Failure.metadata"))

    def __hash__(self) -> int:
        return hash((self.code, self.message))


@dataclass(frozen=True, slots=True)
class Task:
    """A unit of work: its instructions, its result, and every fact an observer may ask for.

    Each object is a snapshot. It is immutable to any depth and shares no mutable value with its
    caller. `Task.new` makes a Task; `agentic_kernel.apply` and `agentic_kernel.annotate` make its
    next snapshots. The constructor rebuilds a stored snapshot from its fields. It refuses fields
    that no sequence of mutations produces.

    Raises:
        InvalidTask: The fields contradict each other or have the wrong type.
    """

    id: str
    """Opaque, non-empty and unique. After dispatch the id is the only handle."""
    summary: str
    """A short title for catalogs and people; may be empty."""
    instructions: str
    """The input, free-form; may be empty."""
    runtime_kind: str
    """The name of the Runtime implementation; the kernel keeps no list of kinds."""
    agent_name: str | None = None
    """Optional binding to an Agent of the catalog, ``<scope>/<name>``."""
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY_DICT)
    """Input, fixed when the Task is made, and the notes that implementations add."""
    status: TaskStatus = TaskStatus.NOT_STARTED
    """The place in the state machine; only `agentic_kernel.apply` moves it."""
    result: Any = None
    """Meaningful if and only if ``status`` is ``success``."""
    failure: Failure | None = None
    """Set if and only if ``status`` is ``failure``."""
    supplements: Sequence[str] = field(default_factory=lambda: EMPTY_LIST)
    """The extras, in order: one entry for each ``resume`` that took effect and carried one."""
    created_at: datetime = field(kw_only=True)
    """The time of creation; the later stamps are not earlier than it."""
    started_at: datetime | None = None
    """The time of the dispatch; None if the Task never ran."""
    ended_at: datetime | None = None
    """The time at which the Task became terminal; None before."""
    noted: frozenset[str] = frozenset()
    """The keys of ``metadata`` that are notes. The other keys are input and never change."""

    @classmethod
    def new(
        cls,
        *,
        summary: str,
        instructions: str,
        runtime_kind: str,
        agent_name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        id: str | None = None,
        at: datetime | None = None,
    ) -> Task:
        """Return a Task that has not started.

        Args:
            id: The id; None issues a time-ordered UUID. Ids issued in one process strictly
                increase; no rule depends on their order.
            at: The time of creation; None reads the clock.

        Raises:
            InvalidTask: A field has the wrong type or form; the message names it.
        """
        if agent_name is not None:
            try:
                check_name(agent_name, "Task.agent_name")
            except InvalidValue as error:
                raise InvalidTask(error.path, error.reason) from None
        return cls(
            id=new_id() if id is None else id,
            summary=summary,
            instructions=instructions,
            runtime_kind=runtime_kind,
            agent_name=agent_name,
            metadata=EMPTY_DICT if metadata is None else metadata,
            created_at=datetime.now(UTC) if at is None else at,
        )

    def __post_init__(self) -> None:
        put = object.__setattr__
        try:
            # Most Tasks need none of these loops (10,000 runs at once, in benchmarks/loop.py).
            if self.agent_name is not None or not (
                type(self.id) is type(self.summary) is str
                and type(self.instructions) is type(self.runtime_kind) is str
            ):
                for name in _TEXTS:
                    value = getattr(self, name)
                    if type(value) is not str and (name != "agent_name" or value is not None):
                        put(self, name, plain_text(value, f"Task.{name}"))
            if type(self.metadata) is not FrozenDict:
                put(self, "metadata", freeze_mapping(self.metadata, "Task.metadata"))
            if self.result is not None:
                put(self, "result", freeze(self.result, "Task.result"))
            if type(self.supplements) is not FrozenList:
                put(self, "supplements", _supplements(self.supplements))
            if type(self.noted) is not frozenset:
                put(self, "noted", _noted(self.noted))
            if type(self.status) is not TaskStatus:
                put(self, "status", _status(self.status))
            if self.started_at is not None or self.ended_at is not None or not _in_utc(self):
                for name in _STAMPS:
                    stamp = getattr(self, name)
                    if stamp is not None or name == "created_at":
                        put(self, name, to_utc(stamp, f"Task.{name}"))
            check_fields(self)
        except InvalidTask:
            raise
        except InvalidValue as error:
            raise InvalidTask(error.path, error.reason) from None

    def __hash__(self) -> int:
        return hash(self.id)


def check_fields(task: Task) -> None:
    """Check the field invariants of one snapshot.

    Raises:
        InvalidTask: An invariant does not hold; the message names the field and the rule.
    """
    try:
        _check_input(task)
    except InvalidTask:
        raise
    except InvalidValue as error:
        raise InvalidTask(error.path, error.reason) from None
    status = task.status
    if type(status) is not TaskStatus:
        raise InvalidTask("Task.status", "must be a TaskStatus")
    if task.result is not None and status is not TaskStatus.SUCCESS:
        raise InvalidTask("Task.result", f"is set although the status is {status}")
    if task.failure is not None and not isinstance(task.failure, Failure):
        raise InvalidTask("Task.failure", "must be a Failure")
    if (task.failure is not None) != (status is TaskStatus.FAILURE):
        raise InvalidTask(
            "Task.failure", f"must be set if and only if the status is failure; it is {status}"
        )
    _check_stamps(task)
    if task.started_at is None and task.supplements:
        raise InvalidTask("Task.supplements", "are set although the Task never ran")


def _check_input(task: Task) -> None:
    _text(task.id, "Task.id", empty=False)
    _text(task.summary, "Task.summary", empty=True)
    _text(task.instructions, "Task.instructions", empty=True)
    _text(task.runtime_kind, "Task.runtime_kind", empty=False)
    if task.agent_name is not None:
        check_form(task.agent_name, "Task.agent_name")
    if type(task.metadata) is not FrozenDict and not isinstance(task.metadata, Mapping):
        raise InvalidTask("Task.metadata", "must be a mapping")
    for key in task.noted:
        check_form(key, "Task.noted")
        if key not in task.metadata:
            raise InvalidTask("Task.noted", f"names {shown(key)}, which is not in the metadata")
    if type(task.supplements) is not FrozenList and (
        isinstance(task.supplements, str) or not isinstance(task.supplements, Sequence)
    ):
        raise InvalidTask("Task.supplements", "must be a list of strings")
    for index, extra in enumerate(task.supplements):
        _text(extra, f"Task.supplements[{index}]", empty=True)


def _check_stamps(task: Task) -> None:
    status, started, ended = task.status, task.started_at, task.ended_at
    if started is None and ended is None and status is TaskStatus.NOT_STARTED and _in_utc(task):
        return  # Nothing else can be wrong with a new Task.
    for name in _STAMPS:
        stamp = getattr(task, name)
        if stamp is None and name != "created_at":
            continue
        if not isinstance(stamp, datetime) or stamp.utcoffset() is None:
            raise InvalidTask(f"Task.{name}", "must be a timezone-aware datetime")
    if started is None and status not in (TaskStatus.NOT_STARTED, TaskStatus.CANCELLED):
        raise InvalidTask("Task.started_at", f"is missing although the status is {status}")
    if started is not None and status is TaskStatus.NOT_STARTED:
        raise InvalidTask("Task.started_at", "is set although the Task has not started")
    if (ended is not None) != status.terminal:
        raise InvalidTask(
            "Task.ended_at", f"must be set if and only if the status is terminal; it is {status}"
        )
    latest = task.created_at
    for name, stamp in (("started_at", started), ("ended_at", ended)):
        if stamp is not None:
            if stamp < latest:
                raise InvalidTask(f"Task.{name}", "lies before an earlier stamp of the same Task")
            latest = stamp


def _in_utc(task: Task) -> bool:
    """True if the creation is surely a moment in UTC."""
    created = task.created_at
    return type(created) is datetime and created.tzinfo is UTC


def to_utc(at: Any, path: str) -> datetime:
    """Return the same moment in UTC.

    Raises:
        InvalidValue: ``at`` is not a datetime, is naive, is out of range in UTC, or its timezone
            raises.
    """
    if not isinstance(at, datetime):
        raise InvalidValue(path, f"must be a datetime, not {type(at).__name__}")
    if at.tzinfo is UTC:
        return at
    try:
        if at.utcoffset() is None:
            raise InvalidValue(
                path, "is naive; attach a timezone, as in datetime.now(timezone.utc)"
            )
        return at.astimezone(UTC)
    except OverflowError:
        raise InvalidValue(path, "is out of range once converted to UTC") from None
    except InvalidValue:
        raise
    except Exception as error:  # the caller's tzinfo may raise anything
        raise InvalidValue(
            path, f"has a timezone that fails with a {type(error).__name__}; use datetime.timezone"
        ) from error


def _text(value: Any, path: str, *, empty: bool) -> str:
    if type(value) is str and (value or empty):
        return value
    if not value and isinstance(value, str) and not empty:
        raise InvalidValue(path, "must not be empty")
    return plain_text(value, path)


def _status(value: Any) -> TaskStatus:
    try:
        return TaskStatus(value)
    except ValueError:
        known = ", ".join(TaskStatus)
        raise InvalidTask("Task.status", f"{shown(value)} is not one of {known}") from None


def _supplements(value: Any) -> FrozenList:
    if value is None:
        return EMPTY_LIST
    if type(value) is FrozenList:
        return value
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidTask("Task.supplements", "must be a list of strings")
    frozen: FrozenList = freeze(value, "Task.supplements")
    return frozen


def _noted(value: Any) -> frozenset[str]:
    if not isinstance(value, (set, frozenset, list, tuple)):
        raise InvalidTask(
            "Task.noted", f"must be a set of metadata keys, not {type(value).__name__}"
        )
    try:
        return frozenset(value)
    except TypeError:
        raise InvalidTask("Task.noted", "must be a set of metadata keys") from None
