"""Place: the address of a database, and its name in messages."""

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
"""The connection parameters that apply if the place does not set them."""


def check_place(place: Any) -> Any:
    """Return the caller's place unchanged, if its type is allowed.

    Raises:
        InvalidValue: The place has another type.
    """
    if place is None or isinstance(place, str | AsyncConnectionPool):
        return place
    raise InvalidValue(
        "place",
        f"must be a connection string or an AsyncConnectionPool, not {type(place).__name__}",
    )


def conninfo_of(place: str | None) -> str:
    """The connection string of a place; by default ``DATABASE_URL``, then the embedded server.

    Raises:
        StoreError: The place is not valid, or none is given and there is no embedded server.
    """
    given = place or os.environ.get("DATABASE_URL", "") or embedded(_FOLDER)
    try:
        return make_conninfo(given, **(_DEFAULTS | conninfo_to_dict(given)))
    except psycopg.ProgrammingError:  # whose message may hold a password
        raise StoreError(
            "the database is named neither by a postgresql:// URL nor by a connection string; "
            "correct place, or DATABASE_URL"
        ) from None


def name_of(place: str | AsyncConnectionPool[Any] | None) -> str:
    """The name of a place in messages: enough to find it, without a password."""
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
