"""Exceptions by which a tool reports a failure or asks for another call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..plans.observation import HANDLER_ERROR


class Unfinished(Exception):
    """Raised by a tool whose call is not over and must be made again, with the same key.

    The work that the tool began goes on. The other calls of the batch are settled, and the Task
    pauses. When the Task goes on, the call is made again.

    Attributes:
        waiting: The content of the note ``engine/waiting_for``; None if the call only gives way to
            a pause that was requested.
    """

    def __init__(self, waiting: Mapping[str, Any] | None) -> None:
        self.waiting = waiting
        super().__init__(waiting)


class ToolError(Exception):
    """Raised by a tool to tell the planner what went wrong: an answer, and not a bug of the tool.

    The observation has the text as its message. Any other exception counts as a bug. It gives an
    observation as well, and is logged with its traceback.

    Args:
        message: The cause and the remedy, for the planner.
        code: The error code of the observation.
    """

    def __init__(self, message: str, code: str = HANDLER_ERROR) -> None:
        self.code = code
        super().__init__(message)
