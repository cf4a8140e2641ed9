"""Failures: maps the SDK's exceptions to the names that all providers share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agentic_kernel_engine.loop import NOTHING_USED, PlannerError
from agentic_kernel_engine.providers import Failures, codes_of
from agentic_kernel_engine.providers import failures as names

CODES: Final[Mapping[str, str]] = {
    "api_key_invalid": names.AUTHENTICATION,
    "api key not valid": names.AUTHENTICATION,
    "perday": names.QUOTA,
    "limit: 0,": names.QUOTA,
    "credits are depleted": names.QUOTA,
    "billing_disabled": names.QUOTA,
    "is not found for api version": names.MODEL_NOT_FOUND,
    "publisher model": names.MODEL_NOT_FOUND,
    "exceeds the maximum number of tokens": names.CONTEXT_LENGTH,
    "prompt is too long": names.CONTEXT_LENGTH,  # Of a gateway.
    "payload size exceeds": names.REQUEST_TOO_LARGE,
    "location is not supported": names.PERMISSION,
}
"""Name of words of an error that are more exact than its status; an error of a wrong key, of a
missing model and of a full context have the same status as others. The words are those of messages,
of reasons, and of the ids of quotas: ai.google.dev/gemini-api/docs/troubleshooting."""

ENDS: Final[Mapping[str, str]] = codes_of(
    {
        "length": "MAX_TOKENS CONTINUATION",
        "filter": "SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY "
        "IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION ESCALATION MODEL_ARMOR",
        names.PERMISSION: "PUP_LIMITED_DISABLED",
        names.BAD_RESPONSE: "MALFORMED_FUNCTION_CALL MALFORMED_RESPONSE UNEXPECTED_TOOL_CALL "
        "TOO_MANY_TOOL_CALLS MISSING_THOUGHT_SIGNATURE OTHER IMAGE_OTHER NO_IMAGE",
    }
)
"""By finish reason, unless the answer can be used: its end, or the failure; see the SDK's
``FinishReason``."""
_READ: Final = 65_536
"""The most characters of an error that are searched."""


def explained(failures: Failures, error: Exception, request_id: str | None) -> PlannerError | None:
    """Return the failure for an error that the server answered with; None for any other error."""
    from google.auth.exceptions import GoogleAuthError
    from google.genai.errors import APIError

    if isinstance(error, GoogleAuthError):
        return failures.failure(names.AUTHENTICATION, str(error), usage=NOTHING_USED)
    if not isinstance(error, APIError):
        return None
    response: Any = error.response
    message = error.message if isinstance(error.message, str) else str(error)
    if error.code < 400:
        message = f"the server answered with status {error.code}; check the address"
    words = str(error.details)[:_READ].lower()
    headers = {"retry-after": _wait(error.details), **response.headers}
    return failures.answered(
        error.code,
        [code for code in CODES if code in words],
        message,
        headers=headers,
        request_id=request_id or headers.get("x-request-id"),
        begun=response.status_code == 200,
    )


def _wait(details: Any) -> str:
    """Return the seconds that an error asks to wait, by its ``RetryInfo``."""
    error = details.get("error") if isinstance(details, Mapping) else None
    parts = error.get("details") if isinstance(error, Mapping) else None
    for part in parts if isinstance(parts, list) else ():
        delay = part.get("retryDelay") if isinstance(part, Mapping) else None
        if isinstance(delay, str):
            return delay.removesuffix("s")
    return ""
