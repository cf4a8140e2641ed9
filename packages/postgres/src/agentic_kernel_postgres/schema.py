"""Schema: makes and migrates one store's part of a database, and checks the server's settings."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from psycopg import AsyncConnection

from agentic_kernel import InvalidValue

from .errors import SchemaTooNew, UnsafeServer
from .session import Row, cursor_of

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_OLDEST: Final = re.compile(r"-- oldest: (\d+)\n")

_VERSIONS: Final = """
CREATE SCHEMA IF NOT EXISTS @schema@;
CREATE TABLE IF NOT EXISTS @schema@.versions (
    version integer PRIMARY KEY,
    oldest integer NOT NULL,
    made timestamptz NOT NULL DEFAULT now()
);
"""
_STATE: Final = """
SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = '@schema@' AND tablename = 'versions')
"""
_LATEST: Final = """
SELECT coalesce(max(version), 0), coalesce(max(oldest), 0) FROM @schema@.versions
"""

_SETTINGS: Final = """
SELECT current_setting('server_version_num')::integer >= 140000,
    pg_encoding_to_char(encoding), current_setting('client_encoding'), pg_is_in_recovery(),
    current_setting('default_transaction_read_only'),
    current_setting('default_transaction_isolation'),
    current_setting('fsync'), current_setting('full_page_writes'),
    current_setting('synchronous_commit')
FROM pg_database WHERE datname = current_database()
"""
_NEEDED: Final = (
    ("server_version", (True,), "is under 14; use a newer server"),
    ("server_encoding", ("UTF8",), "must be UTF8; make the database with ENCODING 'UTF8'"),
    ("client_encoding", ("UTF8",), "must be UTF8; leave it out of the connection's options"),
    ("in_recovery", (False,), "is on: this is a replica; connect to the primary"),
    ("default_transaction_read_only", ("off",), "must be off for the role and the database"),
    ("default_transaction_isolation", ("read committed",), "must be read committed"),
    ("fsync", ("on",), "must be on, or a crash may lose acknowledged writes"),
    ("full_page_writes", ("on",), "must be on, or a crash may damage acknowledged writes"),
    (
        "synchronous_commit",
        ("on", "local", "remote_write", "remote_apply"),
        "must not be off, or a crash may lose acknowledged writes",
    ),
)


class Migration(NamedTuple):
    """One step from a version of the schema to the next; it is safe to run it twice."""

    version: int
    oldest: int
    """The oldest version of the code that can work with the schema after this step."""
    text: str


@cache
def migrations() -> tuple[Migration, ...]:
    """The migrations of this version, in order."""
    found = []
    for path in (files(__package__) / "migrations").iterdir():
        if path.name.endswith(".sql"):
            text = path.read_text(encoding="utf-8")
            oldest = _OLDEST.match(text)
            assert oldest is not None, f"{path.name} does not say which versions it leaves working"
            found.append(Migration(int(path.name[:4]), int(oldest[1]), text))
    return tuple(sorted(found))


def check_name(schema: Any) -> str:
    """Return the name of a schema, if it needs no quotes in SQL.

    Raises:
        InvalidValue: The name is not a string, too long, or needs quotes.
    """
    if not isinstance(schema, str):
        raise InvalidValue("schema", f"must be a string, not {type(schema).__name__}")
    if not _NAME.fullmatch(schema):
        raise InvalidValue(
            "schema",
            f"{ascii(schema)[:60]} is not a valid name; use 1 to 40 characters of a-z, 0-9 and _, "
            "and no digit first",
        )
    return schema


async def check_server(connection: AsyncConnection[Any], place: str) -> None:
    """Refuse a server with settings that make its acknowledgements weaker than the store promises.

    Raises:
        UnsafeServer: A setting has a value that the store's promises do not allow.
    """
    row = await _row(connection, _SETTINGS)
    for (name, allowed, advice), value in zip(_NEEDED, row, strict=True):
        if value not in allowed:
            raise UnsafeServer(f"{place}: {name} {advice}; it is {value}")


async def migrate(
    connection: AsyncConnection[Any],
    schema: str,
    place: str,
    steps: tuple[Migration, ...] | None = None,
) -> int:
    """Migrate the schema to the version of this code; make the schema if it does not exist.

    Processes that start at the same time migrate one after the other. Each step is one transaction.
    A schema that is newer stays as it is.

    Args:
        connection: A connection in autocommit mode.

    Returns:
        The schema's version after that.

    Raises:
        SchemaTooNew: The schema is too new for this code.
    """
    steps = migrations() if steps is None else steps
    newest = steps[-1].version
    version = await _version(connection, schema, place, newest)
    while version < newest:
        async with connection.transaction():
            lock = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
            await connection.execute(lock, [f"agentic-kernel {schema}"])
            version = await _version(connection, schema, place, newest)
            if version == 0:
                await connection.execute(_VERSIONS.replace("@schema@", schema))
            for step in steps:
                if step.version == version + 1:
                    await connection.execute(step.text.replace("@schema@", schema))
                    made = f"INSERT INTO {schema}.versions (version, oldest) VALUES (%s, %s)"
                    await connection.execute(made, [step.version, step.oldest])
                    version = step.version
                    break
    return version


async def _version(connection: AsyncConnection[Any], schema: str, place: str, newest: int) -> int:
    (there,) = await _row(connection, _STATE.replace("@schema@", schema))
    if not there:
        return 0
    version, oldest = await _row(connection, _LATEST.replace("@schema@", schema))
    if oldest > newest:
        raise SchemaTooNew(
            f"{place}: schema {schema} is of version {version}, which needs code of version "
            f"{oldest}, and this is {newest}; upgrade agentic-kernel-postgres"
        )
    return int(version)


async def _row(connection: AsyncConnection[Any], text: str) -> Row:
    cursor = cursor_of(connection)
    await cursor.execute(text)
    row = await cursor.fetchone()
    assert row is not None
    return row
