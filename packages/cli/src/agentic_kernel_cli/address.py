"""Address: Tasks that are kept at a URL, by the store that a package offers for its scheme."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Store

from .naming import STATE_VARIABLE
from .text import command_line

if TYPE_CHECKING:
    from agentic_kernel_engine.discovery import StoreEntry


@dataclass(frozen=True)
class Address:
    """A `Place` at a URL. It can be sent to another process, which loads the package itself."""

    url: str
    shown: str
    """The URL without its secrets."""
    lease: float

    @classmethod
    def of(cls, url: str) -> Address:
        """Read a URL.

        Raises:
            InvalidValue: No installed package offers a store for its scheme, its parameters are not
                those of the store, or it is not clear where its password ends. The message does
                not repeat the URL.
            Unusable: The package that offers it cannot be used.
        """
        entry = _entry(url)
        _options(entry, url)
        return cls(url, _without_secrets(url, entry.secret), entry.lease)

    def __str__(self) -> str:
        return self.shown

    def command(self, *words: str) -> str:
        """See `Place`."""
        if self.shown != self.url and os.environ.get(STATE_VARIABLE) == self.url:
            return f'agentic-kernel --state "${STATE_VARIABLE}" {command_line(words)}'
        return command_line(["agentic-kernel", "--state", self.shown, *words])

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        """Open the store."""
        entry = _entry(self.url)
        async with entry.open(self.url, _options(entry, self.url)) as store:
            yield store


def _entry(url: str) -> StoreEntry[Any]:
    from agentic_kernel_engine.discovery import STORES, StoreEntry, found

    scheme = url.partition(":")[0].lower()
    there = found(STORES)
    if scheme not in there:
        usable = ", ".join(f"{name}:" for name, each in there.items() if not each.problem)
        raise InvalidValue(
            "--state",
            f"no package that is installed here offers a store for {ascii(scheme)[:40]}; use one "
            f"of {usable}, or a folder, written as ./… if its name looks like a URL",
        )
    entry = there[scheme].load()
    assert isinstance(entry, StoreEntry)  # The group has no others.
    return entry


def _options(entry: StoreEntry[Any], url: str) -> Any:
    from agentic_kernel_engine.discovery import read_options

    given = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    return read_options(entry, given, "the parameters of --state")


def _without_secrets(url: str, secret: object) -> str:
    scheme, _, rest = url.partition(":")
    authority, path, query = "", rest, ""
    if rest.startswith("//"):
        ends = re.search(r"[/?#]", rest[2:])
        cut = len(rest) if ends is None else 2 + ends.start()
        authority, path = rest[2:cut], rest[cut:]
        # A password with one of these characters would end here, and its rest would be shown.
        if ":" in authority and "@" not in authority and "@" in path:
            raise InvalidValue(
                "--state", "in the user and the password, write @ / ? # as %40 %2F %3F %23"
            )
        user, at, host = authority.rpartition("@")
        authority = f"//{user.partition(':')[0]}{at}{host}"
    path, mark, query = path.partition("?")
    kept = [part for part in query.split("&") if parse_qsl(part, True) and not _is(part, secret)]
    return f"{scheme}:{authority}{path}" + (mark + "&".join(kept) if kept else "")


def _is(part: str, secret: Any) -> bool:
    return parse_qsl(part, True)[0][0] in secret
