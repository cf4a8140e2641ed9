"""Failures: maps the SDK's exceptions to the names that all providers share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from agentic_kernel_engine.loop import PlannerError
from agentic_kernel_engine.providers import Failures
from agentic_kernel_engine.providers import failures as names

IMPL: Final = "ollama"
"""The first part of the failure codes, and of the metadata keys by which a Task sets options; also
the ``runtime_kind`` of the Tasks that the runtime serves, unless it is given another."""

WORDS: Final = (
    (re.compile(r"model\b.{0,300}\bnot found|try pulling it|manifest: file does not exist"),
     names.MODEL_NOT_FOUND),
    (names.TOO_LONG, names.CONTEXT_LENGTH),
    (re.compile(r"usage limit"), names.QUOTA),
    (re.compile(r"server busy|maximum pending requests"), names.OVERLOADED),
    (re.compile(r"^unauthorized"), names.AUTHENTICATION),
)  # fmt: skip
"""Ollama has no error codes: patterns of its messages, in lower case, and the name of each; see
``server/routes.go`` and ``server/sched.go`` of github.com/ollama/ollama, November 2026."""
CODES: Final = {name: name for name in (*(name for _, name in WORDS), names.SERVER_ERROR)}


def explained(failures: Failures, error: Exception, advice: str) -> PlannerError | None:
    """Return the failure for an error that the server answered with; None for any other error.

    Args:
        failures: The factory of failures.
        error: The exception.
        advice: The remedy to name if the server does not have the model.
    """
    from ollama import ResponseError

    response = _response(error)
    if response is not None:
        message = _said(getattr(error, "error", None) or response.text)
        return _answered(failures, advice, response.status_code, message, response.headers)
    if isinstance(error, ResponseError):  # In the middle of a stream.
        return _answered(failures, advice, None, _said(error.error), {})
    return None


def _answered(
    failures: Failures, advice: str, status: int | None, message: str, headers: Mapping[str, str]
) -> PlannerError:
    words = message.lower()
    codes = [name for pattern, name in WORDS if pattern.search(words)]
    if status is None:
        codes.append(names.SERVER_ERROR)
    if codes and codes[0] == names.MODEL_NOT_FOUND:
        message = f"{message}; {advice}"
    return failures.answered(status, codes, message, headers=headers)


def _response(error: BaseException) -> Any:
    """Return the HTTP response of an error, because the SDK does not pass on its headers.

    The SDK itself fails with another error if the body is JSON, but not an object, or too deep.
    """
    import httpx
    from ollama import ResponseError

    cause = error.__context__
    if not isinstance(cause, httpx.HTTPStatusError):
        return None
    response = cause.response
    of_a_stream = isinstance(error, ResponseError) and error.status_code != response.status_code
    return None if of_a_stream else response


def _said(error: Any) -> str:
    """Return the message of an error; compatible servers give an object that holds it."""
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("error")
    return error if isinstance(error, str) and error else ""
