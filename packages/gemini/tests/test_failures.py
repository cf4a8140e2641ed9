"""The errors of Google's documentation by their words, and what they ask to wait."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from google.auth.exceptions import RefreshError
from google.genai.errors import APIError

from agentic_kernel_engine.loop import NOTHING_USED
from agentic_kernel_engine.providers import Failures
from agentic_kernel_gemini.failures import CODES, explained

PER_DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
PER_MINUTE = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"


def error(status: int, message: Any, *details: Any, **headers: str) -> APIError:
    body = {"error": {"code": status, "message": message, "details": list(details)}}
    return APIError(status, body, httpx2.Response(status, headers=headers))


def quota(id: str) -> dict[str, Any]:
    kind = "type.googleapis.com/google.rpc.QuotaFailure"
    return {"@type": kind, "violations": [{"quotaId": id}]}


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (error(400, "API key not valid.", {"reason": "API_KEY_INVALID"}), "authentication"),
        (error(400, "User location is not supported for the API use."), "permission"),
        (
            error(400, "Request payload size exceeds the limit."),
            "request_too_large",
        ),
        (
            error(400, "The input token count exceeds the maximum number of tokens."),
            "context_length",
        ),
        (error(400, "Invalid value at 'contents'"), "invalid_request"),
        (
            error(404, "models/x is not found for API version v1beta, or is not supported."),
            "model_not_found",
        ),
        (error(404, "Publisher Model `projects/p/models/x` was not found."), "model_not_found"),
        (error(404, "Requested entity was not found."), "not_found"),
        (error(429, "You exceeded your current quota.", quota(PER_DAY)), "quota"),
        (error(429, "You exceeded your current quota.", quota(PER_MINUTE)), "rate_limit"),
        (error(429, "Your prepayment credits are depleted."), "quota"),
        (error(500, "Internal"), "server_error"),
        (error(503, "The model is overloaded."), "overloaded"),
        (error(302, "Found"), "bad_response"),
    ],
)
def test_an_error_has_its_name(given: APIError, name: str) -> None:
    failure = explained(Failures("gemini", CODES), given, None)
    assert failure is not None
    assert failure.code == f"gemini/{name}"


@pytest.mark.parametrize(
    ("given", "wait"),
    [
        (error(429, "x", quota(PER_MINUTE), {"retryDelay": "34.5s"}), 34_500),
        (error(429, "x", {"retryDelay": "34s"}, **{"retry-after": "7"}), 7_000),
        (error(429, "x", {"retryDelay": "soon"}), None),
        (error(429, "x"), None),
    ],
)
def test_how_long_to_wait_is_told(given: APIError, wait: int | None) -> None:
    failure = explained(Failures("gemini", CODES), given, None)
    assert failure is not None
    assert (failure.metadata or {}).get("retry_after_ms") == wait


@pytest.mark.parametrize("body", [[], "no", 3, {"error": "no"}, {"error": None}, None], ids=str)
def test_an_error_of_any_form_keeps_its_status(body: Any) -> None:
    failure = explained(Failures("gemini", CODES), APIError(403, body, httpx2.Response(403)), "r1")
    assert failure is not None
    assert failure.code == "gemini/permission"
    assert (failure.metadata or {})["request_id"] == "r1"


def test_credentials_of_google_cloud_that_cannot_be_refreshed_used_nothing() -> None:
    failure = explained(Failures("gemini", CODES), RefreshError("no"), None)  # type: ignore[no-untyped-call]
    assert failure is not None
    assert (failure.code, failure.usage) == ("gemini/authentication", NOTHING_USED)


def test_other_errors_are_not_explained() -> None:
    assert explained(Failures("gemini", CODES), ValueError("no"), None) is None
