"""The kernel's errors: one root, and families by the party that can act on them."""

from __future__ import annotations

from typing import Any


def shown(value: object) -> str:
    """Return a value as an error shows it: short and escaped; its own repr is never called."""
    if not isinstance(value, str):
        return f"a {type(value).__name__}"
    text = ascii(str.__getitem__(value, slice(80)))
    return text if len(text) <= 90 else text[:87] + "…"


class KernelError(Exception):
    """Root of every error that the kernel, or a package built on it, raises on purpose."""


class InvalidValue(KernelError, ValueError):
    """The caller passed a value that cannot be accepted; the caller must change it.

    Attributes:
        path: The place of the refused value, e.g. ``metadata['acme/tags'][3]``.
        reason: The reason for the refusal, and the remedy.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(path, reason)

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class InvalidTask(InvalidValue):
    """A Task snapshot contradicts the field invariants; the code that built it has a defect."""


class IllegalTransition(KernelError, ValueError):
    """The Task's present status does not allow the mutation; the Task is unchanged.

    Attributes:
        task_id: The Task that was addressed.
        status: Its status when the mutation arrived.
        mutation: The verb, e.g. ``"complete"``.
    """

    def __init__(self, task_id: str, status: str, mutation: str) -> None:
        self.task_id = task_id
        self.status = status
        self.mutation = mutation
        super().__init__(task_id, status, mutation)

    def __str__(self) -> str:
        return (
            f"cannot {self.mutation} task {shown(self.task_id)} while it is {self.status!s}; "
            f"{_advice(self.status, self.mutation)}"
        )


class TaskNotFound(KernelError, LookupError):
    """The store holds no Task with this id; check the id and which store is open.

    Attributes:
        task_id: The id that was asked for.
    """

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        super().__init__(task_id)

    def __str__(self) -> str:
        return f"no task {shown(self.task_id)} is stored here; check the id and which store is open"


class TaskExists(KernelError, ValueError):
    """A Task with this id is already stored; dispatch a new Task with a fresh id.

    Attributes:
        task_id: The id that is taken.
    """

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        super().__init__(task_id)

    def __str__(self) -> str:
        return (
            f"task {shown(self.task_id)} is already stored; ids are used once, so create a new Task"
        )


class CannotStart(KernelError, RuntimeError):
    """The Runtime refused to start a Task; nothing was stored and the Task is ``not_started``.

    Attributes:
        reason: The cause, and the remedy.
        task_id: The id of the refused Task; None if the error names no Task.
    """

    def __init__(self, reason: str, task_id: str | None = None) -> None:
        self.reason = reason
        self.task_id = task_id
        super().__init__(reason, task_id)

    def __str__(self) -> str:
        if self.task_id is None:
            return self.reason
        return f"cannot start task {shown(self.task_id)}: {self.reason}"


def _advice(status: Any, mutation: str) -> str:
    if mutation == "dispatch":
        return "a Task is dispatched once; to run its work again, dispatch a new Task"
    if status == "not_started":
        return "dispatch it first"
    if status == "paused":
        return "resume it first"
    if status in ("success", "failure", "cancelled"):
        return "it has ended and stays as it is; dispatch a new Task"
    return "read its status before choosing a mutation"
