"""Parameters that several commands share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .kinds import LOCAL, check_runtime
from .naming import LAST, MIN_PART

if TYPE_CHECKING:
    from agentic_kernel_engine import EventId

    from .grants import Grant
    from .invocation import Invocation

LARGEST = 2**53 - 1
"""The largest integer that every JSON reader reads exactly."""

TaskOrLast = Annotated[
    str | None,
    typer.Argument(
        metavar="[ID]",
        help=f"A Task's id, or its first or last characters (at least {MIN_PART}).",
        show_default=False,
    ),
]
Last = Annotated[
    bool,
    typer.Option(
        "--last",
        help="The newest Task that is no child of another, in place of an ID.",
        show_default=False,
    ),
]


def wanted(given: str | None, last: bool) -> str:
    """The id that a command is about, as `find_task` takes it.

    Raises:
        BadParameter: There is an id and ``--last``, or neither.
    """
    if last == (given is not None):
        raise typer.BadParameter("give an ID, or --last for the newest Task")
    return LAST if given is None else given


def wanted_with(given: str | None, last: bool, rest: Sequence[str]) -> tuple[str, list[str]]:
    """The id that a command is about, and the words that follow it.

    With ``--last`` there is no ID, so the parser took the first of these words for one.

    Raises:
        BadParameter: There is neither an id nor ``--last``.
    """
    if last and given is not None:
        return LAST, [given, *rest]
    return wanted(given, last), list(rest)


def _served(context: typer.Context, given: str) -> str:
    called = context.find_root().obj
    if called is not None and called.app is not None:
        return given  # The app may serve it; `check_runtime` comes later if it does not.
    return check_runtime(given)


def whole(given: int | None) -> int | None:
    """Refuse an integer that a JSON reader may round; the help shows no bound of sixteen digits."""
    if given is not None and given > LARGEST:
        raise typer.BadParameter(f"must be {LARGEST:,} or less")
    return given


def finite(given: float | None) -> float | None:
    """Refuse NaN and infinity."""
    if given is not None and not math.isfinite(given):
        raise typer.BadParameter("must be a finite number")
    return given


def _served_or_none(context: typer.Context, given: str | None) -> str | None:
    return None if given is None else _served(context, given)


Runtime = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The runtime: local, openai, …; `doctor` lists those that are installed. Or a "
        "kind of the app.",
        callback=_served_or_none,
    ),
]
Granted = Annotated[
    str,
    typer.Option(
        "--runtime",
        metavar="NAME",
        help=f"A runtime that a Task may use, besides `{LOCAL}`, which is always allowed.",
        callback=_served,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="MODEL", help="For local, a GGUF file; else the name of a model."
    ),
]
Option = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="NAME=VALUE",
        help="An option of the runtime, as `doctor` lists them; give it again for more.",
    ),
]
Tools = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="Tools for the model, separated by commas: calculator,write."
    ),
]
Workspace = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The only folder in which the tool write may write."),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Let tools change something without an approval.")
]
Mcp = Annotated[
    Path | None,
    typer.Option(
        "--mcp", metavar="FILE", help="A JSON file of MCP servers, whose tools the model gets."
    ),
]
AcceptTools = Annotated[
    bool,
    typer.Option("--accept-tools", help="Accept the tools of --mcp that are new or changed."),
]

Digests = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[DIGEST]...",
        help="The digests of the actions that you read, or their first characters (at least 8).",
    ),
]
Digest = Annotated[
    list[str] | None,
    typer.Option("--digest", metavar="D", help="The same as the argument DIGEST."),
]
By = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The name to record for the decision. Your user name is always recorded too.",
    ),
]
After = Annotated[
    str | None,
    typer.Option(
        "--after", metavar="EVENT", help="Only events after this one, e.g. 3.1: the next page."
    ),
]


def cursor(given: str | None) -> EventId | None:
    """The cursor that ``--after`` names; None for the beginning.

    Raises:
        BadParameter: It is not the id of an event.
    """
    if given is None:
        return None
    from agentic_kernel import InvalidValue
    from agentic_kernel_engine import EventId

    try:
        return EventId.parse(given)
    except InvalidValue as error:
        raise typer.BadParameter(f"--after {error.reason}") from None


def granted_by(context: typer.Context) -> Grant:
    """Return what the flags of this command line grant to stored Tasks.

    Raises:
        As `grant_of`.
    """
    from .grants import grant_of

    given = context.params
    return grant_of(
        given["runtime"], given["model"], given["tools"], given["workspace"],
        given.get("yes", False), given["mcp"], given["accept_tools"], given["option"],
    )  # fmt: skip


def invocation(context: typer.Context) -> Invocation:
    """The invocation that holds the global options."""
    called: Invocation = context.obj
    return called
