"""Upkeep of a database: migrate its schema, and check that it is suitable for Tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from agentic_kernel import KernelError
from agentic_kernel_engine import StoreError

from .database import SCHEMA, Database, installed
from .finding import Finding, package
from .kinds import install
from .naming import STATE_VARIABLE
from .place import holds

if TYPE_CHECKING:
    from agentic_kernel_postgres.session import Session

_SERVER: Final = """
SELECT current_setting('server_version'), current_user, current_setting('fsync'),
    current_setting('full_page_writes'), current_setting('synchronous_commit'),
    has_database_privilege(current_database(), 'CREATE')
"""
_THERE: Final = "SELECT to_regclass('{schema}.versions') IS NOT NULL"
_VERSIONS: Final = (
    "SELECT coalesce(max(version), 0), coalesce(max(oldest), 0) FROM {schema}.versions"
)


async def migrated(database: Database) -> tuple[int, int]:
    """Migrate the schema to this version; return its versions before and after, 0 for no schema.

    Raises:
        CannotStart: The package is not installed; the message says how to install it.
        StoreError: The database cannot be reached, is not suitable, or is too new.
    """
    before, _ = await _versions(database)
    async with database.opened():
        after, _ = await _versions(database)
    return before, after


async def examined(database: Database) -> list[Finding]:
    """Return the findings up to the first check that fails; nothing is migrated."""
    found = [package("agentic-kernel-postgres", install("postgres"))]
    for name, look, advice in (
        (
            "postgres server",
            _server,
            f"start the server, or correct --state or {STATE_VARIABLE}; a password may also come "
            "from PGPASSWORD or ~/.pgpass",
        ),
        ("postgres settings", _settings, "change it on the server, or use another server"),
        (
            "postgres schema",
            _schema,
            f"{database.command('migrate')} (as a role that may change the schema), or upgrade "
            "this command",
        ),
        ("state", _state, "let the role write to the schema, or use another role"),
    ):
        if not found[-1].ok:
            break
        try:
            found.append(Finding(name, True, await look(database)))
        except KernelError as error:
            found.append(Finding(name, False, str(error), advice))
    return found


async def _server(database: Database) -> str:
    with _asking(database) as session:
        ((version, role, *_),) = await session.query(_SERVER)
        return f"{session.name}: PostgreSQL {version} answers {role}"


async def _settings(database: Database) -> str:
    from agentic_kernel_postgres.schema import check_server

    with _asking(database) as session:
        async with session.connection() as connection:
            await check_server(connection, session.name)
        ((_, _, fsync, pages, commit, _),) = await session.query(_SERVER)
        return f"fsync {fsync}, full_page_writes {pages}, synchronous_commit {commit}"


async def _schema(database: Database) -> str:
    from agentic_kernel_postgres.schema import migrations

    ours = migrations()[-1].version
    version, oldest = await _versions(database)
    if version == 0:
        with _asking(database) as session:
            ((*_, creates),) = await session.query(_SERVER)
        if not creates:
            raise StoreError(f"the schema {SCHEMA} does not exist, and this role may not create it")
        return f"the schema {SCHEMA} does not exist yet; the first command creates it"
    said = f"the schema {SCHEMA} has version {version}"
    if version < ours or oldest > ours:
        raise StoreError(f"{said}, and this command needs version {ours}")
    return (
        said
        if version == ours
        else f"{said}; this command is made for version {ours} and can use it"
    )


async def _state(database: Database) -> str:
    """Open the database as a run would and test leases and write access, if there is a schema."""
    if await _versions(database) == (0, 0):
        return "no Task is stored yet"
    if not await holds(database):
        raise StoreError("a lease expired as soon as it was taken")
    return "writable, leases held"


async def _versions(database: Database) -> tuple[int, int]:
    """The version of the schema, and of the oldest code that can use it; 0 for no schema."""
    with _asking(database) as session:
        ((there,),) = await session.query(_THERE)
        if not there:
            return 0, 0
        ((version, oldest),) = await session.query(_VERSIONS)
        return version, oldest


@contextmanager
def _asking(database: Database) -> Iterator[Session]:
    """Open a session on the database as it is: it creates nothing and retries nothing."""
    installed()
    from agentic_kernel_postgres.place import conninfo_of, name_of
    from agentic_kernel_postgres.session import Session

    session = Session(conninfo_of(database.url), SCHEMA, name_of(database.url), timeout=0)
    try:
        yield session
    finally:
        session.close()
