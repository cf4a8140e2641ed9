"""Failures: the errors of the CLI and of its provider, as codes that a program can branch on.

An error of the provider behind the CLI has the same name as for every other provider:
``copilot/rate_limit``, ``copilot/authentication``, ``copilot/context_length``, …; see
`agentic_kernel_engine.providers.failures`. The CLI's own errors are the codes below.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from copilot.session_events import ModelCallFailureData, SessionErrorData

from agentic_kernel_engine import TaskFailed
from agentic_kernel_engine.providers import Failures, Secrets, codes_of, secrets_of
from agentic_kernel_engine.providers.failures import (
    AUTHENTICATION,
    BAD_RESPONSE,
    CONNECTION,
    CONTENT_FILTER,
    CONTEXT_LENGTH,
    INVALID_REQUEST,
    MAX_TOKENS,
    MODEL_NOT_FOUND,
    NOT_FOUND,
    OVERLOADED,
    PERMISSION,
    QUOTA,
    RATE_LIMIT,
    REFUSAL,
    SERVER_ERROR,
    TIMEOUT,
)

CLI_LOST: Final = "cli_lost"
"""The CLI died or did not answer several times in a row."""
CLI_REFUSED: Final = "cli_refused"
"""The CLI refused a request."""
EMPTY_ANSWER: Final = "empty_answer"
"""The CLI stopped without an answer."""

_CODES: Final = codes_of(
    {
        AUTHENTICATION: "authentication",
        PERMISSION: "authorization",
        QUOTA: "quota insufficient_quota billing_error",
        RATE_LIMIT: "rate_limit",
        CONTEXT_LENGTH: "context_limit context_length_exceeded exceed_context_size_error",
        CONTENT_FILTER: "content_filter",
        MODEL_NOT_FOUND: "model_not_found",
        OVERLOADED: "overloaded_error",
    }
)
"""The failure's name, by the CLI's or the provider's name for the error."""
_IN_STREAM: Final = frozenset({"server_error", "api_error"})
"""The provider's types of error that mean a fault of the server if there is no status."""
_SAID: Final[tuple[tuple[str, str], ...]] = (
    ("too long", CONTEXT_LENGTH),
    ("context size", CONTEXT_LENGTH),
    ("context length", CONTEXT_LENGTH),
    ("context window", CONTEXT_LENGTH),
    ("timed out", TIMEOUT),
    ("connect", CONNECTION),
    ("fetch failed", CONNECTION),
    ("error sending request", CONNECTION),
)
"""The failure's name, by a part of the message; used if the other facts are too vague."""
_LOGIN: Final = "No GitHub OAuth token"
"""A part of the CLI's message if it has neither a login nor a provider."""
_VAGUE: Final = frozenset({BAD_RESPONSE, INVALID_REQUEST, SERVER_ERROR, NOT_FOUND})
_keys: Final[set[str]] = set()
_failures = Failures("copilot", _CODES)


def keep(keys: Iterable[str]) -> None:
    """Remove these keys, from now on, from every text that this process passes on of a session."""
    global _failures
    _keys.update(keys)
    _failures = Failures("copilot", _CODES, secrets())


def secrets() -> Secrets:
    """The keys that this process gave to the CLI."""
    return secrets_of(*sorted(_keys))


def answered(error: SessionErrorData, failed: ModelCallFailureData | None = None) -> TaskFailed:
    """The failure of a Task whose turn ended with this error.

    The provider's own error code counts first, then its status, then the CLI's name for the error,
    and last a part of the message. The CLI's name comes late, because the CLI calls many errors a
    failed query, and a 403 an error of authentication.

    Args:
        error: The CLI's error.
        failed: The last request to the provider, if it failed. It is needed because the CLI's error
            leaves out most of the provider's.
    """
    if _LOGIN in error.message:
        return failure(
            AUTHENTICATION,
            "the Copilot CLI has no GitHub login: set COPILOT_GITHUB_TOKEN or GH_TOKEN, or give a "
            "provider of your own",
        )
    status, codes = error.status_code, [error.error_code, error.provider_error_type]
    request_id = error.service_request_id or error.provider_call_id
    if failed is not None:
        status = status or failed.status_code
        codes += [failed.error_code, failed.error_type]
    found = _failures.answered(status, codes, error.message, request_id=request_id)
    if found.code.partition("/")[2] in _VAGUE:
        codes.append(error.error_type)
        found = _failures.answered(status, codes, error.message, request_id=request_id)
    if found.code.partition("/")[2] not in _VAGUE:
        return found
    if status is None and not _IN_STREAM.isdisjoint(codes):
        return failure(SERVER_ERROR, error.message, **(found.metadata or {}))
    said = error.message.lower()
    exact = next((known for part, known in _SAID if part in said), None)
    return found if exact is None else failure(exact, error.message, **(found.metadata or {}))


def failure(name: str, message: str, **metadata: Any) -> TaskFailed:
    """A failure of this name; the kept keys are removed from its text."""
    return _failures.failure(name, message, **metadata)


def unfit(finish: str, text: str, refusal: str) -> TaskFailed | None:
    """The failure of an answer that cannot be used; None if it can be used.

    Args:
        finish: The provider's word for the reason why the model stopped.
        text: The model's text until then.
        refusal: The model's text if it refuses.
    """
    if refusal or finish == "refusal":
        return failure(REFUSAL, "the model refuses", text=refusal or text)
    if finish == "content_filter":
        return failure(CONTENT_FILTER, "the provider's filter stopped the answer", text=text)
    if finish == "length":
        return failure(
            MAX_TOKENS,
            "the provider cut the answer off at its limit of output tokens; raise that limit, or "
            "ask for a shorter answer",
            text=text,
        )
    return None


def clean(text: str) -> str:
    """A text from outside, short, without keys and fit to be stored."""
    return _failures.clean(text)[:2_000] or "(it said nothing)"
