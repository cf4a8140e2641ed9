"""Credentials: the caller of a request, from its API key, or because it came over loopback."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from starlette.requests import HTTPConnection

from ..caller import SCOPES, Caller
from ..errors import Refused
from .keys import Keys

_BEARER: Final = re.compile(r"[Bb]earer +([\x21-\x7e]{1,512})", re.ASCII)
_TRACE: Final = re.compile(
    r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?", re.ASCII
)
_EVERYTHING: Final = frozenset(SCOPES)


def trace_of(connection: HTTPConnection) -> str:
    """The id of the trace that a request belongs to, from its ``traceparent``; empty without one.

    W3C Trace Context, level 1: a malformed header counts as none.
    """
    header = connection.headers.get("traceparent", "")
    found = _TRACE.fullmatch(header) if len(header) <= 512 else None
    return found[1] if found and not header.startswith("ff") else ""


def bearer(connection: HTTPConnection) -> str | None:
    """The key that a request brings; None if it brings none, or several."""
    given = connection.headers.getlist("authorization")
    found = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
    return found[1] if found else None


class KeyCredentials:
    """Finds callers by their API keys, sent as ``Authorization: Bearer …``.

    Nothing else in a request decides the principal or the tenant (R19).
    """

    def __init__(
        self, keys: Keys, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._keys = keys
        self._clock = clock

    async def __call__(self, connection: HTTPConnection) -> Caller:
        """The caller.

        Raises:
            Refused: There is no key, or several, or the key is unknown, expired or revoked.
        """
        if "authorization" not in connection.headers:
            raise Refused("UNAUTHORIZED", "send an API key as Authorization: Bearer KEY")
        text = bearer(connection)
        key = None if text is None else self._keys.find(text, self._clock())
        if key is None:
            # The same text for every reason, so that a guess learns nothing.
            raise Refused("UNAUTHORIZED", "the API key is not valid; use one that is in force")
        return Caller(key.principal, key.tenant, key.scopes, trace_of(connection))


class LoopbackCredentials:
    """The caller of a server without keys, which listens on a loopback address only.

    A page in a browser on the same machine can reach such an address too. So a request that a page
    of another origin sent is refused: by its ``Origin``, by its ``Referer``, by ``Sec-Fetch-Site``
    (https://www.w3.org/TR/fetch-metadata/), which browsers send where they send no ``Origin``, and
    by the name in its ``Host``.
    """

    async def __call__(self, connection: HTTPConnection) -> Caller:
        """The unnamed caller with all scopes.

        Raises:
            Refused: A page of another site sent the request.
        """
        host = connection.headers.get("host", "")
        if not is_loopback(_name(host)):
            raise Refused(
                "FORBIDDEN",
                "a server without API keys answers only under localhost, 127.0.0.1 or [::1]",
            )
        headers = connection.headers
        own = (f"http://{host}", f"https://{host}")
        origin, referer = headers.get("origin"), headers.get("referer")
        if (
            (origin is not None and origin not in own)
            or headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
            or (referer is not None and not referer.startswith(tuple(f"{each}/" for each in own)))
        ):
            raise Refused("FORBIDDEN", "a page of another site sent this request; call it directly")
        return Caller(scopes=_EVERYTHING, trace=trace_of(connection))


def is_loopback(name: str) -> bool:
    """True for ``localhost`` and for addresses of the loopback network."""
    if name.lower() in ("localhost", "localhost."):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _name(host: str) -> str:
    """The name in a ``Host`` header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
