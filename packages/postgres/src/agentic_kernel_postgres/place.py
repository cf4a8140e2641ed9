"""Place: where a database is, and what messages call it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool

from agentic_kernel import InvalidValue
from agentic_kernel_engine.errors import StoreError

from .embedded import embedded

_FOLDER: Final = Path(".agentic-kernel") / "postgres"
_DEFAULTS: Final = {
    "application_name": "agentic-kernel",
    "connect_timeout": "10",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "target_session_attrs": "primary",
    "tcp_user_timeout": "10000",
}
"""How to connect, where the place does not say it otherwise."""


def check_place(place: Any) -> Any:
    """What a caller gives as the place, if it may be one.

    Raises:
        InvalidValue: It is of another type.
    """
    if place is None or isinstance(place, str | AsyncConnectionPool):
        return place
    raise InvalidValue(
        "place",
        f"must be a connection string or an AsyncConnectionPool, not {type(place).__name__}",
    )


def conninfo_of(place: str | None) -> str:
    """How to connect; by default as ``DATABASE_URL`` says, or to the embedded server.

    Raises:
        StoreError: It is no place, or there is none and no embedded server.
    """
    given = place or os.environ.get("DATABASE_URL", "") or embedded(_FOLDER)
    try:
        return make_conninfo(given, **(_DEFAULTS | conninfo_to_dict(given)))
    except psycopg.ProgrammingError:  # whose message may hold a password
        raise StoreError(
            "the database is named neither by a postgresql:// URL nor by a connection string"
        ) from None


def name_of(place: str | AsyncConnectionPool[Any] | None) -> str:
    """What messages call it: enough to find it, and no password."""
    if isinstance(place, AsyncConnectionPool):
        return f"pool {place.name}"
    given = place or os.environ.get("DATABASE_URL", "")
    if not given:
        return str(_FOLDER)
    try:
        parts = conninfo_to_dict(given)
    except psycopg.ProgrammingError:
        return "the database"
    return f"{parts.get('dbname') or 'postgres'} at {parts.get('host') or 'localhost'}"
