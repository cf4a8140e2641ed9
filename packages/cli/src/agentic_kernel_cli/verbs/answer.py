"""The verb ``answer``: answer the question of a Task."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..kinds import LOCAL
from ..parameters import (
    AcceptTools,
    By,
    Granted,
    Last,
    Mcp,
    Model,
    Option,
    TaskOrLast,
    Tools,
    Workspace,
    Yes,
    granted_by,
    invocation,
    wanted_with,
)
from ..text import utf8


def answer(
    context: typer.Context,
    given: TaskOrLast = None,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT", help="The answer; - reads it from stdin.", show_default=False
        ),
    ] = None,
    last: Last = False,
    digest: Annotated[
        str | None,
        typer.Option(
            metavar="D", help="Answer only the question with this digest; `show` prints it."
        ),
    ] = None,
    by: By = None,
    runtime: Granted = LOCAL,
    model: Model = None,
    option: Option = None,
    tools: Tools = None,
    workspace: Workspace = None,
    yes: Yes = False,
    mcp: Mcp = None,
    accept_tools: AcceptTools = False,
) -> int:
    """Answer the question of a paused Task, and let it go on."""
    from agentic_kernel_engine.plans import vocabulary

    from .. import waiting
    from ..deciding import decide, found, recorded_name

    called, grant = invocation(context), granted_by(context)
    task, words = wanted_with(given, last, [] if text is None else [text])
    if len(words) != 1:
        raise typer.BadParameter("give an ID, or --last for the newest Task; and one TEXT")
    record = found(called, task)
    waiting.check(record.task, "question")
    asked = waiting.question_digest(record.task)
    if digest is not None and digest != asked:
        raise waiting.NotAwaited(
            record.task.id, "asks another question than the one with this digest; read it with show"
        )
    said = utf8(sys.stdin.read() if words == ["-"] else words[0], "TEXT")
    decision = {"type": vocabulary.ANSWER, "text": said, "by": recorded_name(by)}
    if asked:
        decision["digest"] = asked
    return decide(called, record, [decision], "answered", grant)
