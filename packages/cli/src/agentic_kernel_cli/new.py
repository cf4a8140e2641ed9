"""The commands that make a package: a runtime, store, provider or observer of one's own."""

from __future__ import annotations

import shlex
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final

import typer

from agentic_kernel import CannotStart

from . import rendering
from .groups import Group
from .kinds import install
from .text import label, line

_EXAMPLES: Final = """Examples:

agentic-kernel new store acme-tables

agentic-kernel new runtime acme-shell --entry shell --summary "Runs shell commands."

agentic-kernel new recopy acme-tables --dry-run"""

_COMPARED: Final = (
    "The package keeps no text of the older template. So these lines undo your own changes, too."
)

new = typer.Typer(
    cls=Group,
    help="Make a complete package with a runtime, store, provider or observer of your own.",
    epilog=_EXAMPLES,
    no_args_is_help=True,
    add_completion=False,  # `agentic-kernel completion` knows ids, too.
)
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The name of the package and of its folder."),
]
Entry = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The name in the command; the package's if not given."),
]
Summary = Annotated[
    str | None, typer.Option(metavar="TEXT", help="One line that says what the package does.")
]
Author = Annotated[str | None, typer.Option(metavar="NAME", help="The author's name.")]
Parent = Annotated[Path, typer.Option("--path", metavar="FOLDER", help="The folder to make it in.")]
Defaults = Annotated[bool, typer.Option("--defaults", help="Ask nothing, at a terminal as well.")]


def _command(kind: str, help: str, example: str) -> None:
    """Add the command that makes a package of this kind."""

    @new.command(kind, help=help, epilog=f"Example: agentic-kernel new {kind} {example}")
    def make(
        context: typer.Context,
        name: Name,
        entry: Entry = None,
        summary: Summary = None,
        author: Author = None,
        path: Parent = Path(),
        defaults: Defaults = False,
    ) -> int:
        return _make(context, kind, name, entry, summary, author, path, defaults)


_command(
    "runtime",
    "Make a package with a substrate, for `--runtime NAME`.\n\n"
    "It runs shell commands, and passes SubstrateContract as it is.",
    'acme-shell --summary "Runs commands."',
)
_command(
    "store",
    "Make a package with a store, for `--state NAME:///PATH`.\n\n"
    "It keeps Tasks in a SQLite file, and passes StoreContract as it is.",
    "acme-tables --entry tables",
)
_command(
    "provider",
    "Make a package with a planner, for `--runtime NAME --model MODEL`.\n\n"
    "It asks servers that speak Chat Completions, and passes PlannerContract as it is.",
    "acme-models --author 'Ann Example'",
)
_command(
    "observer",
    "Make a package with an observer, for `--observer NAME`.\n\n"
    "It writes events as lines of JSON, and passes ObserverContract as it is.",
    "acme-lines --path projects",
)


@new.command(epilog="Example: agentic-kernel new recopy acme-tables --dry-run --diff")
def recopy(
    context: typer.Context,
    path: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder of the package.")
    ] = Path(),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Compare the files that both changed, line by line.")
    ] = False,
    settle: Annotated[
        bool, typer.Option("--settle", help="Name these files no more, until the next change.")
    ] = False,
) -> int:
    """Bring the installed template into a package; files that you changed stay as they are."""
    made = _installed().recopy(path, dry_run=dry_run, settle=settle)
    if context.obj.as_json:
        rendering.json_line(
            "recopied",
            {
                "written": made.written,
                "kept": made.kept,
                "dropped": made.dropped,
                "dry_run": dry_run,
            },
        )
        return 0
    would = "would be " if dry_run else ""
    settled = f"; {would}named again only after the template's next change" if settle else ""
    for name in made.written:
        typer.echo(f"{label(name)}: {would}written, as the newer template has it")
    for name in made.kept:
        typer.echo(f"{label(name)}: kept, because you and the newer template changed it{settled}")
        if diff:
            for text in _difference(path / name, name, made.proposals[name]):
                typer.echo(line(text))
    for name in made.dropped:
        typer.echo(f"{label(name)}: kept; the newer template does not make it any more")
    if made.kept:
        typer.echo(_COMPARED if diff else "Add --diff to compare your file with the template's.")
    if not (made.written or made.kept or made.dropped):
        typer.echo("The template has no change for this package.")
    return 0


def _make(
    context: typer.Context,
    kind: str,
    name: str,
    entry: str | None,
    summary: str | None,
    author: str | None,
    path: Path,
    defaults: bool,
) -> int:
    package: Any = _installed()
    # Checked before a question is asked.
    sibling = package.Sibling.of(kind, name, entry=entry, summary=summary, author=author or "")
    if sys.stdin.isatty() and not defaults:
        if summary is None:
            summary = typer.prompt("Summary", sibling.summary, err=True)
        if author is None:
            author = typer.prompt("Author", "", show_default=False, err=True)
        sibling = package.Sibling.of(kind, name, entry=entry, summary=summary, author=author)
    folder = package.create(sibling, path)
    if context.obj.as_json:
        rendering.json_line(
            "made",
            {"offers": kind, "name": name, "entry": sibling.entry, "folder": str(folder)},
        )
        return 0
    article = "an" if kind[0] in "aeiou" else "a"
    typer.echo(f"{label(str(folder))}: {article} {kind} that passes {sibling.contract}. Next:")
    typer.echo(line(f"  cd {shlex.quote(str(folder))}"))
    typer.echo("  less README.md    # how to install it, and the commands that check it")
    return 0


def _difference(file: Path, name: str, proposed: str) -> list[str]:
    import difflib

    mine = file.read_text(encoding="utf-8", errors="backslashreplace").splitlines()
    titles = (f"{name} (yours)", f"{name} (the newer template's)")
    return list(difflib.unified_diff(mine, proposed.splitlines(), *titles, lineterm=""))


def _installed() -> ModuleType:
    try:
        return import_module("agentic_kernel_new")
    except ModuleNotFoundError as error:
        if error.name != "agentic_kernel_new":
            raise
        raise CannotStart(
            f"the templates are in a package that is not installed: {install('new')}"
        ) from error
