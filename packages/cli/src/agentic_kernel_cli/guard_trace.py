"""The commands about the guard's store: its trace is searched, verified, exported and replayed."""

from __future__ import annotations

import asyncio
import fnmatch
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from agentic_kernel import InvalidValue, KernelError

from . import rendering
from .guarding import File, guard, policy, read_rules, used
from .kinds import install
from .text import label, line, seconds

if TYPE_CHECKING:
    from agentic_kernel_guard import Keyring
    from agentic_kernel_guard.stores import GuardStore

KEYS_VARIABLE: Final = "AGENTIC_KERNEL_GUARD_KEYS"
"""The keys of the guard, as the file of ``--keys`` has them."""
_PAGE: Final = 1_000

Place = Annotated[
    str,
    typer.Option("--store", metavar="PLACE", help="A SQLite file, or a postgresql:// URL."),
]
Keys = Annotated[
    Path | None,
    typer.Option(
        "--keys", metavar="FILE",
        help=f"The keys, one id:hexadecimal a line; or set {KEYS_VARIABLE}.",
    ),
]  # fmt: skip


class BadTrace(KernelError):
    """The trace cannot be read, or does not hold."""


@guard.command()
def trace(
    context: typer.Context,
    store: Place,
    action: Annotated[str, typer.Option(help="Only this action.")] = "",
    capability: Annotated[str, typer.Option(help="Only these capabilities; * and ? work.")] = "*",
    principal: Annotated[str, typer.Option(help="Only these principals; * and ? work.")] = "*",
    kind: Annotated[str, typer.Option(help="Only this kind of entry, e.g. denied.")] = "",
    since: Annotated[
        datetime | None, typer.Option(help="Only entries from this time, UTC.")
    ] = None,
    until: Annotated[datetime | None, typer.Option(help="Only entries before it, UTC.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="The most entries.")] = 100,
) -> int:
    """Search the trace, oldest first."""
    first, last = _milliseconds(since), _milliseconds(until)
    shown = 0
    with opened(store) as (held, run):
        for link in _links(held, run):
            entry = link.entry
            if (
                (action and entry["action"] != action)
                or not fnmatch.fnmatchcase(entry.get("capability", ""), capability)
                or not fnmatch.fnmatchcase(entry.get("principal", ""), principal)
                or (kind and entry["kind"] != kind)
                or (first is not None and entry["at"] < first)
                or (last is not None and entry["at"] >= last)
            ):
                continue
            if shown == limit:
                typer.echo(f"there are more; raise --limit {limit:,}", err=True)
                break
            shown += 1
            _show(context, link.seq, link.hash, entry)
    return 0


@guard.command()
def head(store: Place, keys: Keys = None) -> int:
    """Print the signed head of the trace, to keep elsewhere."""
    from agentic_kernel_guard.trace import signed

    ring = keyring(keys)
    with opened(store) as (held, run):
        last = run(held.last())
        if last is None:
            raise BadTrace("the trace is empty; there is no head yet")
        now = int(datetime.now(UTC).timestamp() * 1_000)
        rendering.json_line("head", signed(last.seq, last.hash, now, ring).as_json())
    return 0


@guard.command()
def verify(
    context: typer.Context,
    store: Annotated[
        str, typer.Option("--store", metavar="PLACE", help="A SQLite file, or a postgresql:// URL.")
    ] = "",
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Check an exported trace instead.")
    ] = None,
    head: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What `guard head` printed earlier.")
    ] = None,
    keys: Keys = None,
) -> int:
    """Check the trace, against an earlier head if there is one; 1 if it does not hold."""
    from agentic_kernel_guard.trace import check_export
    from agentic_kernel_guard.trace import verify as verified

    if bool(store) is (export is not None):
        raise BadTrace("give either --store or --export")
    earlier = None if head is None else _head(head)
    ring = None if head is None else keyring(keys)
    if export is not None:
        text = export.read_text(encoding="utf-8", errors="replace")
        found = _held(lambda: check_export(text, earlier, ring))
    else:
        with opened(store) as (held, run):
            found = _held(lambda: verified(_links(held, run), earlier, ring))
    if context.obj.as_json:
        rendering.json_line("verified", asdict(found))
        return 0
    against = "" if earlier is None else f", and entry {earlier.seq:,} is that of the head"
    typer.echo(f"{found.entries:,} entries, unbroken{against}; the last hash is {found.last}")
    if found.torn:
        typer.echo(f"the last line has {found.torn:,} characters and is unfinished", err=True)
    return 0


@guard.command("export")
def exported(store: Place) -> int:
    """Print the whole trace, one line an entry, for `guard verify --export`."""
    from agentic_kernel_guard.trace import export

    with opened(store) as (held, run):
        for line in export(_links(held, run)):
            typer.echo(line, nl=False)
    return 0


@guard.command()
def prune(
    context: typer.Context,
    store: Place,
    older_than: Annotated[
        str,
        typer.Option(
            help="Forget actions that began longer ago than this, too: 12h, 30d, 2w. A call with "
            "the key of such an action is a new action."
        ),
    ] = "",
) -> int:
    """Forget kept results, marks of tokens and requests whose time is over; the trace stays."""
    now = int(datetime.now(UTC).timestamp() * 1_000)
    before = now - seconds(older_than, "--older-than") * 1_000 if older_than else 0
    with opened(store) as (held, run):
        run(held.prune(now, before))
    if context.obj.as_json:
        rendering.json_line("pruned", {"now": now, "before": before})
    else:
        typer.echo("what is over is forgotten; the trace stays")
    return 0


