"""The verb ``migrate``: the schema of a database."""

from __future__ import annotations

import typer

from ..parameters import invocation


def migrate(context: typer.Context) -> int:
    """Migrate the schema of the database to this version; Tasks may run meanwhile."""
    import asyncio

    from .. import rendering
    from ..database import Database

    called = invocation(context)
    before = after = None
    if isinstance(called.place, Database):
        from .. import upkeep

        before, after = asyncio.run(upkeep.migrated(called.place))
    if called.as_json:
        rendering.json_line("migrated", {"from": before, "to": after})
    elif before is None:
        typer.echo("nothing to do: a folder needs no migration")
    elif before == after:
        typer.echo(f"nothing to do: the schema already has version {after}")
    else:
        typer.echo(f"migrated the schema from version {before} to version {after}")
    return 0
