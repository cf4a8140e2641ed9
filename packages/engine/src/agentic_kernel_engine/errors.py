"""The engine's errors, by who can act on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentic_kernel import KernelError, TaskStatus
from agentic_kernel.frozen import shown

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
        return f"the record of task {shown(self.task_id)} moved on; load it and decide again"


class InboxFull(KernelError, RuntimeError):
    """A decision was refused because too many wait for the Task already; nothing is written.

    A pause, and a decision that the Task asks for, are never refused so.

    Attributes:
        task_id: The Task.
        entries: How many decisions wait for it.
        length: How long they would be with this one, as JSON text, in bytes.
    """

    def __init__(
        self, task_id: str, entries: int, length: int, most_entries: int, most_bytes: int
    ) -> None:
        self.task_id = task_id
        self.entries = entries
        self.length = length
        self._most = most_entries, most_bytes
        super().__init__(task_id, entries, length, most_entries, most_bytes)

    def __str__(self) -> str:
        return (
            f"{self.entries:,} decisions wait for task {shown(self.task_id)}, with this one "
            f"{self.length:,} bytes, and at most {self._most[0]:,} of {self._most[1]:,} bytes in "
            "all may wait; resume the Task so that it acts on them, and decide again"
        )


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


class HostGone(StoreError):
    """A host that left the store, or whose process or lease died, wrote or wants to join again.

    Attributes:
        host: Its nonce. A nonce never lives again; a new `Host` has a new one.
    """

    def __init__(self, host: str, reason: str = "") -> None:
        self.host = host
        super().__init__(
            reason
            or f"host {shown(host)} left this store or died, and cannot join again; make a new Host"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.host, self.reason)


class Unreadable(StoreError):
    """One record that this version cannot read; all other records are not touched by it (R22).

    Attributes:
        task_id: Whose record it is. The Task's events may well be read.
        version: The version of the record; `Store.bury` takes it.
        status: The Task's status, if that much could be read.
        newer: Whether a newer version of the software wrote it: that one reads it.
    """

    def __init__(
        self,
        task_id: str,
        version: int,
        status: TaskStatus | None = None,
        *,
        newer: bool = False,
        why: str = "",
    ) -> None:
        self.task_id = task_id
        self.version = version
        self.status = status
        self.newer = newer
        self.why = why
        remedy = (
            "upgrade agentic-kernel-engine, or kill the Task with force"
            if newer
            else "restore it from a copy, or kill the Task to bury it"
        )
        detail = f": {why}" if why else ""
        super().__init__(
            f"the record of task {shown(task_id)} at version {version} cannot be read{detail}; "
            f"{remedy}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _unreadable, (self.task_id, self.version, self.status, self.newer, self.why)


def _unreadable(
    task_id: str, version: int, status: TaskStatus | None, newer: bool, why: str
) -> Unreadable:
    return Unreadable(task_id, version, status, newer=newer, why=why)
