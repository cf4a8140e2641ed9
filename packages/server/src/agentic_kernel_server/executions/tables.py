"""Tables: the states of executions and of steps, and every transition between them.

A transition that a table does not name is illegal: `advance` raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeVar

S = TypeVar("S", bound=Enum)


class ExecutionStatus(str, Enum):
    """The states of an execution on the wire."""

    PENDING = "pending"
    RUNNING = "running"
    BLOCKED = "blocked"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class StepStatus(str, Enum):
    """The states of a step."""

    PENDING = "pending"
    DISPATCHED = "dispatched"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """True if no transition leads out of it."""
        return not STEPS[self]


_P, _D, _R = StepStatus.PENDING, StepStatus.DISPATCHED, StepStatus.RUNNING
STEPS: Final[Mapping[StepStatus, Mapping[str, StepStatus]]] = {
    _P: {
        "dispatch": _D,
        "deny": StepStatus.CANCELLED,
        "cancel": StepStatus.CANCELLED,
        "time_out": StepStatus.TIMED_OUT,
    },
    _D: {
        "start": _R,
        "retry": _P,
        "time_out": StepStatus.TIMED_OUT,
        "cancel": StepStatus.CANCELLED,
    },
    _R: {
        "succeed": StepStatus.SUCCEEDED,
        "fail": StepStatus.FAILED,
        "retry": _P,
        "time_out": StepStatus.TIMED_OUT,
        "cancel": StepStatus.CANCELLED,
    },
    StepStatus.SUCCEEDED: {},
    StepStatus.FAILED: {},
    StepStatus.TIMED_OUT: {},
    StepStatus.CANCELLED: {},
}
"""For each state of a step, the triggers that it knows and the states that follow.

``deny`` is an approval that was denied or came too late. ``retry`` begins a new attempt of the
same step. A result for a dispatched step is ``start`` and then ``succeed`` or ``fail``."""

_N, _U, _B = ExecutionStatus.PENDING, ExecutionStatus.RUNNING, ExecutionStatus.BLOCKED
EXECUTIONS: Final[Mapping[ExecutionStatus, Mapping[str, ExecutionStatus]]] = {
    _N: {
        "assign": _U,
        "fail": ExecutionStatus.FAILED,
        "cancel": ExecutionStatus.CANCELLED,
    },
    _U: {
        "block": _B,
        "complete": ExecutionStatus.COMPLETED,
        "fail": ExecutionStatus.FAILED,
        "cancel": ExecutionStatus.CANCELLED,
        "lose": _N,
    },
    _B: {
        "unblock": _U,
        "complete": ExecutionStatus.COMPLETED,
        "fail": ExecutionStatus.FAILED,
        "cancel": ExecutionStatus.CANCELLED,
        "lose": _N,
    },
    ExecutionStatus.COMPLETED: {},
    ExecutionStatus.FAILED: {},
    ExecutionStatus.CANCELLED: {},
}
"""For each state of an execution, the triggers that it knows and the states that follow.

``fail`` from pending is the timeout of an execution that no agent took. ``complete`` from blocked
is possible while a signal is awaited, and never while a step is open."""


class IllegalStep(ValueError):
    """The table forbids the transition; nothing has changed."""


def advance(table: Mapping[S, Mapping[str, S]], status: S, trigger: str) -> S:
    """The state that follows.

    Raises:
        IllegalStep: The table does not name the transition.
    """
    try:
        return table[status][trigger]
    except KeyError:
        raise IllegalStep(f"{trigger!r} is illegal while it is {status.value}") from None
