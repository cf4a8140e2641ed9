"""Failures: maps the errors of OpenAI and its SDK to the names that all providers share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from agentic_kernel_engine.loop import PlannerError
from agentic_kernel_engine.providers import Failures, Malformed, codes_of
from agentic_kernel_engine.providers import failures as names
from agentic_kernel_engine.providers.reading import got

IMPL: Final = "openai"
"""The first part of every code."""

CODES: Final = codes_of(
    {
        names.RATE_LIMIT: "rate_limit_exceeded",
        names.QUOTA: "insufficient_quota billing_hard_limit_reached billing_not_active",
        names.AUTHENTICATION: "invalid_api_key incorrect_api_key account_deactivated "
        "authentication_error",
        names.PERMISSION: "invalid_organization mismatched_organization mismatched_project "
        "permission_error unsupported_country_region_territory",
        names.MODEL_NOT_FOUND: "model_not_found model_not_available deployment_not_found "
        "DeploymentNotFound",
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
Azure, and those of llama.cpp's server.

See https://developers.openai.com/api/docs/guides/error-codes and the SDK's ``ResponseError``.
"""

_IN_STREAM: Final = codes_of(
    {
        names.SERVER_ERROR: "server_error",
        names.INVALID_REQUEST: "invalid_request_error",
        names.NOT_FOUND: "not_found_error",
        names.RATE_LIMIT: "rate_limit_error tokens requests",
    }
)
"""Name of each error type that says less than a status; used if there is no status."""

_TOO_LONG: Final = re.compile(
    r"context (?:length|window|size)|(?:prompt|input) is too long", re.IGNORECASE
)
"""Words of servers that have no error code for a prompt that does not fit."""


class Reported(Exception):
    """An error that the server reported instead of an answer, or in the middle of one."""

    def __init__(self, code: Any, kind: Any, message: Any) -> None:
        super().__init__(message if isinstance(message, str) else "the server reported an error")
        self.codes = [each for each in (code, kind) if isinstance(each, str)]


def not_of_the_answer(event: Any) -> Exception:
    """Return the error for an event that has no form of the API: the server's own, if it is one.

    Compatible servers report a failure as ``{"object": "error", "message": …}``, or as
    ``{"detail": …}``, and the SDK knows only ``{"error": …}``.
    """
    for name in ("message", "detail"):
        said = got(event, name)
        if isinstance(said, str) and said:
            code = got(event, "code")
            return Reported(str(code) if type(code) is int else code, got(event, "type"), said)
    return Malformed("an event of the stream has no form of this API")


def explained(failures: Failures, error: Exception, request_id: str | None) -> PlannerError | None:
    """Return the failure for an error that the server answered with; None for any other error."""
    import openai

    if isinstance(error, Reported):
        return _reported(failures, error.codes, str(error), request_id)
    if isinstance(error, openai.APIStatusError):
        return _answered(failures, error)
    if type(error) is openai.APIError:
        return _reported(failures, _codes(error), error.message, request_id)
    return None


def _answered(failures: Failures, error: Any) -> PlannerError:
    codes = _codes(error)
    if error.status_code in (400, 422) and not _known(codes) and _TOO_LONG.search(error.message):
        codes = ["context_length_exceeded"]
    return failures.answered(
        error.status_code,
        codes,
        _said(error),
        headers=error.response.headers,
        request_id=error.request_id,
    )


def _codes(error: Any) -> list[str]:
    return [each for each in (error.code, error.type) if isinstance(each, str)]


def _said(error: Any) -> str:
    body = error.body
    if isinstance(body, Mapping):
        # Many compatible servers have ``detail``, which may be a list of faults.
        body = body.get("message") or body.get("detail")
    return str(body) if isinstance(body, str | list) and body else str(error.message)


def _reported(
    failures: Failures, codes: list[str], message: str, request_id: str | None
) -> PlannerError:
    if not _known(codes):
        status = next((int(code) for code in codes if re.fullmatch(r"[45]\d\d", code)), None)
        if status is not None:
            return failures.answered(status, (), message, request_id=request_id, begun=True)
        name = next((_IN_STREAM[code] for code in codes if code in _IN_STREAM), None)
        if name is not None:
            return failures.failure(name, message, request_id=request_id)
    return failures.answered(None, codes, message, request_id=request_id)


def _known(codes: list[str]) -> bool:
    return any(code in CODES for code in codes)
