"""Ending: the exception that ends a run. Raised inside the Loop, handled in one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import StoreError, TaskFailed
from ..faults import MAX_MESSAGE, is_a, kind_of, origin, place_of, shortened, text_of
from .plan import Usage
from .reasons import StopReason


class End(Exception):
    """The run is over.

    Attributes:
        reason: The stop reason.
        output: The final answer, if the reason is ``final``.
        message: For people.
        code: Code of the failure; ``engine/<reason>`` if none is given.
        metadata: JSON detail of the failure.
        fault: The exception, if a bug ended the run; it is logged once.
        where: The part that has the bug, for the log.
    """

    def __init__(
        self,
        reason: StopReason,
        message: str = "",
        *,
        output: Any = None,
        code: str = "",
        metadata: Mapping[str, Any] | None = None,
        fault: BaseException | None = None,
        where: str = "",
    ) -> None:
        self.reason = reason
        self.message = message
        self.output = output
        self.code = code or f"engine/{reason}"
        self.metadata = metadata
        self.fault = fault
        self.where = where
        super().__init__(reason, message)


def unhandled(fault: BaseException) -> End:
    """The end of a run because of an exception that no part of it expected.

    The failure's metadata has ``type`` and ``message``, and ``file`` and ``line`` of the user's
    frame if there is one.
    """
    fault = origin(fault)
    code = "engine/store_error" if is_a(fault, StoreError) else "engine/unhandled_error"
    kind, text = kind_of(fault), text_of(fault)
    metadata = {"type": kind, "message": text, **place_of(fault)}
    return End(StopReason.ERROR, f"{kind}: {text}", code=code, metadata=metadata)


def failed(fault: TaskFailed) -> End:
    """The end of a run because a part of it raised `TaskFailed`."""
    message = fault.message
    if isinstance(message, str):
        message = shortened(message, MAX_MESSAGE)
    return End(StopReason.ERROR, message, code=fault.code, metadata=fault.metadata)


def stopped(reason: str) -> End:
    """The end of a run that a policy or a planner stopped, for this reason if it gave one."""
    return End(StopReason.STOPPED, reason or "the run was stopped")


class PlannerError(TaskFailed):
    """The provider behind a planner failed; ``code`` says how, ``<impl>/<code>``.

    Middleware may have the call repeated, or give another answer. If it does neither, the Task
    ends in ``failure`` with this code and the reason ``error``.

    Attributes:
        usage: The usage of the failed call: counted, or a bound that is not lower than it.
            `NOTHING_USED` if the provider refused the call before any work. None if it is not
            known: the reservation for the call then counts as spent.
    """

    usage: Usage | None = None

    def __init__(
        self,
        code: str,
        message: str,
        metadata: Mapping[str, Any] | None = None,
        *,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(code, message, metadata)
        self.usage = usage
