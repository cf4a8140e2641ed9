"""Failures: maps the errors of OpenAI and its SDK to the names that all providers share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agentic_kernel_engine.loop import PlannerError
from agentic_kernel_engine.providers import Failures, Malformed, codes_of
from agentic_kernel_engine.providers import failures as names
from agentic_kernel_engine.providers.reading import got

IMPL: Final = "openai"
"""The first part of the failure codes, and of the metadata keys by which a Task sets options; also
the ``runtime_kind`` of the Tasks that the runtime serves, unless it is given another."""

CODES: Final = codes_of(
    {
        names.RATE_LIMIT: "rate_limit_exceeded",
        names.QUOTA: "insufficient_quota billing_hard_limit_reached billing_not_active",
        names.AUTHENTICATION: "invalid_api_key incorrect_api_key account_deactivated "
        "authentication_error",
        names.PERMISSION: "invalid_organization mismatched_organization mismatched_project "
        "permission_error unsupported_country_region_territory",
        names.MODEL_NOT_FOUND: "model_not_found model_not_available deployment_not_found "
        "DeploymentNotFound NotFoundError",
        names.CONTEXT_LENGTH: "context_length_exceeded exceed_context_size_error",
        names.CONTENT_FILTER: "content_filter content_policy_violation moderation_blocked "
        "image_content_policy_violation invalid_prompt cyber_policy bio_policy "
        "misalignment_policy_violation",
        names.REQUEST_TOO_LARGE: "request_too_large string_above_max_length",
        names.OVERLOADED: "overloaded overloaded_error server_is_overloaded slow_down "
        "unavailable_error",
        names.TIMEOUT: "vector_store_timeout",
        names.INVALID_REQUEST: "data_residency_mismatch invalid_image invalid_image_format "
        "invalid_base64_image invalid_image_url image_too_large image_too_small image_parse_error "
        "invalid_image_mode image_file_too_large unsupported_image_media_type empty_image_file "
        "failed_to_download_image image_file_not_found",
    }
)
"""Name of each error code or type that is more exact than the HTTP status: OpenAI's own, those of
Azure, and those of llama.cpp's server and of vLLM's.

See https://developers.openai.com/api/docs/guides/error-codes and the SDK's ``ResponseError``.
"""

VAGUE: Final = codes_of(
    {
        names.SERVER_ERROR: "server_error",
        names.INVALID_REQUEST: "invalid_request_error",
        names.NOT_FOUND: "not_found_error",
        names.RATE_LIMIT: "rate_limit_error tokens requests",
    }
)
"""Name of each error type that says less than a status."""


class Reported(Exception):
    """An error that the server reported instead of an answer, or in the middle of one."""

    def __init__(self, error: Any) -> None:
        super().__init__(_message(error) or "the server reported an error")
        told = (got(error, name) for name in ("code", "type"))
        self.codes = [str(each) for each in told if type(each) in (str, int)]


def not_of_the_answer(event: Any) -> Exception:
    """Return the error for what has no form of the API: the server's own error, if it is one.

    Compatible servers report a failure as ``{"object": "error", "message": …}``, or as
    ``{"detail": …}``, or as ``{"error": …}`` with status 200, which the SDK knows only in streams.
    """
    inner = got(event, "error")
    event = inner if isinstance(inner, Mapping) else event
    if _message(event):
        return Reported(event)
    return Malformed("the server's response has no form of this API")


def _message(error: Any) -> str:
    """Return the message of an error; many compatible servers have ``detail``, also as a list."""
    said = got(error, "message") or got(error, "detail")
    return str(said) if isinstance(said, str | list) else ""


def explained(failures: Failures, error: Exception, request_id: str | None) -> PlannerError | None:
    """Return the failure for an error that the server answered with; None for any other error."""
    import openai

    if isinstance(error, Reported):
        return failures.answered(None, error.codes, str(error), request_id=request_id)
    if not isinstance(error, openai.APIError):
        return None
    codes = [each for each in (error.code, error.type) if isinstance(each, str)]
    if type(error) is openai.APIError:  # In the middle of a stream.
        return failures.answered(None, codes, error.message, request_id=request_id)
    if not isinstance(error, openai.APIStatusError):
        return None
    unknown = error.status_code in (400, 422) and CODES.keys().isdisjoint(codes)
    if unknown and names.TOO_LONG.search(error.message):
        codes = ["context_length_exceeded"]
    body = error.body if isinstance(error.body, Mapping) else {"message": error.body}
    return failures.answered(
        error.status_code,
        codes,
        _message(body) or str(error.message),
        headers=error.response.headers,
        request_id=error.request_id,
    )
