"""Failures: maps the SDK's exceptions to the names that all providers share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentic_kernel_engine.loop import NOTHING_USED, PlannerError
from agentic_kernel_engine.providers import Failures, codes_of
from agentic_kernel_engine.providers import failures as names

PHRASES: Final[Mapping[str, str]] = {
    "available context size": names.CONTEXT_LENGTH,  # LiteLLM, of llama.cpp
    "content filtering policy": names.CONTENT_FILTER,
    "credit balance is too low": names.QUOTA,
    "exceed context limit": names.CONTEXT_LENGTH,
    "prompt is too long": names.CONTEXT_LENGTH,
    "usage limits": names.QUOTA,
}
"""Name of words of a message that are more exact than its code and type."""
CODES: Final[Mapping[str, str]] = {**PHRASES} | codes_of(
    {
        names.QUOTA: "contract_spend_limit_reached enforced_spend_limit_reached billing_error "
        "linked_organization_billing_unavailable linked_organization_spend_limit_reached "
        "user_profile_not_billable",
        names.PERMISSION: "organization_on_hold permission_error",
        names.RATE_LIMIT: "ramp_limit_exceeded rate_limit_error",
        names.TIMEOUT: "request_body_timeout timeout_error",
        names.REQUEST_TOO_LARGE: "request_body_too_large_after_decoding request_too_large",
        names.MODEL_NOT_FOUND: "model:",
        names.AUTHENTICATION: "authentication_error",
        names.CONTEXT_LENGTH: "exceed_context_size_error",  # llama.cpp
        names.NOT_FOUND: "not_found_error",
        names.OVERLOADED: "overloaded_error",
    }
)
"""Name of each of the API's codes and types: platform.claude.com/docs/en/api/errors, November
2026."""
VAGUE: Final[Mapping[str, str]] = {
    "api_error": names.SERVER_ERROR,
    "invalid_request_error": names.INVALID_REQUEST,
}
"""Name of each error type that is less exact than the HTTP status."""


def explained(failures: Failures, error: Exception, request_id: str | None) -> PlannerError | None:
    """Return the failure for an error that the server answered with; None for any other error."""
    import anthropic

    if isinstance(error, anthropic.CredentialsError):
        said = f"{type(error).__name__}: {error}"
        return failures.failure(names.AUTHENTICATION, said, usage=NOTHING_USED)
    if not isinstance(error, anthropic.APIStatusError):
        return None
    message = error.api_message if isinstance(error.api_message, str) else str(error)
    status = error.status_code if error.status_code >= 300 else None
    kind = error.type if isinstance(error.type, str) else ""
    words = message.lower()
    codes = [*(each for each in PHRASES if each in words), error.error_code]
    if kind == "not_found_error" and words.startswith("model:"):
        codes.append("model:")
    codes.append(kind)
    body = error.body if isinstance(error.body, Mapping) else {}
    given = error.request_id or body.get("request_id")
    return failures.answered(
        status,
        [code for code in codes if isinstance(code, str)],
        message,
        headers=error.response.headers,
        request_id=given if isinstance(given, str) else None,
    )
