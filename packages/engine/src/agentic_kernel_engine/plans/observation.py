"""Observation: the outcome of one action, as the planner will see it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from .action import ToolCall

HANDLER_ERROR: Final = "handler_error"
"""The tool raised."""
SCHEMA_VALIDATION_FAILED: Final = "schema_validation_failed"
"""The arguments do not fit the tool's input schema; it was not run."""
OUTPUT_SCHEMA_FAILED: Final = "output_schema_failed"
"""The tool ran, but its result does not fit its output schema or is not JSON."""
MISSING_SCOPES: Final = "missing_scopes"
"""The principal lacks scopes that the tool requires; it was not run."""
TIMEOUT: Final = "timeout"
"""The tool did not return in time. The effects that it had by then remain."""
POLICY_DENIED: Final = "policy_denied"
"""The policy, or a person, refused it; it was not run."""
INDETERMINATE: Final = "indeterminate"
"""An earlier run of the Task began the call and did not record its outcome: its process died, or it
was cancelled. The call may have taken effect. It was not made again."""
NO_THREAD: Final = "no_thread"
"""No thread was free for the tool, because too many tools hang; it was not run."""
NOBODY_TO_ASK: Final = "nobody_to_ask"
"""The tool asked a question where no person can be asked."""
UNKNOWN_TOOL: Final = "unknown_tool"
"""There is no such tool here."""
SKIPPED: Final = "skipped"
"""The run ended before the action was begun."""
NO_GOAL: Final = "no_goal"
"""There is no goal to complete."""
CHILD_FAILED: Final = "child_failed"
"""The child did not end in success, could not be started, or was not found."""


class Observation(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The result of one action of a plan."""

    output: Any = None
    """The result, as JSON."""
    error: str = ""
    """Empty if the action went well; else a code of this module, or one that the tool gave."""
    message: str = ""
    """The cause of the error and its remedy, for the planner."""
    call: str = ""
    """The provider's name for the call."""
    tool: str = ""
    metadata: dict[str, Any] | None = None
    """Of a bug in a tool: ``type`` of the exception, and ``file`` and ``line`` of the tool's frame.
    For people; a planner does not see it."""

    @classmethod
    def indeterminate(cls, call: ToolCall) -> Observation:
        """The observation of a call that an earlier run began and that must not be repeated."""
        message = (
            "an earlier run of this task began the call and ended before it recorded the outcome; "
            "whether the call took effect is not known; find out before you repeat it"
        )
        return cls(error=INDETERMINATE, message=message, call=call.id, tool=call.tool)

    @property
    def ok(self) -> bool:
        """True if there is no error."""
        return not self.error

    @property
    def done(self) -> bool:
        """True unless the action was denied or skipped; its outcome may be an error, or unknown."""
        return self.error not in (POLICY_DENIED, SKIPPED)
