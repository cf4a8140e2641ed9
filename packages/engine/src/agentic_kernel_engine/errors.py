"""The engine's errors. Each message says what failed and what the caller can do."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from agentic_kernel import KernelError, TaskStatus
from agentic_kernel.frozen import shown

if TYPE_CHECKING:
    from .record import Record


class TaskFailed(KernelError):
    """Raised by a substrate to end its Task in ``failure`` with a code of its own.

    Attributes:
        code: ``<impl>/<code>``, for programs.
        message: Text for people.
        metadata: Details, as a JSON object.
    """

    def __init__(self, code: str, message: str, metadata: Mapping[str, Any] | None = None) -> None:
        self.code = code
        self.message = message
        self.metadata = metadata
        super().__init__(code, message, metadata)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class StateUnreadable(KernelError):
    """Raised by a substrate's ``execute`` that does not understand the Task's state (R23).

    The Host lets the Task go as it was, without counting the attempt, and takes it no more until
    its state has changed. Another Host may read it.

    Attributes:
        reason: The reason, and what reads the state.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class HostClosed(KernelError, RuntimeError):
    """The Host was closed: its verbs do nothing any more, and every wait on it ends."""

    def __str__(self) -> str:
        return "this Host is closed; make a new one over the same store"


class WrongEventLoop(KernelError, RuntimeError):
    """A Host was used in a second event loop; its tasks and connections are in the first one."""

    def __str__(self) -> str:
        return (
            "this Host belongs to the event loop that first used it, and this is another one; make "
            "all calls in one asyncio.run(), or a Host for each; a ready runtime has run_sync()"
        )


class Conflict(KernelError):
    """A commit was refused: the record has another version or owner, or is terminal. Load it again.

    Attributes:
        task_id: The Task of the record.
        latest: The current record, if the store has it at hand. It may be newer than the record
            that `Store.load` returns, because it may not be acknowledged yet. A commit on top of
            it is safe; an answer to a reader from it is not.
    """

    def __init__(self, task_id: str, latest: Record | None = None) -> None:
        self.task_id = task_id
        self.latest = latest
        super().__init__(task_id, latest)

    def __str__(self) -> str:
        return (
            f"the record of task {shown(self.task_id)} has moved on: another write came first; "
            "load it and decide again"
        )


class InboxFull(KernelError, RuntimeError):
    """A decision was refused because the Task's inbox is full; nothing is written.

    A pause, and a decision that the Task asks for, are never refused for this reason.

    Attributes:
        task_id: The Task.
        entries: The number of decisions that wait for it.
        length: The length of the inbox with this decision, as JSON text, in bytes.
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
            f"the inbox of task {shown(self.task_id)} is full: {self.entries:,} decisions wait, "
            f"and with this one they have {self.length:,} bytes; the limits are "
            f"{self._most[0]:,} decisions and {self._most[1]:,} bytes; resume the Task so that it "
            "acts on them, and decide again"
        )


class StoreError(KernelError, OSError):
    """The store could not do the call: earlier data is intact, and nothing new is stored.

    Attributes:
        reason: The fault and its remedy.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return self.reason


class UnknownOutcome(StoreError):
    """A write was sent and no answer came; read the record back to see if the write landed."""


class HostGone(StoreError):
    """Error for a Host that left the store, or whose process died or lease expired.

    Such a Host can neither write nor join again.

    Attributes:
        host: Its nonce. A new `Host` has a new nonce.
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
    """This version cannot read one record; all other records stay usable (R22).

    Attributes:
        task_id: The Task of the record. The Task's events may still be readable.
        version: The version of the record; `Store.bury` takes it.
        status: The Task's status, if it could be read.
        newer: True if a newer version of the software wrote the record; that version reads it.
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
        again = partial(type(self), newer=self.newer, why=self.why)
        return again, (self.task_id, self.version, self.status)
