"""Listing: the models that a server offers, for `doctor`; without the vendor's SDK."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from .checks import Check

SECONDS: Final = 4.0
"""The most seconds to wait for a list; less than the time of all checks of an entry."""
MOST_BYTES: Final = 4 * 2**20
"""The most bytes of a list."""
SHOWN: Final = 12
"""The most names that are shown."""
LONGEST: Final = 80
"""The most characters of a name that are shown."""

_ADVICE: Final = "set a key that the server accepts"


async def models_check(
    name: str,
    address: str,
    variable: str,
    path: str,
    *,
    keys: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Check:
    """Ask a server for its models, with the key that a run would send there.

    The check fails only if the server refuses the key. Many servers have no list of models, and
    `server_check` tells of a server that does not answer.

    Args:
        name: The name of the check.
        address: The address that is used if the variable is not set.
        variable: The environment variable of the address.
        path: The path of the list below the address.
        keys: By environment variable of a key: the header that has the key, a colon and a template
            of its value with ``{}``. The first that is set counts; without one, nothing is sent.
            None if the server needs no key.
        headers: Further headers.
    """
    sent = dict(headers or {})
    if keys is not None:
        found = next((each for each in keys if os.environ.get(each)), None)
        if found is None:
            return Check(
                name, False, "not asked, because there is no key", f"set {next(iter(keys))}"
            )
        header, _, template = keys[found].partition(":")
        sent[header] = template.strip().format(os.environ[found])
    given = os.environ.get(variable) or address
    base = (given if "://" in given else f"http://{given}").rstrip("/")
    try:
        async with asyncio.timeout(SECONDS):
            listed = await asyncio.to_thread(_asked, f"{base}{path}", sent)
    except HTTPError as error:
        error.close()
        if error.code in (401, 403):
            return Check(name, False, f"the key is refused, with status {error.code}", _ADVICE)
        return Check(name, True, f"the server tells no list (status {error.code})")
    except (OSError, ValueError, HTTPException) as error:
        # The message may quote the address or a header.
        return Check(name, True, f"the server tells no list ({type(error).__name__})")
    names = sorted(_name(each) for each in listed)
    shown = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
    return Check(name, True, f"{len(names)}: {shown}" if names else "none")


def _asked(url: str, headers: Mapping[str, str]) -> list[Any]:
    """Return the entries of a list.

    Raises:
        OSError, HTTPException: The server cannot be reached, or refuses.
        ValueError: The answer is too long, or is not a list of models.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError("not an address of HTTP")
    request = Request(url, headers={**headers, "Accept-Encoding": "identity"})
    with build_opener(_NoRedirects).open(request, timeout=SECONDS) as response:
        body = response.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise ValueError("too long")
    told = json.loads(body)
    entries = (told.get("data") or told.get("models")) if isinstance(told, dict) else None
    if not isinstance(entries, list):
        raise ValueError("not a list of models")
    return entries


def _name(entry: Any) -> str:
    """Return the printable name of an entry."""
    found = (entry.get("id") or entry.get("name")) if isinstance(entry, dict) else None
    name = str(found or "?").removeprefix("models/")[:LONGEST]
    return "".join(each if each.isprintable() else "�" for each in name)


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects, because another server must not get the key."""

    def redirect_request(self, *args: Any) -> None:
        """Return no request."""
