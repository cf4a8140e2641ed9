"""History: the calls on one Task, their times, and the answers to their callers.

A history is recorded while it happens and judged afterwards. Time is a counter, or a clock that all
callers share; only the order matters. A snapshot is reduced to its status, its supplements and its
end, because no two observers may disagree about these.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final

from agentic_kernel import (
    CannotStart,
    IllegalTransition,
    Task,
    TaskExists,
    TaskNotFound,
    TaskStatus,
)

View = tuple[TaskStatus, tuple[str, ...], str]
"""Status, supplements, and the identity of the result or of the failure."""

ABSENT: Final[View] = (TaskStatus.NOT_STARTED, (), "")
"""The Task before it is dispatched."""

UNKNOWN: Final = ""
"""The effect of an operation whose caller was told nothing: it may or may not have happened."""
ACCEPTED: Final = "accepted"
"""The operation returned; its caller was told nothing more."""
REFUSED: Final = "refused"
"""The operation raised because it is not allowed now, and left no trace."""


def view_of(task: Task) -> View:
    """Return the `View` of a snapshot."""
    end = ""
    if task.status is TaskStatus.SUCCESS:
        end = json.dumps(task.result, sort_keys=True)
    elif task.failure is not None:
        end = task.failure.code
    return task.status, tuple(task.supplements), end


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on the Task: a verb, a read, or a step of a run."""

    caller: str
    called: int
    """The time of the call, on the history's clock."""
    returned: int | None
    """The time of the answer; None if the caller got no answer, so the outcome is unknown."""
    verb: str
    argument: Any = None
    effect: str = UNKNOWN
    """The effect that the caller was told: ``transition``, ``none``, …; `ACCEPTED`, `REFUSED`."""
    view: View | None = None
    """The snapshot that the caller was given."""

    @property
    def reads(self) -> bool:
        """True if the operation is a read."""
        return self.verb == "get"

    def forgotten(self) -> Operation:
        """Return the same operation as if its caller had got no answer."""
        return replace(self, returned=None, effect=UNKNOWN, view=None)

    def to_json(self) -> list[Any]:
        """Return plain values, for another process."""
        return [
            self.caller, self.called, self.returned, self.verb, self.argument, self.effect,
            self.view,
        ]  # fmt: skip

    @classmethod
    def from_json(cls, values: list[Any]) -> Operation:
        """Return the operation that `to_json` wrote."""
        caller, called, returned, verb, argument, effect, view = values
        if verb in _WITH_ENTRY:
            argument = _hashable(argument)
        seen = None if view is None else view_from(view)
        return cls(caller, called, returned, verb, argument, effect, seen)


_WITH_ENTRY = frozenset({"checkpoint", "commit", "finish"})


def view_from(values: Sequence[Any]) -> View:
    """Return a view that was passed through JSON."""
    status, supplements, end = values
    return TaskStatus(status), tuple(supplements), end


def _hashable(value: Any) -> Any:
    return tuple(_hashable(each) for each in value) if isinstance(value, list) else value


Told = tuple[str, Task | None]
"""The content of an answer: the effect, and the snapshot if there is one."""


def accepted(answer: object) -> Told:
    """Read the answer of a Runtime's verb: the contract gives its return value no meaning."""
    return ACCEPTED, None


def snapshot(answer: Any) -> Told:
    """Read the answer of a read: the snapshot itself."""
    return "none", answer


class Recorder:
    """Records the operations on one Task when they are called and when they return.

    Args:
        clock: Gives a greater number each time; all callers of the Task must share it.
        unknown: Exceptions after which the outcome is unknown, besides TimeoutError.
    """

    def __init__(
        self,
        clock: Callable[[], int] | None = None,
        unknown: tuple[type[BaseException], ...] = (),
    ) -> None:
        self.now = count().__next__ if clock is None else clock
        self._unknown: tuple[type[BaseException], ...] = (TimeoutError, *unknown)
        self._operations: dict[int, Operation] = {}
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._operations)

    @property
    def operations(self) -> list[Operation]:
        """The operations so far, in order of their calls; an open one has an unknown outcome."""
        return sorted(self._operations.values(), key=lambda operation: operation.called)

    def effect(self, number: int) -> str:
        """Return the effect that the caller of a recorded call was told, so far."""
        return self._operations[number].effect

    def amend(self, number: int, argument: Any) -> None:
        """Set the argument of a recorded call, when it has become known."""
        self._operations[number] = replace(self._operations[number], argument=argument)

    def drop(self, number: int) -> None:
        """Remove a call that was recorded and never made."""
        del self._operations[number]

    def begin(self, caller: str, verb: str, argument: Any = None) -> int:
        """Record a call, and return its number."""
        number = next(self._numbers)
        self._operations[number] = Operation(caller, self.now(), None, verb, argument)
        return number

    def end(self, number: int, effect: str, view: View | None = None) -> None:
        """Record the answer to the caller."""
        self._operations[number] = replace(
            self._operations[number], returned=self.now(), effect=effect, view=view
        )

    async def call(
        self,
        caller: str,
        verb: str,
        argument: Any,
        work: Awaitable[Any],
        told: Callable[[Any], Told] = accepted,
    ) -> Any:
        """Record a call and `settle` it."""
        return await self.settle(self.begin(caller, verb, argument), work, told)

    async def settle(
        self, number: int, work: Awaitable[Any], told: Callable[[Any], Told] = accepted
    ) -> Any:
        """Await the work and record its outcome; return None if it was refused or is unknown.

        Raises:
            BaseException: Any other exception of the work; the outcome then stays unknown.
        """
        try:
            answer = await work
        except (IllegalTransition, TaskExists, TaskNotFound):
            self.end(number, REFUSED)
            return None
        except CannotStart:
            self.end(number, "lost")
            return None
        except self._unknown:
            return None
        effect, task = told(answer)
        self.end(number, effect, None if task is None else view_of(task))
        return answer


def succeeded_with(result: Any) -> str:
    """Return the identity of a success with this result."""
    return json.dumps(result, sort_keys=True)


def described(operation: Operation) -> str:
    """Return the call as its caller would write it."""
    argument = "" if operation.argument is None else ascii(operation.argument)[:40]
    return f"{operation.verb}({argument})"


def outcome(operation: Operation) -> str:
    """Return the answer to the caller, in a few words."""
    if operation.returned is None:
        return "not known"
    if operation.reads and operation.view is not None:
        return seen(operation.view)
    told = _TOLD.get(operation.effect, operation.effect)
    return told if operation.view is None else f"{told}; {seen(operation.view)}"


def seen(view: View) -> str:
    """Return a view in a few words."""
    status, supplements, end = view
    parts = [str(status)]
    if supplements:
        parts.append(f"[{', '.join(supplements)}]")
    if end:
        parts.append(end)
    return " ".join(parts)


_TOLD: Mapping[str, str] = {
    "transition": "yes",
    "none": "no change",
    "requested": "requested",
    "withdrawn": "the request is withdrawn",
    "kept": "committed",
    "lost": "nothing is written",
}
