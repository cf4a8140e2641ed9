"""Failures: maps the errors of OpenAI and its SDK to the names that all providers share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from agentic_kernel_engine.loop import PlannerError
from agentic_kernel_engine.providers import Failures
from agentic_kernel_engine.providers import failures as names

IMPL: Final = "openai"
"""The first part of every code."""

CODES: Final[Mapping[str, str]] = {
    "rate_limit_exceeded": names.RATE_LIMIT,
    "insufficient_quota": names.QUOTA,
    "billing_hard_limit_reached": names.QUOTA,
    "billing_not_active": names.QUOTA,
    "invalid_api_key": names.AUTHENTICATION,
    "incorrect_api_key": names.AUTHENTICATION,
    "account_deactivated": names.AUTHENTICATION,
    "authentication_error": names.AUTHENTICATION,
    "invalid_organization": names.PERMISSION,
    "mismatched_organization": names.PERMISSION,
    "mismatched_project": names.PERMISSION,
    "permission_error": names.PERMISSION,
    "unsupported_country_region_territory": names.PERMISSION,
    "model_not_found": names.MODEL_NOT_FOUND,
    "model_not_available": names.MODEL_NOT_FOUND,
    "deployment_not_found": names.MODEL_NOT_FOUND,
    "DeploymentNotFound": names.MODEL_NOT_FOUND,
    "context_length_exceeded": names.CONTEXT_LENGTH,
    "exceed_context_size_error": names.CONTEXT_LENGTH,
    "content_filter": names.CONTENT_FILTER,
    "content_policy_violation": names.CONTENT_FILTER,
    "image_content_policy_violation": names.CONTENT_FILTER,
    "moderation_blocked": names.CONTENT_FILTER,
    "invalid_prompt": names.CONTENT_FILTER,
    "cyber_policy": names.CONTENT_FILTER,
    "bio_policy": names.CONTENT_FILTER,
    "misalignment_policy_violation": names.CONTENT_FILTER,
    "request_too_large": names.REQUEST_TOO_LARGE,
    "string_above_max_length": names.REQUEST_TOO_LARGE,
    "overloaded": names.OVERLOADED,
    "overloaded_error": names.OVERLOADED,
    "server_is_overloaded": names.OVERLOADED,
    "slow_down": names.OVERLOADED,
    "unavailable_error": names.OVERLOADED,
    "data_residency_mismatch": names.INVALID_REQUEST,
    "vector_store_timeout": names.TIMEOUT,
    **dict.fromkeys(
        "invalid_image invalid_image_format invalid_base64_image invalid_image_url image_too_large "
        "image_too_small image_parse_error invalid_image_mode image_file_too_large "
        "unsupported_image_media_type empty_image_file failed_to_download_image "
        "image_file_not_found".split(),
        names.INVALID_REQUEST,
    ),
}
"""Name of each error code or type that is more exact than the HTTP status: OpenAI's own, those of
Azure, and those of llama.cpp's server.

See https://developers.openai.com/api/docs/guides/error-codes and the SDK's ``ResponseError``.
"""

_IN_STREAM: Final[Mapping[str, str]] = {
    "server_error": names.SERVER_ERROR,
    "invalid_request_error": names.INVALID_REQUEST,
    "not_found_error": names.NOT_FOUND,
    "rate_limit_error": names.RATE_LIMIT,
    "tokens": names.RATE_LIMIT,
    "requests": names.RATE_LIMIT,
}
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
    if error.status_code < 400:
        return "the server redirects to another address, and redirects are refused; check base_url"
    body = error.body
    said = body.get("message") if isinstance(body, Mapping) else None
    return said if isinstance(said, str) and said else error.message


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
