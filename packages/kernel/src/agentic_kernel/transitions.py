"""The state machine of a Task: six mutations, one table, one pure function.

The table has a cell for every mutation in every status. A cell holds the next status, `NO_OP` (the
Task does not change, and `apply` returns the same object), or `ILLEGAL` (`apply` raises, and the
Task does not change). No cell leads out of a terminal status.

The table states the status alone. `apply` writes the other fields:

    Dispatch         started_at
    Resume           supplements, if it has an extra
    Kill             ended_at
    Complete         result, ended_at
    Fail             failure, ended_at
    every mutation   metadata and noted, if it has notes

`annotate` writes notes without a mutation. No other function of the kernel makes the next snapshot
of a Task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, NoReturn

from .catalog import check_name, freeze_mapping, plain_text
from .errors import IllegalTransition, InvalidValue
from .frozen import FrozenDict, FrozenList, freeze, same, shown
from .task import Failure, Task, TaskStatus, to_utc


class Mutation:
    """One of the six mutations: `Dispatch`, `Pause`, `Resume`, `Kill`, `Complete`, `Fail`.

    The set is closed (Concurrency Contract, rule 1): `apply` refuses any other class. A mutation
    is an immutable value. It equals another mutation of its class with the same payload and notes.

    Args:
        notes: Notes that the implementation adds to the Task in the same transition; see
            `annotate`.
    """

    # Not dataclasses: creating seven dataclasses would take longer than the import of the rest of
    # the kernel (figure "import of the kernel" in benchmarks/kernel.py).
    __slots__ = ("notes",)
    __match_args__: ClassVar[tuple[str, ...]] = ()
    verb: ClassVar[str] = ""
    notes: Mapping[str, Any] | None

    def __init__(self, *, notes: Mapping[str, Any] | None = None) -> None:
        _put(self, "notes", None if notes is None else freeze_mapping(notes, "notes"))

    def _payload(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__match_args__)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable; make a new one")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is immutable; make a new one")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mutation) or type(other) is not type(self):
            return NotImplemented
        return self._payload() == other._payload() and self.notes == other.notes

    def __hash__(self) -> int:
        return hash(self.verb)

    def __repr__(self) -> str:
        parts = [repr(value) for value in self._payload()]
        if self.notes is not None:
            parts.append(f"notes={self.notes!r}")
        return f"{type(self).__name__}({', '.join(parts)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self._payload(), self.notes)


def _rebuilt(kind: Any, payload: tuple[Any, ...], notes: Mapping[str, Any] | None) -> Mutation:
    mutation: Mutation = kind(*payload, notes=notes)
    return mutation


_put = object.__setattr__


class Dispatch(Mutation):
    """Start the Task: ``not_started`` → ``running``; sets ``started_at``."""

    __slots__ = ()
    verb = "dispatch"


class Pause(Mutation):
    """Suspend the Task: ``running`` → ``paused``."""

    __slots__ = ()
    verb = "pause"


class Resume(Mutation):
    """Let the Task go on: ``paused`` → ``running``; appends an extra in the same step.

    ``extra=None`` is no extra; ``""`` is an extra. On a Task that is not paused it is a no-op:
    the extra is dropped.

    Raises:
        InvalidValue: The extra is not a string.
    """

    __slots__ = ("extra",)
    __match_args__ = ("extra",)
    verb = "resume"
    extra: str | None

    def __init__(self, extra: str | None = None, *, notes: Mapping[str, Any] | None = None) -> None:
        super().__init__(notes=notes)
        if extra is not None and not isinstance(extra, str):
            raise InvalidValue("extra", f"must be a string or None, not a {type(extra).__name__}")
        _put(self, "extra", None if extra is None else plain_text(extra, "extra"))


class Kill(Mutation):
    """End the Task from any state that is not terminal: → ``cancelled``, without a Failure."""

    __slots__ = ()
    verb = "kill"


class Complete(Mutation):
    """End the Task well: ``running`` → ``success``; ``None`` is a result.

    Raises:
        InvalidValue: The result cannot be frozen; the error names the path of the refused part.
    """

    __slots__ = ("result",)
    __match_args__ = ("result",)
    verb = "complete"
    result: Any

    def __init__(self, result: Any, *, notes: Mapping[str, Any] | None = None) -> None:
        super().__init__(notes=notes)
        _put(self, "result", freeze(result, "result"))


class Fail(Mutation):
    """End the Task badly: ``running`` → ``failure``.

    Raises:
        InvalidValue: The argument is not a `Failure`.
    """

    __slots__ = ("failure",)
    __match_args__ = ("failure",)
    verb = "fail"
    failure: Failure

    def __init__(self, failure: Failure, *, notes: Mapping[str, Any] | None = None) -> None:
        super().__init__(notes=notes)
        if not isinstance(failure, Failure):
            raise InvalidValue("failure", f"must be a Failure, not {type(failure).__name__}")
        _put(self, "failure", failure)


NO_OP: Final = "no-op"
"""A cell's value: the Task does not change, and `apply` returns the same object."""
ILLEGAL: Final = "illegal"
"""A cell's value: `apply` raises `IllegalTransition`."""

