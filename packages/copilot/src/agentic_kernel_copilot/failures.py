"""Failures: what goes wrong in the CLI or behind it, as codes that a program can branch on.

What the provider behind the CLI does wrong has the names that it has for every provider:
``copilot/rate_limit``, ``copilot/authentication``, ``copilot/context_length``, …; see
`agentic_kernel_engine.providers.failures`. Beside them are the CLI's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from copilot.session_events import SessionErrorData

from agentic_kernel_engine import TaskFailed
from agentic_kernel_engine.providers import Failures
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
    PERMISSION,
    QUOTA,
    RATE_LIMIT,
    SERVER_ERROR,
    TIMEOUT,
)

CLI_LOST: Final = "cli_lost"
"""The CLI died or did not answer, again and again."""
CLI_REFUSED: Final = "cli_refused"
"""The CLI refused what it was told to do."""
EMPTY_ANSWER: Final = "empty_answer"
"""The CLI was done without an answer."""

_CODES: Final[Mapping[str, str]] = {
    "authentication": AUTHENTICATION,
    "authorization": PERMISSION,
    "quota": QUOTA,
    "rate_limit": RATE_LIMIT,
    "context_limit": CONTEXT_LENGTH,
    "context_length_exceeded": CONTEXT_LENGTH,
    "exceed_context_size_error": CONTEXT_LENGTH,
    "content_filter": CONTENT_FILTER,
    "model_not_found": MODEL_NOT_FOUND,
    "insufficient_quota": QUOTA,
}
"""By the CLI's own name for the error, or the provider's."""
_SAID: Final[tuple[tuple[str, str], ...]] = (
    ("context size", CONTEXT_LENGTH),
    ("context length", CONTEXT_LENGTH),
    ("context window", CONTEXT_LENGTH),
    ("timed out", TIMEOUT),
    ("connection", CONNECTION),
    ("connect", CONNECTION),
    ("fetch failed", CONNECTION),
)
"""By a part of the message, where the rest says no more than that something is wrong."""
_VAGUE: Final = frozenset({BAD_RESPONSE, INVALID_REQUEST, SERVER_ERROR, NOT_FOUND})
_failures: Final = Failures("copilot", _CODES)


def answered(error: SessionErrorData) -> TaskFailed:
    """What a turn ended with, as the failure of its Task.

    The provider's own words count first, then its status, then the CLI's name for it, and a part
    of the message at last: the CLI calls much a failed query, and a 403 one of authentication.
    """
    codes: list[str | None] = [error.error_code, error.provider_error_type]
    request_id = error.service_request_id or error.provider_call_id
    found = _failures.answered(error.status_code, codes, error.message, request_id=request_id)
    if found.code.partition("/")[2] in _VAGUE:
        codes.append(error.error_type)
        found = _failures.answered(error.status_code, codes, error.message, request_id=request_id)
    if found.code.partition("/")[2] not in _VAGUE:
        return found
    said = error.message.lower()
    exact = next((known for part, known in _SAID if part in said), None)
    return found if exact is None else failure(exact, error.message, **(found.metadata or {}))


def failure(name: str, message: str, **metadata: Any) -> TaskFailed:
    """A failure of this name; no key gets into it."""
    return _failures.failure(name, message, **metadata)


def cut(text: str) -> TaskFailed:
    """The answer reached the model's limit before its end."""
    return failure(MAX_TOKENS, "the answer reached the limit of its length", text=text)


def clean(text: str) -> str:
    """A text from outside, short, without keys and fit to be stored."""
    return _failures.clean(text)[:2_000] or "(it said nothing)"
