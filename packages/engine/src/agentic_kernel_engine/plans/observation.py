"""Observation: what came of one action, as the planner will see it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

HANDLER_ERROR: Final = "handler_error"
"""The tool raised."""
SCHEMA_VALIDATION_FAILED: Final = "schema_validation_failed"
"""The arguments do not fit the tool's input schema; it was not run."""
OUTPUT_SCHEMA_FAILED: Final = "output_schema_failed"
"""The tool ran, and what it returned does not fit its output schema or is no JSON."""
MISSING_SCOPES: Final = "missing_scopes"
"""The principal lacks scopes that the tool requires; it was not run."""
TIMEOUT: Final = "timeout"
"""The tool did not come back in time; whatever it did, it did."""
POLICY_DENIED: Final = "policy_denied"
"""The policy, or a person, refused it; it was not run."""
INDETERMINATE: Final = "indeterminate"
"""It was begun before a crash; whether it took effect is not known. It was not run again."""
NO_THREAD: Final = "no_thread"
"""There was no thread for it, because too many tools hang; it was not run."""
UNKNOWN_TOOL: Final = "unknown_tool"
"""There is no such tool here."""
SKIPPED: Final = "skipped"
"""The run ended before it was begun."""
NO_GOAL: Final = "no_goal"
"""There is no goal to complete."""
CHILD_FAILED: Final = "child_failed"
"""The child did not end in success, or could not be had."""


class Observation(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The result of one action of a plan."""

    output: Any = None
    """What came of it, as JSON."""
    error: str = ""
    """Empty if it went well; else one of the codes of this module."""
    message: str = ""
    """What went wrong and what to do about it, for the planner."""
    call: str = ""
    """The provider's name for the call."""
    tool: str = ""
    metadata: dict[str, Any] | None = None
    """Of a bug in a tool: ``type`` of the exception, and ``file`` and ``line`` of the tool's frame.
    For people; no planner is told."""

    @property
    def ok(self) -> bool:
        """Whether it went well."""
        return not self.error

    @property
    def done(self) -> bool:
        """Whether the action was begun at all; its outcome may be bad, or unknown."""
        return self.error not in (POLICY_DENIED, SKIPPED)