_N, _R, _P = TaskStatus.NOT_STARTED, TaskStatus.RUNNING, TaskStatus.PAUSED
_S, _F, _C = TaskStatus.SUCCESS, TaskStatus.FAILURE, TaskStatus.CANCELLED

TABLE: Final[Mapping[type[Mutation], Mapping[TaskStatus, TaskStatus | str]]] = {
    Dispatch: {_N: _R, _R: ILLEGAL, _P: ILLEGAL, _S: ILLEGAL, _F: ILLEGAL, _C: ILLEGAL},
    Pause: {_N: ILLEGAL, _R: _P, _P: NO_OP, _S: NO_OP, _F: NO_OP, _C: NO_OP},
    Resume: {_N: NO_OP, _R: NO_OP, _P: _R, _S: NO_OP, _F: NO_OP, _C: NO_OP},
    Kill: {_N: _C, _R: _C, _P: _C, _S: NO_OP, _F: NO_OP, _C: NO_OP},
    Complete: {_N: ILLEGAL, _R: _S, _P: ILLEGAL, _S: NO_OP, _F: NO_OP, _C: NO_OP},
    Fail: {_N: ILLEGAL, _R: _F, _P: ILLEGAL, _S: NO_OP, _F: NO_OP, _C: NO_OP},
}
"""All thirty-six cells. The diagram and the table in docs/kernel.md are drawn from it."""


def apply(task: Task, mutation: Mutation, at: datetime) -> Task:
    """Return the Task after one mutation; a no-op returns the same object.

    The function is pure: it reads no clock and keeps no state. It does not check the fields again,
    because every transition from a legal snapshot leads to a legal one (the kernel's tests
    enumerate all of them).

    Args:
        at: The moment of the mutation: timezone-aware, converted to UTC. A stamp never runs
            backwards: it is the later of ``at`` and the Task's latest stamp.

    Raises:
        IllegalTransition: The table forbids the mutation; the Task is unchanged.
        InvalidValue: ``at`` is naive, a note replaces input, or the mutation is not one of the six.
    """
    kind = type(mutation)
    try:
        target = TABLE[kind][task.status]
    except KeyError:
        raise InvalidValue(
            "mutation",
            f"{kind.__name__} is not one of the six mutations; "
            "use Dispatch, Pause, Resume, Kill, Complete or Fail",
        ) from None
    except AttributeError:
        raise InvalidValue("task", f"must be a Task, not {type(task).__name__}") from None
    if at.__class__ is not datetime or at.tzinfo is not UTC:
        at = to_utc(at, "at")
    if target is NO_OP:
        return task
    if target is ILLEGAL:
        raise IllegalTransition(task.id, task.status, mutation.verb)

    metadata, noted = task.metadata, task.noted
    if mutation.notes:
        metadata, noted = _with_notes(task, mutation.notes)
    result, failure = None, None
    supplements, started_at, ended_at = task.supplements, task.started_at, None
    if kind is Dispatch:
        started_at = at if at > task.created_at else task.created_at
    elif isinstance(mutation, Resume):
        if mutation.extra is not None:
            supplements = _appended(supplements, mutation.extra)
    elif kind is not Pause:
        latest = task.created_at if started_at is None else started_at
        ended_at = at if at > latest else latest
        if isinstance(mutation, Complete):
            result = mutation.result
        elif isinstance(mutation, Fail):
            failure = mutation.failure
    return _successor(
        task, metadata, noted, target, result, failure, supplements, started_at, ended_at
    )


