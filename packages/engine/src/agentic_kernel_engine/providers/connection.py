"""Connection: a request that a lost connection kept from the server, and the failure of a call."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from ..plans.ending import PlannerError
from ..plans.plan import NOTHING_USED, Usage
from . import failures as names
from .failures import Failures

T = TypeVar("T")

_LIBRARIES: Final = ("httpx", "httpx2")
"""The HTTP libraries that a client of the user's own may use, whichever the SDK itself uses."""

_TRIES: Final = 3
"""The most times that a request is sent: several kept-alive connections may have been closed."""
_HINT: Final = re.compile(r"For further information visit \S+")
"""The hint that pydantic adds to each fault that it finds."""
_DEEPEST: Final = 10
"""The most causes of an exception that are looked at."""


async def sent(
    request: Any, send: Callable[[], Awaitable[T]], lost: tuple[type[Exception], ...]
) -> T:
    """Send a request and return its answer; send it again if no byte of it was written.

    A server may close a kept-alive connection without notice, and llama.cpp's server does so after
    every stream. If the client notices before it has written anything, the server cannot have begun
    to work, and a call that is sent again costs nothing. If anything was written, only the caller
    may repeat the call, because it has to reserve the cost again.

    Args:
        request: An httpx request; this function sets its ``trace`` extension.
        send: Sends the request.
        lost: The exceptions that ``send`` raises if the connection is lost.
    """
    tries = 0
    while True:
        tries += 1
        way = request.extensions["trace"] = _Way(request)
        try:
            return await send()
        except lost:
            if tries == _TRIES or not way.unwritten:
                raise


def broken(
    failures: Failures, error: Exception, http: Any, opened: Sequence[Any] = (), sdk: Any = None
) -> PlannerError:
    """Return the failure for an exception that the vendor's own reading of errors does not explain.

    If the server refused the request, its status is the failure, whatever the SDK could not read
    of the body.

    Args:
        failures: The factory of failures.
        error: The exception.
        http: The SDK's HTTP library, imported.
        opened: The HTTP responses of the call.
        sdk: The SDK, imported; its ``APITimeoutError`` and ``APIConnectionError`` count whatever
            caused them, because a client of the user's own may use another HTTP library.
    """
    for response in opened:
        if response.status_code >= 300:
            status, headers = response.status_code, response.headers
            unread = f"the server answered with status {status}; its body was not read"
            return failures.answered(
                status,
                (),
                _body(response) or f"{unread} ({_said(error)})",
                headers=headers,
                request_id=headers.get("x-request-id") or headers.get("request-id"),
            )
    causes = _causes(error)
    kinds = partial(_kinds, (http, *map(sys.modules.get, _LIBRARIES)))
    none = kinds("ConnectError", "ConnectTimeout", "PoolTimeout")
    late, lost = kinds("TimeoutException"), kinds("TransportError")
    usage = NOTHING_USED if unsent(error, none) else None
    for cause in causes:
        if isinstance(cause, Refused):
            return failures.failure(names.BAD_RESPONSE, str(cause))
        if isinstance(cause, (TimeoutError, *late)):
            return _late(failures, cause, usage)
        if isinstance(cause, (OSError, *lost)):
            told = next((each for each in causes if isinstance(each, lost)), cause)
            return _lost(failures, told, usage)
    if not any(isinstance(cause, kinds("HTTPError", "InvalidURL")) for cause in causes):
        if isinstance(error, _kinds((sdk,), "APITimeoutError")):
            return _late(failures, error, None)
        if isinstance(error, _kinds((sdk,), "APIConnectionError")):
            return _lost(failures, causes[1] if len(causes) > 1 else error, None)
    # Any other exception means that the SDK could not read the server's response.
    return failures.failure(
        names.BAD_RESPONSE, f"the server's response is not an answer: {_said(error)}"
    )


def _late(failures: Failures, cause: BaseException, usage: Usage | None) -> PlannerError:
    return failures.failure(
        names.TIMEOUT,
        "the server did not answer in time; check that it works, or raise timeout= "
        f"({type(cause).__name__})",
        usage=usage,
    )


def _lost(failures: Failures, cause: BaseException, usage: Usage | None) -> PlannerError:
    return failures.failure(names.CONNECTION, f"the connection failed: {_said(cause)}", usage=usage)


def _kinds(modules: Sequence[Any], *called: str) -> tuple[type[BaseException], ...]:
    """Return the exceptions of these names; a module may be None, or not have them."""
    found = (getattr(module, name, None) for module in modules for name in called)
    return tuple(each for each in found if each is not None)


def unsent(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    """True if the request of a failed call never left: no connection was made for it.

    Args:
        error: The exception of the call, or of the SDK around it.
        kinds: The HTTP library's exceptions for a connection that was not made.
    """
    return any(isinstance(cause, kinds) for cause in _causes(error))


def _causes(error: BaseException) -> list[BaseException]:
    """Return an exception and its causes; an SDK may hide the cause of its own `OSError`."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and len(causes) < _DEEPEST:
        causes.append(cause)
        hidden = cause.__context__ if isinstance(cause, OSError) else None
        cause = cause.__cause__ or hidden
    return causes


def _body(response: Any) -> str:
    """Return the body of a response, as far as it was read whole."""
    try:
        return str(response.text)
    except RuntimeError:  # httpx's for a body that was not read.
        return ""


def _said(error: BaseException) -> str:
    text = " ".join(_HINT.sub("", str(error)).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class Refused(Exception):
    """Error for a response that the client does not read: it is too long or compressed."""


class _Way:
    """The progress of one request, by the trace events of httpcore's page on extensions."""

    def __init__(self, request: Any) -> None:
        self.unwritten = True
        """True while the request uses a kept-alive connection and no byte of it was written."""
        self._request = request

    async def __call__(self, event: str, _: Any) -> None:
        if ".connect_" in event or event.endswith(".send_request_headers.complete"):
            self.unwritten = False
            self._request.extensions.pop("trace", None)  # Later events tell nothing more.
