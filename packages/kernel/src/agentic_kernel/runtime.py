"""Runtime: where work happens. Six verbs and no data."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from .task import Failure, Task


@runtime_checkable
class Runtime(Protocol):
    """The contract under which a Task's work happens.

    The six verbs are the only mutators (rule 1). Mutators on one Task are serialised (rule 2) and
    atomic to every observer (rule 3); Tasks do not affect each other (clause 1). What a verb
    returns is not part of the contract: the truth is the Task that a `Query` reads. Every verb
    but ``dispatch`` raises `TaskNotFound` for an unknown id.
    """

    async def dispatch(self, task: Task) -> object:
        """Enter ``running``, or raise and leave no trace.

        Raises:
            TaskExists: The id is already stored.
            IllegalTransition: The Task is not ``not_started``.
            CannotStart: The substrate refuses.
        """
        ...

    async def pause(self, task_id: str) -> object:
        """Ask for a halt; effective at the next safe checkpoint, or never if the end comes first.

        A no-op on a Task that is paused or terminal.
        """
        ...

    async def resume(self, task_id: str, extra: str | None = None) -> object:
        """Let a paused Task go on, appending ``extra`` to its supplements in the same step.

        A no-op on a Task that is not paused; the extra is then dropped.
        """
        ...

    async def kill(self, task_id: str) -> object:
        """End the Task in finite time, as ``cancelled`` unless another end comes first.

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
