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
    Mcp,
    Model,
    Option,
    TaskId,
    Tools,
    Workspace,
    Yes,
    invocation,
)


def answer(
    context: typer.Context,
    given: TaskId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer; - reads it from stdin.")],
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
    from ..grants import grant_of

    called, grant = (
        invocation(context),
        grant_of(runtime, model, tools, workspace, yes, mcp, accept_tools, option),
    )
    record = found(called, given)
    waiting.check(record.task, "question")
    asked = waiting.question_digest(record.task)
    if digest is not None and digest != asked:
        raise waiting.NotAwaited(
            record.task.id, "asks another question than the one with this digest; read it with show"
        )
    said = sys.stdin.read() if text == "-" else text
    decision = {"type": vocabulary.ANSWER, "text": said, "by": recorded_name(by)}
    if asked:
        decision["digest"] = asked
    return decide(called, record, [decision], "answered", grant)
