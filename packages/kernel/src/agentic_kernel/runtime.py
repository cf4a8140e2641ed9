"""Runtime port: the place where work happens. It has six verbs and no data."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from .task import Failure, Task


@runtime_checkable
class Runtime(Protocol):
    """The six verbs that change a Task.

    Only these verbs change a Task (rule 1). Verbs on one Task are serialised (rule 2) and atomic
    to every observer (rule 3). Tasks do not affect each other (clause 1). The return value of a
    verb is not part of the contract: the truth is the Task that a `Query` reads. Every verb except
    ``dispatch`` raises `TaskNotFound` if the id is unknown.
    """

    async def dispatch(self, task: Task) -> object:
        """Make the Task ``running``, or raise and leave no trace.

        Raises:
            TaskExists: A Task with this id is already stored.
            IllegalTransition: The Task is not ``not_started``.
            CannotStart: The substrate refuses the Task.
        """
        ...

    async def pause(self, task_id: str) -> object:
        """Ask for a pause at the run's next safe point; without effect if the Task ends first.

        A no-op on a Task that is paused or terminal.
        """
        ...

    async def resume(self, task_id: str, extra: str | None = None) -> object:
        """Let a paused Task go on, and append ``extra`` to its supplements in the same step.

        A no-op on a Task that is not paused: the extra is dropped.
        """
        ...

    async def kill(self, task_id: str) -> object:
        """End the Task in finite time, as ``cancelled`` if no other end comes first.

        A no-op on a terminal Task.
        """
        ...

    async def complete(self, task_id: str, result: Any) -> object:
        """Report success. A no-op on a terminal Task.

        Raises:
            IllegalTransition: The Task is paused.
        """
        ...

    async def fail(self, task_id: str, failure: Failure) -> object:
        """Report failure. A no-op on a terminal Task.

        Raises:
            IllegalTransition: The Task is paused.
        """
        ...
