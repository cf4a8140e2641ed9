"""Deciding: what approve, deny, answer and retune share."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import typer

from agentic_kernel import InvalidValue, KernelError, Task, TaskStatus
from agentic_kernel_engine import Host, Record
from agentic_kernel_engine.plans import vocabulary

from . import rendering, waiting
from .grants import Grant, check_no_flags
from .invocation import Invocation
from .kinds import serves
from .place import find_task, orphaned
from .proposals import onward, way_back
from .running import settle
from .text import label, named, visible
from .user import process_user

LONGEST_NAME: Final = 100
"""Maximum length of a name that ``--by`` claims, in characters."""


class Abandoned(KernelError):
    """A Task is running, and no process runs it.

    Attributes:
        task_id: The id of the Task.
        remedy: The command that lets it go on.
    """

    def __init__(self, task_id: str, remedy: str) -> None:
        self.task_id = task_id
        self.remedy = remedy
        super().__init__(task_id, remedy)

    def __str__(self) -> str:
        return f"{named(self.task_id)} is running, but no process runs it; {self.remedy}"


def found(called: Invocation, given: str) -> Record:
    """The Task that a person named, as `find_task` finds it.

    Raises:
        Abandoned: It is running, and no process runs it. So it can neither be decided about nor be
            resumed before it is recovered.
        LeftAlone: It is paused, and only another app may run it.
    """

    async def finding(host: Host) -> Record:
        record = await find_task(host, given)
        if await orphaned(host, record):
            raise Abandoned(record.task.id, await way_back(called, host, record.task))
        return record

    record = called.controlled(finding)
    if record.task.status is TaskStatus.PAUSED:
        called.check_app(record.task)
    return record


def seen(
    called: Invocation, verb: str, given: str, digests: Sequence[str]
) -> tuple[Record, list[waiting.Request]]:
    """Return the Task, and the requests that the person decides about; none if the person says no.

    Raises:
        BadParameter: No digest is given, and there is no terminal to ask on. So the command cannot
            know that a person has seen the requests.
        NotAwaited: The Task asks for no approval, a digest does not name one request, or a request
            shows another action than its digest.
    """
    record = found(called, given)
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


def approvals(
    found: Sequence[waiting.Request], granted: bool, by: str | None, why: str
) -> list[dict[str, Any]]:
    """The decisions about these requests, one each."""
    said = {"type": vocabulary.APPROVAL, "granted": granted, "by": recorded_name(by), "why": why}
    return [{**said, "digest": request.digest} for request in found]


def decide(
    called: Invocation,
    record: Record,
    decisions: Sequence[Mapping[str, Any]],
    outcome: str,
    grant: Grant,
) -> int:
    """Record the decisions and let the Task go on: here, or on a Host that serves its runtime."""
    task = record.task
    if called.app_runs(task):
        check_no_flags(grant, str(called.app))
        return called.run_app(lambda here: here.decide(record, decisions))
    if serves(task.runtime_kind):
        grants = called.granted(task, grant)
        return called.run(grants, lambda here: here.decide(record, decisions))

    check_no_flags(grant, f"a Host that serves {label(task.runtime_kind)}")

    async def deciding(host: Host) -> tuple[Task, str]:
        return await settle(host, record, decisions), await onward(called, host, record)

    after, way_on = called.controlled(deciding)
    called.report(after, f"{outcome}; {way_on}")
    return 0


def recorded_name(by: str | None) -> str:
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
