"""The commands by which a person decides for the guard: approvals, approve, deny, explain."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from agentic_kernel import InvalidValue

from . import rendering
from .guard_trace import BadTrace, Keys, Place, keyring, opened
from .guarding import guard
from .text import as_json, line
from .user import process_user

if TYPE_CHECKING:
    from agentic_kernel_guard import PendingApproval

MOST_SAID: Final = 20
"""The most further justifications of one request that are shown."""
_Id = Annotated[str, typer.Argument(metavar="ID", help="The id that the refused call has named.")]
_Yes = Annotated[
    bool, typer.Option("--yes", help="Do not ask; you have read the request with `approvals`.")
]


@guard.command()
def approvals(
    context: typer.Context,
    store: Place,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="The most requests.")] = 100,
) -> int:
    """List the calls that wait for an approval, oldest first."""
    with opened(store) as (held, run):
        from agentic_kernel_guard.approvals import pending, reasons

        for each in run(pending(held, _now(), limit)):
            _show(context, each, run(reasons(held, each.id)))
    return 0


@guard.command()
def approve(
    context: typer.Context,
    id: _Id,
    store: Place,
    keys: Keys = None,
    note: Annotated[str, typer.Option(metavar="TEXT", help="Why you approve it.")] = "",
    yes: _Yes = False,
) -> int:
    """Let a call that waits run once, when it is made again. You approve it as your user."""
    return _decide(context, id, store, keys, approved=True, note=note, yes=yes)


@guard.command()
def deny(
    context: typer.Context,
    id: _Id,
    store: Place,
    keys: Keys = None,
    note: Annotated[
        str, typer.Option(metavar="TEXT", help="Why you refuse it; the caller reads this.")
    ] = "",
    yes: _Yes = False,
) -> int:
    """Refuse a call that waits, until its time is over."""
    return _decide(context, id, store, keys, approved=False, note=note, yes=yes)


@guard.command("explain")
def explained(context: typer.Context, id: _Id, store: Place) -> int:
    """Show one action whole: who asked, what the rules said, who approved it, how it ended."""
    with opened(store) as (held, run):
        from agentic_kernel_guard.trace import traced

        links = run(held.of_action(id))
    if not links:
        raise BadTrace(f"{id}: the trace has no such action; check the id and the store")
    whole = traced(id, links)
    if context.obj.as_json:
        rendering.json_line(
            "action", {"action": id, "outcome": whole.outcome, "entries": list(whole.entries)}
        )
        return 0
    typer.echo(f"{_escaped(id)}: {whole.outcome}")
    for entry in whole.entries:
        typer.echo(f"{_time(entry['at'])}  {_escaped(entry['kind'])}")
        for name, value in entry.items():
            if name not in ("action", "at", "kind") and value not in ("", [], {}, None, 0):
                typer.echo(f"    {_escaped(name)}: {as_json(value)}")
    return 0


def _decide(
    context: typer.Context, id: str, store: str, keys: Any, *, approved: bool, note: str, yes: bool
) -> int:
    ring = keyring(keys)
    from agentic_kernel_guard import PendingApproval
    from agentic_kernel_guard.approvals import decide, reasons

    verb = "approve" if approved else "deny"
    with opened(store) as (held, run):
        found = run(held.approval(id))
        if found is None:
            raise BadTrace(f"{id}: there is no such request; list them with `guard approvals`")
        _show(context, PendingApproval.of(found), run(reasons(held, id)), err=True)
        if not yes:
            if not sys.stdin.isatty():
                raise typer.BadParameter(
                    "there is no terminal to ask on; read the request with `guard approvals`, and "
                    "add --yes"
                )
            if not typer.confirm(f"{verb.capitalize()} it as {process_user()}?", err=True):
                return 1
        try:
            deciding = decide(
                held, ring, id, by=process_user(), approved=approved, now=_now(), note=note
            )
            run(deciding)
        except InvalidValue as error:
            raise BadTrace(str(error)) from None
    said = "approved: the same call runs once, when it is made again" if approved else "refused"
    if context.obj.as_json:
        rendering.json_line("decision", {"id": id, "approved": approved, "by": process_user()})
    else:
        typer.echo(f"{_escaped(id)} is {said}")
    return 0


def _show(
    context: typer.Context, request: PendingApproval, said: Sequence[str], *, err: bool = False
) -> None:
    asked = request.asked
    later = [each for each in said[1:] if each]
    if context.obj.as_json:
        shown = {
            "id": request.id, "at": request.at, "until": request.until,
            "principal": asked.principal, "tenant": asked.tenant, "capability": asked.capability,
            "safety": asked.safety, "arguments": asked.arguments,
            "justification": asked.justification, "later": later, "rule": asked.rule,
            "reason": asked.reason, "approvers": list(asked.approvers),
        }  # fmt: skip
        rendering.json_line("request", shown)
        return
    who = asked.principal + (f" of {asked.tenant}" if asked.tenant else "")
    lines = [
        f"{_escaped(request.id)}  {_time(request.at)}, until {_time(request.until)}",
        f"    {_escaped(who)} wants {_escaped(asked.capability)} ({asked.safety})",
        *(f"    {_escaped(name)} = {as_json(value)}" for name, value in asked.arguments.items()),
        f"    it says why: {as_json(asked.justification)}" if asked.justification else "",
        *(f"    it also said why: {as_json(each)}" for each in later[:MOST_SAID]),
        f"    and {len(later) - MOST_SAID:,} more" if len(later) > MOST_SAID else "",
        f"    {line(asked.reason)}",
        f"    approvers: {_escaped(', '.join(asked.approvers))}" if asked.approvers else "",
    ]
    for each in filter(None, lines):
        typer.echo(each, err=err)


def _escaped(text: str) -> str:
    """A text as a part of JSON, so that all of a request is escaped in one way."""
    return as_json(text)[1:-1]


def _time(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1_000, UTC):%Y-%m-%d %H:%M:%S}"


def _now() -> int:
    return int(datetime.now(UTC).timestamp() * 1_000)
