"""The verb ``migrate``: the schema of a database."""

from __future__ import annotations

import typer

from agentic_kernel import InvalidValue

from ..parameters import invocation
from ..text import label


def migrate(context: typer.Context) -> int:
    """Migrate the schema of the database to this version; Tasks may run meanwhile."""
    import asyncio

    from .. import rendering
    from ..database import Database

    called = invocation(context)
    if called.app is not None and not called.app.takes_store:
        raise InvalidValue(
            "--app",
            f"{label(called.app.name, 80)} has a store of its own, and its Host migrates it; to "
            "migrate a database, name it by --state and leave the app out",
        )
    before = after = None
    if isinstance(called.place, Database):
        from .. import upkeep

        before, after = asyncio.run(upkeep.migrated(called.place))
    if called.as_json:
        rendering.json_line("migrated", {"from": before, "to": after})
    elif before is None:
        typer.echo("nothing to do: only a Postgres database has a schema to migrate")
    elif before == after:
        typer.echo(f"nothing to do: the schema already has version {after}")
    else:
        typer.echo(f"migrated the schema from version {before} to version {after}")
    return 0
