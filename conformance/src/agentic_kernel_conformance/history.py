"""History: what the callers of one Task did, when, and what each of them was told.

A history is recorded while it happens and judged afterwards. Time is a counter, or a clock that all
the callers share; only the order matters. What a Task looks like is reduced to what no two
observers can disagree about: its status, its supplements, and how it ended.
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
"""The operation returned, and its caller was told no more than that."""
REFUSED: Final = "refused"
"""The operation raised that it is not allowed now, and left no trace."""


def view_of(task: Task) -> View:
    """A snapshot, reduced to what observers see."""
    end = ""
    if task.status is TaskStatus.SUCCESS:
        end = json.dumps(task.result, sort_keys=True)
    elif task.failure is not None:
        end = task.failure.code
    return task.status, tuple(task.supplements), end


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on the Task: a verb, a read, or what a run does on its own."""

    caller: str
    called: int
    """When it was called, on the history's clock."""
    returned: int | None
    """When its caller heard of it; None if never, and then its outcome is unknown."""
    verb: str
    argument: Any = None
    effect: str = UNKNOWN
    """What the caller was told: ``transition``, ``none``, …; `ACCEPTED`, `REFUSED`."""
    view: View | None = None
    """The snapshot that the caller was given."""

    @property
    def reads(self) -> bool:
        """Whether it only looks."""
        return self.verb == "get"

    def forgotten(self) -> Operation:
        """The same, had its caller heard nothing of it."""
        return replace(self, returned=None, effect=UNKNOWN, view=None)

    def to_json(self) -> list[Any]:
        """Plain values, for another process."""
        return [
            self.caller, self.called, self.returned, self.verb, self.argument, self.effect,
            self.view,
        ]  # fmt: skip

    @classmethod
    def from_json(cls, values: list[Any]) -> Operation:
        """The operation behind `to_json`."""
        caller, called, returned, verb, argument, effect, view = values
        if verb in _WITH_ENTRY:
            argument = _hashable(argument)
        seen = None if view is None else view_from(view)
        return cls(caller, called, returned, verb, argument, effect, seen)


_WITH_ENTRY = frozenset({"checkpoint", "commit", "finish"})


def view_from(values: Sequence[Any]) -> View:
    """A view that went through JSON."""
    status, supplements, end = values
    return TaskStatus(status), tuple(supplements), end


def _hashable(value: Any) -> Any:
    return tuple(_hashable(each) for each in value) if isinstance(value, list) else value


Told = tuple[str, Task | None]
"""What an answer tells: the effect, and the snapshot that came with it."""


def accepted(answer: object) -> Told:
    """All that the contract of a Runtime lets its callers rely on."""
    return ACCEPTED, None


def snapshot(answer: Any) -> Told:
    """What a reader is told."""
    return "none", answer


class Recorder:
    """Writes down the operations on one Task as they are called and as they return.

    Args:
        clock: Gives a greater number each time; it must be shared by all the callers of the Task.
        unknown: Exceptions after which the caller does not know whether it happened.
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
        """What was recorded so far, in order of the calls; what has not returned is unknown."""
        return sorted(self._operations.values(), key=lambda operation: operation.called)

    def effect(self, number: int) -> str:
        """What the caller of a recorded call was told, so far."""
        return self._operations[number].effect

    def amend(self, number: int, argument: Any) -> None:
        """Say with what a recorded call was made, once that has become known."""
        self._operations[number] = replace(self._operations[number], argument=argument)

    def drop(self, number: int) -> None:
        """Take back a call that was recorded and never made."""
        del self._operations[number]

    def begin(self, caller: str, verb: str, argument: Any = None) -> int:
        """Record a call; the number that is returned names it."""
        number = next(self._numbers)
        self._operations[number] = Operation(caller, self.now(), None, verb, argument)
        return number

    def end(self, number: int, effect: str, view: View | None = None) -> None:
        """Record what the caller was told."""
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
        """Await the work and record what came of it; None if it was refused or is not known.

        Raises:
            BaseException: What else the work raises; of a cancellation the outcome is unknown.
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
    """The identity of an end in success."""
    return json.dumps(result, sort_keys=True)


def described(operation: Operation) -> str:
    """The call, as its caller would write it."""
    argument = "" if operation.argument is None else ascii(operation.argument)[:40]
    return f"{operation.verb}({argument})"


def outcome(operation: Operation) -> str:
    """What the caller was told, in a few words."""
    if operation.returned is None:
        return "not known"
    if operation.reads and operation.view is not None:
        return seen(operation.view)
    told = _TOLD.get(operation.effect, operation.effect)
    return told if operation.view is None else f"{told}; {seen(operation.view)}"


def seen(view: View) -> str:
    """A view, in a few words."""
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
