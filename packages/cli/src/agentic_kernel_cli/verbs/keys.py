"""The verbs ``keys make``, ``keys list`` and ``keys revoke``: the API keys of a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..groups import Group
from ..text import label

keys = typer.Typer(
    cls=Group,
    help="Make, list and revoke the API keys of a server.",
    no_args_is_help=True,
    add_completion=False,
)
KeyPath = Annotated[
    Path, typer.Option("--keys", metavar="FILE", help="The key file of the server.")
]


@keys.command()
def make(
    context: typer.Context,
    file: KeyPath,
    principal: Annotated[str, typer.Option(help="The user or program of the key.")],
    scope: Annotated[
        list[str],
        typer.Option(
            help="client, agent, runner, approver, metrics or admin; give it again for more."
        ),
    ],
    tenant: Annotated[str, typer.Option(help="The tenant; others' executions are hidden.")] = "",
    days: Annotated[
        float | None, typer.Option(min=0.001, max=36_500, help="The key expires after these days.")
    ] = None,
) -> int:
    """Make a key and print it. It is shown once: the file keeps only its hash."""
    from datetime import UTC, datetime, timedelta

    from .. import rendering
    from ..serving import key_file, shown

    expires = None if days is None else datetime.now(UTC) + timedelta(days=days)
    text, key = key_file(file).make(principal, scope, tenant=tenant, expires_at=expires)
    if context.obj.as_json:
        rendering.json_line("key", {"key": text, **shown(key)})
    else:
        typer.echo(text)
    return 0


@keys.command("list")
def list_keys(context: typer.Context, file: KeyPath) -> int:
    """List the keys: id, state, scopes, principal and tenant of each, without the secrets."""
    from datetime import UTC, datetime

    from .. import rendering
    from ..serving import key_file, shown

    now = datetime.now(UTC)
    for key in key_file(file).read():
        fields = shown(key)
        if context.obj.as_json:
            rendering.json_line("key", fields)
            continue
        state = "usable" if key.usable(now) else "revoked" if key.revoked_at else "expired"
        scopes = ",".join(fields["scopes"])
        typer.echo(f"{key.id}  {state:<7}  {scopes}  {label(key.principal)}  {label(key.tenant)}")
    return 0


@keys.command()
def revoke(
    context: typer.Context,
    file: KeyPath,
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The id, as list shows it.")],
) -> int:
    """Revoke a key. A server that uses the file refuses the key from then on."""
    from .. import rendering
    from ..serving import key_file, shown

    key = key_file(file).revoke(key_id)
    if context.obj.as_json:
        rendering.json_line("key", shown(key))
    else:
        typer.echo(f"{key.id}: revoked")
    return 0