@policy.command()
def diff(context: typer.Context, file: File, store: Place) -> int:
    """Ask other rules about the recorded requests; 1 if they decide one of them otherwise."""
    from agentic_kernel_guard.trace import replayed

    rules = used(file, read_rules().parse)
    asked = different = uncertain = 0
    with opened(store) as (held, run):
        for each in replayed(_links(held, run), rules):
            asked += 1
            uncertain += not each.certain
            if not each.differs:
                continue
            different += 1
            doubt = "" if each.certain else " (an argument is redacted in the trace)"
            if context.obj.as_json:
                rendering.json_line("difference", asdict(each))
            else:
                typer.echo(
                    f"{label(each.action)}  {label(each.principal)}  {label(each.capability)}: "
                    f"{each.before} becomes {each.now}: {line(each.reason)}{doubt}"
                )
    if not context.obj.as_json:
        typer.echo(
            f"{different:,} of {asked:,} requests are decided otherwise; of {uncertain:,} an "
            "argument is redacted"
        )
    return 1 if different else 0


def _show(context: typer.Context, seq: int, hash: str, entry: dict[str, Any]) -> None:
    if context.obj.as_json:
        rendering.json_line("entry", {"seq": seq, "hash": hash, "entry": entry})
        return
    at = datetime.fromtimestamp(entry["at"] / 1_000, UTC)
    said = entry.get("outcome") or entry.get("reason", "")
    words = (
        f"{seq:>6}", f"{at:%Y-%m-%d %H:%M:%S}", entry["kind"], entry.get("principal", ""),
        entry.get("capability", ""), entry["action"],
    )  # fmt: skip
    # A reason is a message of the guard, in which foreign text is escaped already.
    typer.echo("  ".join(filter(None, (*map(label, words), line(said)))))


def store_at(place: str, *, new: bool = False) -> GuardStore:
    """The store of the guard.

    Args:
        place: A SQLite file, or a URL of Postgres.
        new: True to make a file that does not exist.

    Raises:
        BadTrace: The guard is not installed, or there is no such file.
    """
    try:
        from agentic_kernel_guard import PostgresGuardStore, SQLiteGuardStore
        from agentic_kernel_guard.stores.sqlite import said_of_others
    except ImportError:
        raise BadTrace(f"the guard is not installed; {install('guard')}") from None
    scheme, mark, rest = place.partition("://")
    if mark and scheme.lower() in ("postgresql", "postgres"):
        return PostgresGuardStore(f"{scheme.lower()}://{rest}")
    if mark:
        # What stands after the scheme may have a password in it.
        raise BadTrace("--store: a URL begins with postgresql://; or name a SQLite file")
    if not new and not Path(place).is_file():
        raise BadTrace(f"{place}: there is no such file; name the guard's SQLite file")
    exposed = said_of_others(Path(place))
    if exposed:
        typer.echo(label(exposed), err=True)
    return SQLiteGuardStore(place)


@contextmanager
def opened(place: str) -> Iterator[tuple[GuardStore, Any]]:
    """The store of the guard, and what runs its calls."""
    store = store_at(place)
    from agentic_kernel_guard import GuardError

    try:
        with asyncio.Runner() as runner:
            try:
                yield store, runner.run
            finally:
                runner.run(store.close())
    except GuardError as error:
        raise BadTrace(error.message) from None


def _links(store: GuardStore, run: Any) -> Iterator[Any]:
    after = 0
    while page := run(store.links(after, _PAGE)):
        yield from page
        after = page[-1].seq


def _held(check: Any) -> Any:
    from agentic_kernel_guard import Broken

    try:
        return check()
    except Broken as error:
        raise BadTrace(error.message) from None


def keyring(file: Path | None) -> Keyring:
    """The keys of a file that no other user may read, or of the environment."""
    read_rules()
    from agentic_kernel_guard import Keyring

    text = secret(file, KEYS_VARIABLE)
    if not text:
        raise BadTrace(f"there are no keys; give --keys FILE, or set {KEYS_VARIABLE}")
    try:
        return Keyring.read(text)
    except InvalidValue as error:
        raise BadTrace(str(error)) from None


def secret(file: Path | None, variable: str) -> str:
    """The text of a file that no other user may read, or of a variable of the environment.

    Raises:
        BadTrace: Others may read the file.
    """
    if file is None:
        return os.environ.get(variable, "")
    if stat.S_IMODE(file.stat().st_mode) & 0o077:
        raise BadTrace(f"{file}: others may read it; chmod 600 it")
    return file.read_text(encoding="utf-8", errors="replace")


def _head(file: Path) -> Any:
    from agentic_kernel_guard import Broken, Head

    try:
        said = json.loads(file.read_bytes())
        return Head.of_json({key: value for key, value in said.items() if key != "kind"})
    except (ValueError, AttributeError, Broken):
        raise BadTrace(f"{file}: is not what `guard head` printed") from None


def _milliseconds(at: datetime | None) -> int | None:
    if at is None:
        return None
    moment = at if at.tzinfo else at.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1_000)
