"""Failures: maps the SDK's exceptions to the names that all providers share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agentic_kernel_engine.loop import NOTHING_USED, PlannerError
from agentic_kernel_engine.providers import Failures
from agentic_kernel_engine.providers import failures as names

CODES: Final[Mapping[str, str]] = {
    # error.details.error_code
    "contract_spend_limit_reached": names.QUOTA,
    "enforced_spend_limit_reached": names.QUOTA,
    "linked_organization_billing_unavailable": names.QUOTA,
    "linked_organization_spend_limit_reached": names.QUOTA,
    "organization_on_hold": names.PERMISSION,
    "ramp_limit_exceeded": names.RATE_LIMIT,
    "request_body_timeout": names.TIMEOUT,
    "request_body_too_large_after_decoding": names.REQUEST_TOO_LARGE,
    "user_profile_not_billable": names.QUOTA,
    # Words of error.message
    "available context size": names.CONTEXT_LENGTH,  # LiteLLM, of llama.cpp
    "content filtering policy": names.CONTENT_FILTER,
    "credit balance is too low": names.QUOTA,
    "exceed context limit": names.CONTEXT_LENGTH,
    "prompt is too long": names.CONTEXT_LENGTH,
    "usage limits": names.QUOTA,
    "model:": names.MODEL_NOT_FOUND,
    # error.type
    "api_error": names.SERVER_ERROR,
    "authentication_error": names.AUTHENTICATION,
    "billing_error": names.QUOTA,
    "exceed_context_size_error": names.CONTEXT_LENGTH,  # llama.cpp
    "invalid_request_error": names.INVALID_REQUEST,
    "not_found_error": names.NOT_FOUND,
    "overloaded_error": names.OVERLOADED,
    "permission_error": names.PERMISSION,
    "rate_limit_error": names.RATE_LIMIT,
    "request_too_large": names.REQUEST_TOO_LARGE,
    "timeout_error": names.TIMEOUT,
}
"""Name of each of the API's codes: platform.claude.com/docs/en/api/errors, November 2026."""

PHRASES: Final = (
    "available context size",
    "content filtering policy",
    "credit balance is too low",
    "exceed context limit",
    "prompt is too long",
    "usage limits",
)
"""Words of a message that are more exact than its code and type."""
VAGUE: Final = ("api_error", "invalid_request_error")
"""Error types that are less exact than the HTTP status."""


def explained(failures: Failures, error: Exception) -> PlannerError | None:
    """Return the failure for an error that the server answered with; None for any other error."""
    import anthropic

    if isinstance(error, anthropic.APIStatusError):
        return _answered(error, failures)
    if isinstance(error, anthropic.CredentialsError):
        said = f"{type(error).__name__}: {error}"
        return failures.failure(names.AUTHENTICATION, said, usage=NOTHING_USED)
    return None


def _answered(error: Any, failures: Failures) -> PlannerError:
    message = error.api_message if isinstance(error.api_message, str) else str(error)
    status = error.status_code if error.status_code >= 400 else None
    kind = error.type if isinstance(error.type, str) else ""
    words = message.lower()
    codes = [*(each for each in PHRASES if each in words), error.error_code]
    if kind == "not_found_error" and words.startswith("model:"):
        codes.append("model:")
    if status is None or kind not in VAGUE:
        codes.append(kind)
    body = error.body if isinstance(error.body, Mapping) else {}
    request_id = error.request_id or body.get("request_id")
    return failures.answered(
        status,
        [code for code in codes if isinstance(code, str)],
        message,
        headers=error.response.headers,
        request_id=request_id if isinstance(request_id, str) else None,
    )
