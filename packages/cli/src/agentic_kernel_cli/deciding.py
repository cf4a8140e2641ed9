"""The commands by which a person decides for a Task: approve, deny, answer, retune."""

from __future__ import annotations

import asyncio
import getpass
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from agentic_kernel import Task
from agentic_kernel_engine import Host, Limits, Record
from agentic_kernel_engine.loop import vocabulary

from . import rendering, waiting
from .invocation import Invocation
from .kinds import serves
from .parameters import Model, TaskId, invocation
from .place import find_task
from .running import settle
from .text import label

_Digest = Annotated[
    str | None,
    typer.Option(
        metavar="D", help="Only the action with this digest, or its first characters (at least 6)."
    ),
]
_By = Annotated[
    str | None, typer.Option(metavar="NAME", help="Who decides; default: your user name.")
]
_Whole = Annotated[int | None, typer.Option(min=0, metavar="N")]
_Number = Annotated[float | None, typer.Option(min=0, metavar="N")]


def approve(
    context: typer.Context,
    given: TaskId,
    digest: _Digest = None,
    by: _By = None,
    why: Annotated[str, typer.Option(metavar="TEXT", help="Why it is allowed.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, even for several.")] = False,
    model: Model = None,
) -> int:
    """Approve what a paused Task asks for, and let it go on."""
    called = invocation(context)
    record = _found(called, given)
    wanted = waiting.chosen(record.task, digest)
    _list(called, record.task, wanted)
    if len(wanted) > 1 and not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter(
                f"it asks for {len(wanted)} approvals; say --yes for all, or --digest for one"
            )
        if not typer.confirm(f"Approve all {len(wanted)}?", err=True):
            return 1
    return _decide(called, record, _approvals(wanted, True, by, why), "approved", model)


def deny(
    context: typer.Context,
    given: TaskId,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why it is refused; the Task is told.")
    ],
    digest: _Digest = None,
    by: _By = None,
    model: Model = None,
) -> int:
    """Refuse what a paused Task asks for, and let it go on without."""
    called = invocation(context)
    record = _found(called, given)
    refused = waiting.chosen(record.task, digest)
    _list(called, record.task, refused)
    return _decide(called, record, _approvals(refused, False, by, reason), "denied", model)


def answer(
    context: typer.Context,
    given: TaskId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer; - reads it from stdin.")],
    by: _By = None,
    model: Model = None,
) -> int:
    """Answer the question of a paused Task, and let it go on."""
    called = invocation(context)
    record = _found(called, given)
    waiting.check(record.task, "question")
    said = sys.stdin.read() if text == "-" else text
    decision = {"type": vocabulary.ANSWER, "text": said, "by": _name(by)}
    return _decide(called, record, [decision], "answered", model)


def retune(
    context: typer.Context,
    given: TaskId,
    by: _By = None,
    max_iterations: _Whole = None,
    max_tool_calls: _Whole = None,
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
        raise typer.BadParameter("name at least one limit, as --max-iterations 20")

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


def _list(called: Invocation, task: Task, found: Sequence[waiting.Request]) -> None:
    """Show what is about to be decided, before it is."""
    for request in found:
        if called.as_json:
            rendering.json_line("request", {"task_id": task.id, **asdict(request)})
        else:
            typer.echo(str(request), err=True)


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
    model: str | None,
) -> int:
    """Leave the decisions, and run the Task on: here, or by whoever serves its runtime."""
    task = record.task
    if serves(task.runtime_kind):
        return asyncio.run(called.foreground(model).decide(task, decisions))

    async def deciding(host: Host) -> Task:
        return await settle(host, task, decisions)

    after = called.controlled(deciding)
    called.report(after, f"{outcome}; it goes on where {label(task.runtime_kind)} is served")
    return 0


def _name(by: str | None) -> str:
    if by is not None:
        return by
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A user without a name, as in some containers.
        return ""
