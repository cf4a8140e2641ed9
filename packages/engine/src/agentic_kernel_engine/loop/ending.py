"""Ending: how a step says that the run is over. Raised inside the Loop, handled in one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import StoreError, TaskFailed
from .reasons import StopReason


class End(Exception):
    """The run is over.

    Attributes:
        reason: Why.
        output: The final answer, if that is why.
        message: For people.
        code: Of the failure; ``engine/<reason>`` unless something else failed.
        metadata: JSON detail of the failure.
    """

    def __init__(
        self,
        reason: StopReason,
        message: str = "",
        *,
        output: Any = None,
        code: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.reason = reason
        self.message = message
        self.output = output
        self.code = code or f"engine/{reason}"
        self.metadata = metadata
        super().__init__(reason, message)


def unhandled(fault: BaseException) -> End:
    """The end of a run by an exception that no part of it expected."""
    code = "engine/store_error" if isinstance(fault, StoreError) else "engine/unhandled_error"
    kind = type(fault).__name__
    try:
        text = str(fault)
    except Exception:
        text = "(its message cannot be read)"
    text = text[:2_000].replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
    return End(
        StopReason.ERROR, f"{kind}: {text}", code=code, metadata={"type": kind, "message": text}
    )


class PlannerError(TaskFailed):
    """The provider behind a planner failed; ``code`` says how, ``<impl>/<code>``.

    Middleware may have the call repeated, or answered otherwise. If none does, the Task ends in
    ``failure`` with this code and the reason ``error``.
    """
