"""Database: Tasks that are kept in Postgres, at a URL whose password is never shown."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from types import ModuleType
from typing import ClassVar, Final
from urllib.parse import unquote

from agentic_kernel import CannotStart, InvalidValue
from agentic_kernel_engine import Store

from .kinds import install
from .naming import STATE_VARIABLE
from .text import command_line

SCHEMA: Final = "agentic_kernel"
"""The Postgres schema that the command uses."""
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|postgres(ql)?//")
_SCHEMES: Final = ("postgresql://", "postgres://")
_HOSTS: Final = re.compile(r"((\[[^]]*\]|[^][:,]*)(:[0-9]*)?(,|$))*")
_SECRETS: Final = {
    "oauth_client_secret",
    "password",
    "scram_client_key",
    "scram_server_key",
    "sslpassword",
}
"""Parameters of a URL that are secrets and never shown."""


def is_postgres(state: str) -> bool:
    """True if ``state`` is a URL of Postgres, or looks like one with a slip of the pen."""
    return re.match(r"postgres(ql)?(:|//)", state, re.IGNORECASE) is not None


def is_address(state: str) -> bool:
    """True if ``state`` begins with a scheme. A folder with such a name is written as ``./…``."""
    return _ADDRESS.match(state) is not None


class Database:
    """A `Place` in a Postgres database, at the URL that the user gave.

    Args:
        url: ``postgresql://…``, which may carry a password.

    Raises:
        InvalidValue: The URL is not such a URL, or it is not clear where its password ends. The
            message does not repeat the URL.
    """

    lease: ClassVar[float] = 10.0
    """In seconds; a process renews its lease while it lives."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._shown, secret = _without_secrets(url)
        self._variable = secret and os.environ.get(STATE_VARIABLE) == url

    def __str__(self) -> str:
        return self._shown

    def command(self, *words: str) -> str:
        if self._variable:
            return f'agentic-kernel --state "${STATE_VARIABLE}" {command_line(words)}'
        return command_line(["agentic-kernel", "--state", self._shown, *words])

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        """Open the store; create or migrate its schema first if necessary.

        Raises:
            CannotStart: The package for Postgres is not installed; the message says how to
                install it.
            StoreError: The database cannot be reached, or is not suitable.
        """
        from agentic_kernel_engine.discovery import STORES, NoOptions, StoreEntry, find

        entry = find("postgresql", STORES)
        if entry is None:
            installed()  # Raises, unless the package is there without its metadata.
        assert isinstance(entry, StoreEntry)
        async with entry.open(self.url, NoOptions()) as store:
            yield store


def installed() -> ModuleType:
    """Import and return the package that reads and writes Postgres.

    Raises:
        CannotStart: The package is not installed; the message says how to install it.
    """
    try:
        return import_module("agentic_kernel_postgres")
    except ImportError as error:
        raise CannotStart(
            f"state in Postgres needs a package that is not installed: {install('postgres')}"
        ) from error


def _without_secrets(url: str) -> tuple[str, bool]:
    """Return the URL without its secrets, and True if it had any."""
    scheme, mark, rest = url.partition("://")
    if scheme + mark not in _SCHEMES:
        raise InvalidValue("--state", "is not a postgresql:// URL; if it is a folder, write ./…")
    user, at, where = rest.rpartition("@")
    # At one of these characters the driver ends the password, and takes the rest of the password
    # for a host or a port, which its errors show.
    if re.search(r"[@/?#]", user):
        raise InvalidValue(
            "--state", "in the user and the password, write @ / ? # as %40 %2F %3F %23"
        )
    there, _, query = where.partition("?")
    if not _HOSTS.fullmatch(there.partition("/")[0]):
        raise InvalidValue("--state", "has a port that is not a number; write //USER:PASSWORD@HOST")
    name, _, password = user.partition(":")
    asked = query.split("&") if query else []
    kept = [part for part in asked if unquote(part.partition("=")[0]) not in _SECRETS]
    shown = f"{scheme}://{name}{at}{there}" + ("?" + "&".join(kept) if kept else "")
    return shown, bool(password) or len(kept) < len(asked)
