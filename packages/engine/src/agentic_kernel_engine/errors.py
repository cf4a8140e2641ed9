"""The engine's errors, by who can act on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentic_kernel import KernelError

if TYPE_CHECKING:
    from .record import Record


class TaskFailed(KernelError):
    """Raised by a substrate to end its Task in ``failure`` with a code of its own.

    Attributes:
        code: ``<impl>/<code>``, for programs.
        message: For people.
        metadata: JSON detail.
    """

    def __init__(self, code: str, message: str, metadata: Mapping[str, Any] | None = None) -> None:
        self.code = code
        self.message = message
        self.metadata = metadata
        super().__init__(code, message, metadata)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class HostClosed(KernelError, RuntimeError):
    """The Host was closed: its verbs do nothing any more, and nobody waits on it for news."""

    def __str__(self) -> str:
        return "this Host is closed; make a new one over the same store"


class Conflict(KernelError):
    """A commit was refused: the record moved, changed its owner, or is terminal. Look again.

    Attributes:
        task_id: The Task whose record moved.
        latest: The record that it moved to, if the store has it at hand. It may be newer than what
            `Store.load` returns, because it is not acknowledged yet: a commit on top of it is
            safe, an answer from it is not.
    """

    def __init__(self, task_id: str, latest: Record | None = None) -> None:
        self.task_id = task_id
        self.latest = latest
        super().__init__(task_id, latest)

    def __str__(self) -> str:
        return f"the record of task {self.task_id!r} moved on; load it and decide again"


class StoreError(KernelError, OSError):
    """The store could not do it; what was stored before is intact and nothing new is.

    Attributes:
        reason: What failed and what to do about it.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return self.reason


class UnknownOutcome(StoreError):
    """A write was sent and no answer came; only reading back tells whether it landed."""
