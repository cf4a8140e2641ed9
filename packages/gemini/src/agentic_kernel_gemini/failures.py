"""Failures: maps the SDK's exceptions to the names that all providers share."""

from __future__ import annotations

import re
from typing import Any, Final

from agentic_kernel_engine.loop import NOTHING_USED, PlannerError
from agentic_kernel_engine.providers import Failures, codes_of
from agentic_kernel_engine.providers import failures as names

CODES: Final = {
    "api_key_invalid": names.AUTHENTICATION,
    "perday": names.QUOTA,
    "credits are depleted": names.QUOTA,
    "billing_disabled": names.QUOTA,
    "is not found for api version": names.MODEL_NOT_FOUND,
    "publisher model": names.MODEL_NOT_FOUND,  # Of Google Cloud.
    "exceeds the maximum number of tokens": names.CONTEXT_LENGTH,
    "prompt is too long": names.CONTEXT_LENGTH,  # Of a gateway.
    "payload size exceeds": names.REQUEST_TOO_LARGE,
    "location is not supported": names.PERMISSION,
}
"""Name of words of an error, in small letters, that are more exact than its status: of messages,
reasons and ids of quotas; see ai.google.dev/gemini-api/docs/troubleshooting."""
ENDS: Final = codes_of(
    {
        "length": "MAX_TOKENS CONTINUATION",
        "filter": "SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY "
        "IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION ESCALATION MODEL_ARMOR PUP_LIMITED_DISABLED",
    }
)
"""By finish reason: the end of an answer that was cut; see the SDK's ``FinishReason``."""
UNUSABLE: Final = re.compile(r"(?:MALFORMED|UNEXPECTED|TOO_MANY|MISSING|NO)_.*|(?:IMAGE_)?OTHER")
"""Finish reasons of an answer that cannot be used, because the server or the model failed."""
_WAIT: Final = re.compile(r"'retrydelay': '([0-9.]{1,20})s'")


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
    words = str(error.details)[:65_536].lower()
    wait = _WAIT.search(words)
    return failures.answered(
        error.code,
        [code for code in CODES if code in words],
        message,
        headers={"retry-after": wait[1] if wait else "", **response.headers},
        request_id=request_id or response.headers.get("x-request-id"),
        begun=response.status_code == 200,
    )
