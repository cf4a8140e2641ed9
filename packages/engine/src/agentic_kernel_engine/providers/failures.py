"""Failures: one vocabulary of failures for all vendors.

A code is ``<impl>/<name>``. The names are the same for all vendors, so that a program can branch on
them without knowing the vendor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final

from ..plans.ending import PlannerError
from ..plans.plan import NOTHING_USED, Usage
from .remnants import without_remnants
from .secrets import REDACTED, Secrets

RATE_LIMIT: Final = "rate_limit"
"""Too many requests or tokens in a short time. Metadata: ``retry_after_ms``, if the vendor said."""
QUOTA: Final = "quota"
"""The paid quota is used up; waiting does not help."""
AUTHENTICATION: Final = "authentication"
"""The key is not accepted."""
PERMISSION: Final = "permission"
"""The key is not allowed to make this request."""
MODEL_NOT_FOUND: Final = "model_not_found"
"""The server has no such model, or does not show it to this key."""
NOT_FOUND: Final = "not_found"
"""The server has nothing at this address; check the base URL."""
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
"""The vendor's servers are overloaded."""
SERVER_ERROR: Final = "server_error"
"""The server failed."""
TIMEOUT: Final = "timeout"
"""The server did not answer, or stopped answering, for too long."""
CONNECTION: Final = "connection"
"""The server cannot be reached, or the connection broke."""
BAD_RESPONSE: Final = "bad_response"
"""The server sent something that is not a valid answer."""
NO_PRICE: Final = "no_price"
"""The run has ``max_cost``, but the model has no price."""
BAD_OPTIONS: Final = "bad_options"
"""An option in the Task's metadata is not valid."""

TOO_LONG: Final = re.compile(
    r"context (?:length|window|size)|(?:prompt|input) is too long", re.IGNORECASE
)
"""Words of servers that have no error code for `CONTEXT_LENGTH`."""

TRANSIENT: Final = (RATE_LIMIT, OVERLOADED, SERVER_ERROR, TIMEOUT, CONNECTION, BAD_RESPONSE)
"""The failures after which a retry makes sense."""

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
"""The names by HTTP status, if the vendor says nothing more exact."""

MAYBE_WORKED: Final = frozenset({408, 409, 425, 499})
"""The statuses from 400 to 499 after which the server may have worked on the request."""
MAYBE_CHARGED: Final = (CONTENT_FILTER, CONTEXT_LENGTH)
"""The refusals that some vendor charges for: Azure does so, because it has read the prompt; see
"Manage costs" in its documentation of Azure OpenAI."""

