"""Failures: maps the SDK's exceptions to the names that all providers share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from agentic_kernel_engine.loop import NOTHING_USED, PlannerError
from agentic_kernel_engine.providers import Failures, Malformed, unsent
from agentic_kernel_engine.providers import failures as names

IMPL: Final = "ollama"
"""The first part of the failure codes, and of the metadata keys by which a Task sets options."""

CODES: Final[Mapping[str, str]] = {
    name: name
    for name in (
        names.AUTHENTICATION,
        names.CONTEXT_LENGTH,
        names.MODEL_NOT_FOUND,
        names.OVERLOADED,
        names.QUOTA,
        names.SERVER_ERROR,
    )
}
"""Ollama has no error codes of its own: `WORDS` finds the name in the server's message."""

WORDS: Final = (
    (re.compile(r"model\b.{0,300}\bnot found|try pulling it|manifest: file does not exist"),
     names.MODEL_NOT_FOUND),
    (re.compile(r"context (?:length|window|size)|(?:prompt|input) is too long"),
     names.CONTEXT_LENGTH),
    (re.compile(r"usage limit"), names.QUOTA),
    (re.compile(r"server busy|maximum pending requests"), names.OVERLOADED),
    (re.compile(r"^unauthorized"), names.AUTHENTICATION),
)  # fmt: skip
"""Patterns of the server's messages, in lower case, and the name of each: ``server/routes.go`` and
``server/sched.go`` of github.com/ollama/ollama, November 2026."""


class Inconsistent(Malformed):
    """Error for a response that is not a valid answer."""


def translated(error: Exception, failures: Failures, advice: str) -> PlannerError:
    """Return the failure for an exception that a call of the SDK raised.

    Args:
        error: The exception.
        failures: The factory of failures.
        advice: The remedy to name if the server does not have the model.
    """
    import httpx
    from ollama import ResponseError

    from .transport import Refused

    none = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
    made = error.__context__ if type(error) is ConnectionError else error
    usage = NOTHING_USED if made is not None and unsent(made, none) else None
    response = _response(error)
    if response is not None:
        message = _said(getattr(error, "error", None) or response.text)
        return _answered(failures, advice, response.status_code, message, response.headers)
    if isinstance(error, ResponseError):  # In the middle of a stream.
        return _answered(failures, advice, None, _said(error.error), {})
    if isinstance(error, Refused | Malformed):
        return failures.failure(names.BAD_RESPONSE, str(error))
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return failures.failure(
            names.TIMEOUT,
            "the server did not answer in time; check that it works, or raise timeout= "
            f"({type(error).__name__})",
            usage=usage,
        )
    if isinstance(error, OSError | httpx.TransportError):
        cause = error.__context__ if type(error) is ConnectionError else error
        return failures.failure(names.CONNECTION, _told(cause or error), usage=usage)
    # Any other exception means that the SDK could not read the server's response.
    return failures.failure(
        names.BAD_RESPONSE, f"the server's response is not an answer: {_told(error)}"
    )


def _answered(
    failures: Failures,
    advice: str,
    status: int | None,
    message: str,
    headers: Mapping[str, str],
) -> PlannerError:
    words = message.lower()
    codes = [name for pattern, name in WORDS if pattern.search(words)]
    if status is None:
        codes.append(names.SERVER_ERROR)
    elif status < 400:
        codes, message = [], f"the server answered with status {status}; check the address"
    if codes and codes[0] == names.MODEL_NOT_FOUND:
        message = f"{message}; {advice}"
    return failures.answered(status, codes, message, headers=headers)


def _response(error: BaseException) -> Any:
    """Return the HTTP response of an error, because the SDK does not pass on its headers.

    The SDK itself fails with AttributeError or TypeError if the body is JSON, but not an object.
    """
    import httpx
    from ollama import ResponseError

    cause = error.__context__
    if not isinstance(cause, httpx.HTTPStatusError):
        return None
    response = cause.response
    if isinstance(error, ResponseError):
        return response if error.status_code == response.status_code else None
    return response if isinstance(error, AttributeError | TypeError) else None


def _said(error: Any) -> str:
    """Return the message of an error; compatible servers give an object that holds it."""
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("error")
    return error if isinstance(error, str) and error else "the server gives no reason"


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