def annotate(task: Task, notes: Mapping[str, Any]) -> Task:
    """Return the Task with notes added or replaced; no transition, but serialised with them.

    A note's key carries the scope of its implementation (``<impl>/<name>``) and must not be a key
    of the Task's input. Notes are never removed. If the Task is terminal, or the notes are already
    there, the same object is returned.

    Raises:
        InvalidValue: A key is not scoped, belongs to the Task's input, or a value cannot be frozen.
    """
    if not isinstance(task, Task):
        raise InvalidValue("task", f"must be a Task, not {type(task).__name__}")
    frozen = freeze_mapping(notes, "notes")
    if task.status.terminal:
        return task
    if all(key in task.noted and same(task.metadata[key], frozen[key]) for key in frozen):
        return task
    metadata, noted = _with_notes(task, frozen)
    return _successor(
        task, metadata, noted, task.status, None, None,
        task.supplements, task.started_at, task.ended_at,
    )  # fmt: skip


def check_note(task: Task, key: str) -> None:
    """Check that a Task may get a note with this key.

    Raises:
        InvalidValue: The key is not scoped, or belongs to the Task's input.
    """
    if key in task.noted:
        return
    try:
        check_name(key, "notes")
    except InvalidValue as wrong:
        raise InvalidValue(f"notes[{shown(key)}]", wrong.reason) from None
    if key in task.metadata:
        raise InvalidValue(
            f"notes[{shown(key)}]", "came in with the Task and is fixed; use another key"
        )


def _with_notes(task: Task, notes: Mapping[str, Any]) -> tuple[Mapping[str, Any], frozenset[str]]:
    for key in notes:
        check_note(task, key)
    merged = dict.__new__(FrozenDict)
    dict.update(merged, task.metadata)
    dict.update(merged, notes)
    return merged, task.noted.union(notes)


def _appended(supplements: Sequence[str], extra: str) -> FrozenList:
    longer = list.__new__(FrozenList)
    list.extend(longer, supplements)
    list.append(longer, extra)
    return longer


_new = object.__new__
_SET = {name: getattr(Task, name).__set__ for name in Task.__slots__}
_set_id, _set_summary, _set_instructions = _SET["id"], _SET["summary"], _SET["instructions"]
_set_kind, _set_agent, _set_metadata = _SET["runtime_kind"], _SET["agent_name"], _SET["metadata"]
_set_status, _set_result, _set_failure = _SET["status"], _SET["result"], _SET["failure"]
_set_supplements, _set_created = _SET["supplements"], _SET["created_at"]
_set_started, _set_ended, _set_noted = _SET["started_at"], _SET["ended_at"], _SET["noted"]


def _successor(
    task: Task,
    metadata: Any,
    noted: Any,
    status: Any,
    result: Any,
    failure: Any,
    supplements: Any,
    started_at: Any,
    ended_at: Any,
) -> Task:
    """Return a Task with the same input and new facts, without the constructor's checks.

    Writing the slots directly takes a quarter of the time of the frozen constructor (figure
    "one `apply`" in benchmarks/kernel.py).
    """
    later = _new(Task)
    _set_id(later, task.id)
    _set_summary(later, task.summary)
    _set_instructions(later, task.instructions)
    _set_kind(later, task.runtime_kind)
    _set_agent(later, task.agent_name)
    _set_metadata(later, metadata)
    _set_status(later, status)
    _set_result(later, result)
    _set_failure(later, failure)
    _set_supplements(later, supplements)
    _set_created(later, task.created_at)
    _set_started(later, started_at)
    _set_ended(later, ended_at)
    _set_noted(later, noted)
    return later
