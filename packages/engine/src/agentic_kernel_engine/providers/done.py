"""Done: an ended Task beside its typed result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar, cast

from agentic_kernel import Task, TaskStatus

from ..errors import TaskFailed

T = TypeVar("T")
CANCELLED: Final = "engine/cancelled"
"""The code of `Done.unwrap` for a Task that was killed."""
NOT_ENDED: Final = "engine/not_ended"
"""The code of `Done.unwrap` for a Task that has not ended, because `should_cancel` paused it."""


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """A Task as it ended, and its result as a value of the wanted type."""

    task: Task
    """The terminal snapshot; a paused one if ``should_cancel`` paused the Task."""
    result: T | None
    """The result; None unless the Task succeeded."""

    def unwrap(self) -> T:
        """The result of a Task that succeeded.

        Raises:
            TaskFailed: The Task did not succeed. The error has the code, the message and the
                metadata of its failure; the code is `CANCELLED` or `NOT_ENDED` for a Task without
                a failure.
        """
        task = self.task
        if task.status is TaskStatus.SUCCESS:
            return cast("T", self.result)
        if task.failure is not None:
            raise TaskFailed(task.failure.code, task.failure.message, task.failure.metadata)
        if task.status is TaskStatus.CANCELLED:
            raise TaskFailed(CANCELLED, f"the Task {task.id!r} was killed before it had a result")
        raise TaskFailed(
            NOT_ENDED, f"the Task {task.id!r} is {task.status}; resume it and wait for its end"
        )
