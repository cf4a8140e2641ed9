"""Failures: one vocabulary of what can go wrong with a vendor, whoever it is.

A code is ``<impl>/<name>``, and the names are the same for all, so that a program branches on them
without knowing the vendor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final

from ..plans.ending import PlannerError
from .secrets import REDACTED, Secrets

RATE_LIMIT: Final = "rate_limit"
"""Too many requests or tokens in a short time. Metadata: ``retry_after_ms``, if the vendor said."""
QUOTA: Final = "quota"
"""What was paid for is used up; waiting does not help."""
AUTHENTICATION: Final = "authentication"
"""The key is not accepted."""
PERMISSION: Final = "permission"
"""The key may not do that."""
MODEL_NOT_FOUND: Final = "model_not_found"
"""The server has no such model, or does not show it to this key."""
NOT_FOUND: Final = "not_found"
"""The server has nothing at this address; is the base URL right?"""
INVALID_REQUEST: Final = "invalid_request"
"""The server does not accept the request."""
REQUEST_TOO_LARGE: Final = "request_too_large"
"""The request has more bytes than the server takes."""
CONTEXT_LENGTH: Final = "context_length"
"""The conversation does not fit the model's context."""
CONTENT_FILTER: Final = "content_filter"
"""The vendor's filter stopped the prompt or the answer."""
REFUSAL: Final = "refusal"
"""The model refuses. Metadata: ``text``, what it said, bounded."""
MAX_TOKENS: Final = "max_tokens"
"""The answer reached its limit before its end. Metadata: ``text``, its beginning, bounded."""
OVERLOADED: Final = "overloaded"
"""The vendor has too much to do."""
SERVER_ERROR: Final = "server_error"
"""The server failed."""
TIMEOUT: Final = "timeout"
"""The server did not answer, or stopped answering, for too long."""
CONNECTION: Final = "connection"
"""The server cannot be reached, or the connection broke."""
BAD_RESPONSE: Final = "bad_response"
"""The server sent something that is no answer."""
NO_PRICE: Final = "no_price"
"""The run has a limit of cost, and the model no price that could be held against it."""
BAD_OPTIONS: Final = "bad_options"
"""An option in the Task's metadata is not valid."""

TRANSIENT: Final = (RATE_LIMIT, OVERLOADED, SERVER_ERROR, TIMEOUT, CONNECTION, BAD_RESPONSE)
"""After these it makes sense to ask again."""

BY_STATUS: Final[Mapping[int, str]] = {
    400: INVALID_REQUEST,
    401: AUTHENTICATION,
    402: QUOTA,
    403: PERMISSION,
    404: NOT_FOUND,
    408: TIMEOUT,
    409: SERVER_ERROR,
    413: REQUEST_TOO_LARGE,
    422: INVALID_REQUEST,
    429: RATE_LIMIT,
    503: OVERLOADED,
    504: TIMEOUT,
    529: OVERLOADED,
}
"""By the status of the answer, where the vendor says nothing more exact."""

MAX_MESSAGE: Final = 2_000
"""How long a message may be, in characters."""
MAX_TEXT: Final = 500
"""How much of an answer goes into the metadata of a failure, in characters."""
_MOST_READ: Final = 65_536
"""How much of a text is looked at, in characters, before it is cut to one of these."""
_LONGEST_WAIT: Final = 86_400_000
"""Milliseconds; what a server asks for beyond a day is taken for a day."""
_KEYS: Final = re.compile(
    r"\b(?:sk|pk|rk|key|ghp|gho|github_pat|xox[a-z])[-_][A-Za-z0-9*._-]{6,}"
    r"|\b[Bb]earer\s+[A-Za-z0-9._~+/=-]{6,}"
)
# What steers a terminal, or hides and turns around what people read.
_CONTROL: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)
_now: Final = partial(datetime.now, UTC)


class Failures:
    """Makes the failures of one vendor; no secret gets into any of them.

    Args:
        impl: The first part of every code.
        codes: What the vendor's own codes and error types stand for.
        secrets: What must not be in a failure, in any form that `Secrets` finds, beside whatever
            looks like a key.
    """

    def __init__(
        self, impl: str, codes: Mapping[str, str], secrets: Secrets | Collection[str] = ()
    ) -> None:
        self._impl = impl
        self._codes = codes
        self._secrets = secrets if isinstance(secrets, Secrets) else Secrets(secrets)

    def failure(self, name: str, message: str, **metadata: Any) -> PlannerError:
        """A failure; parts of the metadata that are None are left out."""
        shown = {
            key: self.clean(value)[:MAX_TEXT]
            if isinstance(value, str)
            else self._secrets.value(value)
            for key, value in metadata.items()
            if value is not None
        }
        text = self.clean(message)[:MAX_MESSAGE]
        return PlannerError(f"{self._impl}/{name}", text or name, shown or None)

    def answered(
        self,
        status: int | None,
        codes: Collection[Any],
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        request_id: str | None = None,
    ) -> PlannerError:
        """The failure behind an error that the vendor answered with.

        Args:
            status: The HTTP status; None for an error within a stream.
            codes: The vendor's code, type and the like, the most exact first.
            message: The vendor's.
            headers: Of the answer.
            request_id: The vendor's name of the request.
        """
        named = next((self._codes[code] for code in codes if code in self._codes), None)
        return self.failure(
            named or by_status(status),
            message,
            status=status,
            retry_after_ms=retry_after_ms(headers or {}),
            request_id=request_id,
        )

    def clean(self, text: str) -> str:
        """A text without secrets, control characters, and what no store would keep."""
        text = self._secrets.clean(text[:_MOST_READ])
        text = _CONTROL.sub(" ", _KEYS.sub(REDACTED, text))
        return text.encode("utf-8", "replace").decode()


def by_status(status: int | None) -> str:
    """What a status stands for where nothing more exact is known."""
    if status is None or status < 400:
        return BAD_RESPONSE
    return BY_STATUS.get(status, SERVER_ERROR if status >= 500 else INVALID_REQUEST)


def retry_after_ms(headers: Mapping[str, str], now: Callable[[], datetime] = _now) -> int | None:
    """How long the server wants to be left alone; None if it does not say, or says nonsense.

    ``retry-after-ms``, or ``Retry-After`` in seconds or as a date (RFC 9110, section 10.2.3).
    """
    for name, unit in (("retry-after-ms", 1.0), ("retry-after", 1000.0)):
        value = headers.get(name, "").strip()
        if not value:
            continue
        try:
            wait = float(value) * unit
        except ValueError:
            try:
                wait = (parsedate_to_datetime(value) - now()).total_seconds() * 1000
            except (ValueError, TypeError, OverflowError):
                continue
        if wait == wait:  # Not NaN.
            return int(max(0.0, min(wait, _LONGEST_WAIT)))
    return None
