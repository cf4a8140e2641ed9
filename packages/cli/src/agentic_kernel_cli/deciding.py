"""The commands by which a person decides for a Task: approve, deny, answer, retune."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer

from agentic_kernel import InvalidValue, Task
from agentic_kernel_engine import Host, Limits, Record
from agentic_kernel_engine.plans import vocabulary

from . import rendering, waiting
from .grants import Grant, check_no_flags, grant_of
from .invocation import Invocation
from .kinds import LOCAL, elsewhere, serves
from .parameters import (
    LARGEST,
    AcceptTools,
    Granted,
    Mcp,
    Model,
    Option,
    TaskId,
    Tools,
    Workspace,
    Yes,
    finite,
    invocation,
)
from .place import find_task
from .running import settle
from .text import label, visible
from .user import process_user

LONGEST_NAME: Final = 100
"""Maximum length of a name that ``--by`` claims, in characters."""

_Digests = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[DIGEST]...",
        help="The digests of the actions that you read, or their first characters (at least 8).",
    ),
]
_Digest = Annotated[
    list[str] | None,
    typer.Option("--digest", metavar="D", help="The same as the argument DIGEST."),
]
_By = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The name to record for the decision. Your user name is always recorded too.",
    ),
]
_Whole = Annotated[int | None, typer.Option(min=0, max=LARGEST, metavar="N")]
_Number = Annotated[float | None, typer.Option(min=0, metavar="N", callback=finite)]


def approve(
    context: typer.Context,
    given: TaskId,
    digests: _Digests = None,
    digest: _Digest = None,
    by: _By = None,
    why: Annotated[str, typer.Option(metavar="TEXT", help="Why you approve it.")] = "",
    runtime: Granted = LOCAL,
    model: Model = None,
    option: Option = None,
    tools: Tools = None,
    workspace: Workspace = None,
    mcp: Mcp = None,
    accept_tools: AcceptTools = False,
) -> int:
    """Approve what a paused Task asks for, and let it go on."""
    called, grant = (
        invocation(context),
        grant_of(runtime, model, tools, workspace, False, mcp, accept_tools, option),
    )
    record, wanted = _seen(called, "approve", given, [*(digests or ()), *(digest or ())])
    decisions = _approvals(wanted, True, by, why)
    return 1 if not wanted else _decide(called, record, decisions, "approved", grant)


def deny(
    context: typer.Context,
    given: TaskId,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why you refuse it; the Task gets this text.")
    ],
    digests: _Digests = None,
    digest: _Digest = None,
    by: _By = None,
    runtime: Granted = LOCAL,
    model: Model = None,
    option: Option = None,
    tools: Tools = None,
    workspace: Workspace = None,
    mcp: Mcp = None,
    accept_tools: AcceptTools = False,
) -> int:
    """Refuse what a paused Task asks for, and let it go on without it."""
    called, grant = (
        invocation(context),
        grant_of(runtime, model, tools, workspace, False, mcp, accept_tools, option),
    )
    record, refused = _seen(called, "deny", given, [*(digests or ()), *(digest or ())])
    decisions = _approvals(refused, False, by, reason)
    return 1 if not refused else _decide(called, record, decisions, "denied", grant)


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
    by: _By = None,
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
    called, grant = (
        invocation(context),
        grant_of(runtime, model, tools, workspace, yes, mcp, accept_tools, option),
    )
    record = _found(called, given)
    waiting.check(record.task, "question")
    asked = waiting.question_digest(record.task)
    if digest is not None and digest != asked:
        raise waiting.NotAwaited(
            record.task.id, "asks another question than the one with this digest; read it with show"
        )
    said = sys.stdin.read() if text == "-" else text
    decision = {"type": vocabulary.ANSWER, "text": said, "by": _name(by)}
    if asked:
        decision["digest"] = asked
    return _decide(called, record, [decision], "answered", grant)


def retune(
    context: typer.Context,
    given: TaskId,
    by: _By = None,
    max_iterations: _Whole = None,
    max_tool_calls: _Whole = None,
    max_calls_per_answer: _Whole = None,
    max_failures: _Whole = None,
    max_non_progress: _Whole = None,
    max_reflections: _Whole = None,
    max_repeats: _Whole = None,
    max_goal_depth: _Whole = None,
    max_depth: _Whole = None,
    max_seconds: _Number = None,
    max_input_tokens: _Whole = None,
    max_output_tokens: _Whole = None,
    max_total_tokens: _Whole = None,
    max_cost: _Number = None,
) -> int:
    """Change limits of a Task from its next step on, wherever it runs."""
    called = invocation(context)
    limits = {
        name: context.params[name]
        for name in Limits.__struct_fields__
        if context.params[name] is not None
    }
    if not limits:
        raise typer.BadParameter("name at least one limit, for example --max-iterations 20")

    async def retuning(host: Host) -> Task:
        task = (await find_task(host, given)).task
        await host.retune(task.id, limits, by=_name(by))
        return await host.get(task.id)

    task = called.controlled(retuning)
    changes = ", ".join(f"{name} {value}" for name, value in limits.items())
    called.report(task, f"from its next step on: {changes}")
    return 0


def _found(called: Invocation, given: str) -> Record:
    return called.controlled(lambda host: find_task(host, given))


def _seen(
    called: Invocation, verb: str, given: str, digests: Sequence[str]
) -> tuple[Record, list[waiting.Request]]:
    """Return the Task, and the requests that the person decides about; none if the person says no.

    Raises:
        BadParameter: No digest is given, and there is no terminal to ask on. So the command cannot
            know that a person has seen the requests.
        NotAwaited: The Task asks for no approval, a digest does not name one request, or a request
            shows another action than its digest.
    """
    record = _found(called, given)
    wanted = waiting.chosen(record.task, digests)
    waiting.check_shown(record, wanted)
    for request in wanted:
        if called.as_json:
            rendering.json_line("request", {"task_id": record.task.id, **asdict(request)})
        else:
            typer.echo(str(request), err=True)
    if digests:
        return record, wanted
    if not sys.stdin.isatty():
        words = called.ways.command(verb, record.task.id, *(each.digest for each in wanted))
        raise typer.BadParameter(
            f"there is no terminal to ask on; read the request and name its digest: {words}"
        )
    every = f"all {len(wanted)}" if len(wanted) > 1 else "it"
    return record, wanted if typer.confirm(f"{verb.capitalize()} {every}?", err=True) else []


def _approvals(
    found: Sequence[waiting.Request], granted: bool, by: str | None, why: str
) -> list[dict[str, Any]]:
    said = {"type": vocabulary.APPROVAL, "granted": granted, "by": _name(by), "why": why}
    return [{**said, "digest": request.digest} for request in found]


def _decide(
    called: Invocation,
    record: Record,
    decisions: Sequence[Mapping[str, Any]],
    outcome: str,
    grant: Grant,
) -> int:
    """Record the decisions and let the Task go on: here, or on a Host that serves its runtime."""
    task = record.task
    if called.app is not None and called.app_serves(task.runtime_kind):
        check_no_flags(grant, str(called.app))
        return called.run_app(lambda here: here.decide(record, decisions))
    if serves(task.runtime_kind):
        grants = called.granted(task, grant)
        return called.run(grants, lambda here: here.decide(record, decisions))

    check_no_flags(grant, f"a Host that serves {label(task.runtime_kind)}")

    async def deciding(host: Host) -> Task:
        return await settle(host, record, decisions)

    after = called.controlled(deciding)
    called.report(after, f"{outcome}; {elsewhere(task.runtime_kind)}")
    return 0


def _name(by: str | None) -> str:
    """Return the name to record: the user of this process, with the claimed name if there is one.

    Raises:
        InvalidValue: The claimed name is blank, too long, or has characters that are not allowed.
    """
    user = process_user()
    if by is None or by == user:
        return user
    if not by.strip() or len(by) > LONGEST_NAME or not visible(by) or set("()") & set(by):
        raise InvalidValue(
            "--by",
            f"must be a name of 1 to {LONGEST_NAME} visible characters without parentheses",
        )
    return f"{by} (claimed by {user})"