MAX_MESSAGE: Final = 2_000
"""The longest message, in characters."""
MAX_TEXT: Final = 500
"""The longest text in the metadata of a failure, in characters."""
_MOST_READ: Final = 16_384
"""The most characters of a text that are searched for secrets, before the text is cut to one of
the lengths above. The search of the worst text takes some tens of milliseconds."""
_LONGEST_WAIT: Final = 86_400_000
"""The longest wait, in milliseconds; if a server asks for more than a day, a day is taken."""
_NO_CODES: Final[Mapping[str, str]] = {}
_STATUS: Final = re.compile(r"[45]\d\d")
_BLANK: Final = re.compile(
    r"""(?:Error code: \d{3}(?: - )?|\d{3} None\. )?"""
    r"""(?:[\s{}\[\]"':,]|error|message|detail|null|None)*"""
)
"""A message that says nothing, e.g. an empty JSON object; an SDK may put the status before it."""
_KEYS: Final = re.compile(
    r"\b(?:sk|pk|rk|key|ghp|gho|github_pat|xox[a-z])[-_][A-Za-z0-9*._-]{6,}"
    r"|\b[Bb]earer\s+[A-Za-z0-9._~+/=-]{6,}"
)
# Characters that steer a terminal.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
# Characters that are not seen, or that reverse the text that people read; see Unicode's property
# Default_Ignorable_Code_Point. They are left out, because they may split what looks like a key.
_HIDDEN: Final = re.compile(
    r"[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_now: Final = partial(datetime.now, UTC)


class Failures:
    """Makes the failures of one vendor; no secret gets into any of them.

    Args:
        impl: The first part of every code.
        codes: The names for the vendor's own codes and error types.
        secrets: The secrets that must not be in a failure, in any form that `Secrets` finds, nor in
            parts; see `remnants`. Text that looks like a key is removed, too.
        vague: The names for those of the vendor's codes that say less than a status; they count if
            there is no status.
    """

    def __init__(
        self,
        impl: str,
        codes: Mapping[str, str],
        secrets: Secrets | Collection[str] = (),
        vague: Mapping[str, str] = _NO_CODES,
    ) -> None:
        self._impl = impl
        self._codes = codes
        self._vague = vague
        self._secrets = secrets if isinstance(secrets, Secrets) else Secrets(secrets)

    def failure(
        self, name: str, message: str, *, usage: Usage | None = None, **metadata: Any
    ) -> PlannerError:
        """A failure; parts of the metadata that are None are left out.

        Args:
            usage: See `PlannerError`.
        """
        shown = {
            key: self.clean(value)[:MAX_TEXT]
            if isinstance(value, str)
            else self._secrets.value(value)
            for key, value in metadata.items()
            if value is not None
        }
        text = self.clean(message)[:MAX_MESSAGE]
        return PlannerError(f"{self._impl}/{name}", text or name, shown or None, usage=usage)

    def answered(
        self,
        status: int | None,
        codes: Collection[Any],
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        request_id: str | None = None,
        begun: bool = False,
    ) -> PlannerError:
        """The failure for an error that the vendor answered with.

        Its usage is `NOTHING_USED` if the status says that the vendor refused the request before
        any work. Otherwise it is not known.

        Args:
            status: The HTTP status; None for an error within a stream.
            codes: The vendor's code, type and the like, the most exact first.
            message: The vendor's message.
            headers: The headers of the answer.
            request_id: The vendor's id of the request.
            begun: True if the error came within an answer, so that the vendor may have worked.
        """
        if status is not None and status < 400:
            codes = ()
            message = f"the server answered with status {status}, and no redirects are followed; "
            message += "check the address"
        named = next((self._codes[code] for code in codes if code in self._codes), None)
        if named is None and status is None:
            # Within a stream, some servers tell the status as the code.
            status = next((int(code) for code in codes if _STATUS.fullmatch(str(code))), None)
            begun = True
        if named is None and status is None:
            named = next((self._vague[code] for code in codes if code in self._vague), None)
        if _BLANK.fullmatch(message):
            told = "an error" if status is None else f"status {status}"
            message = f"the server answered with {told}, and gave no message"
        name = named or by_status(status)
        return self.failure(
            name,
            message,
            usage=None if begun or not _refused(status, name) else NOTHING_USED,
            status=status,
            retry_after_ms=retry_after_ms(headers or {}),
            request_id=request_id,
        )

    def clean(self, text: str) -> str:
        """The text without secrets, control characters, and characters that no store keeps."""
        text = self._secrets.clean(text[:_MOST_READ])
        text = _HIDDEN.sub("", without_remnants(text, self._secrets.keys))
        text = _CONTROL.sub(" ", _KEYS.sub(REDACTED, text))
        return text.encode("utf-8", "replace").decode()


def _refused(status: int | None, name: str) -> bool:
    """True if a vendor that answers with this status has not worked on the request."""
    return (
        status is not None
        and 400 <= status < 500
        and status not in MAYBE_WORKED
        and name not in MAYBE_CHARGED
    )


def by_status(status: int | None) -> str:
    """The name for an HTTP status, if nothing more exact is known."""
    if status is None or status < 400:
        return BAD_RESPONSE
    return BY_STATUS.get(status, SERVER_ERROR if status >= 500 else INVALID_REQUEST)


def codes_of(codes: Mapping[str, str]) -> dict[str, str]:
    """Return the name of each code, from the codes of each name, separated by spaces."""
    return {code: name for name, several in codes.items() for code in several.split()}


def retry_after_ms(headers: Mapping[str, str], now: Callable[[], datetime] = _now) -> int | None:
    """Milliseconds that the server asks to wait; None if it does not say, or the value is invalid.

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
