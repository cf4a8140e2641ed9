"""Database: Tasks that are kept in Postgres, at a URL whose password nobody is shown."""

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

from .place import STATE_VARIABLE
from .text import command_line
from .vendors import install

SCHEMA: Final = "agentic_kernel"
"""The command's part of a database."""
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/|postgres(ql)?//")
_SCHEMES: Final = ("postgresql://", "postgres://")
_HOSTS: Final = re.compile(r"((\[[^]]*\]|[^][:,]*)(:[0-9]*)?(,|$))*")
_SECRETS: Final = {
    "oauth_client_secret",
    "password",
    "scram_client_key",
    "scram_server_key",
    "sslpassword",
}
"""Parameters that a URL may carry and nobody is shown."""


def is_address(state: str) -> bool:
    """Whether this names a server and not a folder; a folder that looks so is named ``./…``."""
    return _ADDRESS.match(state) is not None


class Database:
    """A Postgres database, and how the user named it: a `Place`.

    Args:
        url: ``postgresql://…``, which may carry a password.

    Raises:
        InvalidValue: It is no such URL, or does not say clearly where its password ends. It is
            not repeated.
    """

    lease: ClassVar[float] = 10.0
    """A process renews it while it lives."""

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
        """The store, its schema made or migrated if need be.

        Raises:
            CannotStart: Its package is not installed; the message says what to install.
            StoreError: The database cannot be reached, or is not fit.
        """
        made = installed().PostgresStore(self.url, schema=SCHEMA, lease=self.lease)
        async with made as store:
            yield store


def installed() -> ModuleType:
    """The package that reads and writes Postgres.

    Raises:
        CannotStart: It is not installed; the message says what to install.
    """
    try:
        return import_module("agentic_kernel_postgres")
    except ImportError as error:
        raise CannotStart(
            f"state in Postgres needs a package that is not installed: {install('postgres')}"
        ) from error


def _without_secrets(url: str) -> tuple[str, bool]:
    """The URL as it may be shown, and whether a secret was left out of it."""
    scheme, mark, rest = url.partition("://")
    if scheme + mark not in _SCHEMES:
        raise InvalidValue("--state", "is no postgresql:// URL; name such a folder as ./…")
    user, at, where = rest.rpartition("@")
    # Where a raw one of these stands, the driver ends the password early, and names the rest of it
    # as a host or a port in its errors.
    if re.search(r"[@/?#]", user):
        raise InvalidValue("--state", "write @ / ? # before the host as %40 %2F %3F %23")
    there, _, query = where.partition("?")
    if not _HOSTS.fullmatch(there.partition("/")[0]):
        raise InvalidValue("--state", "has a port that is no number; say //USER:PASSWORD@HOST")
    name, _, password = user.partition(":")
    asked = query.split("&") if query else []
    kept = [part for part in asked if unquote(part.partition("=")[0]) not in _SECRETS]
    shown = f"{scheme}://{name}{at}{there}" + ("?" + "&".join(kept) if kept else "")
    return shown, bool(password) or len(kept) < len(asked)
