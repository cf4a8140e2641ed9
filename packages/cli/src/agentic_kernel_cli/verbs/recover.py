"""The verb ``recover``: run what a dead process left."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Annotated

import typer

from ..kinds import LOCAL
from ..parameters import (
    AcceptTools,
    Granted,
    Mcp,
    Model,
    Option,
    Tools,
    Workspace,
    Yes,
    granted_by,
    invocation,
)
from ..text import line, named

if TYPE_CHECKING:
    from agentic_kernel import CannotStart, Task
    from agentic_kernel_engine import Host, Record

    from ..grants import Grant
    from ..invocation import Invocation


def recover(
    context: typer.Context,
    given: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Only these Tasks; without an ID: all."),
    ] = None,
    runtime: Granted = LOCAL,
    model: Model = None,
    option: Option = None,
    tools: Tools = None,
    workspace: Workspace = None,
    yes: Yes = False,
    mcp: Mcp = None,
    accept_tools: AcceptTools = False,
) -> int:
    """Run Tasks whose process died, if these flags grant what the Tasks ask for."""
    from agentic_kernel import CannotStart

    from .. import control
    from ..codes import LEFT
    from ..grants import check_no_flags
    from ..user import check_mine

    called, grant = invocation(context), granted_by(context)
    lease = called.place.lease

    async def finding(host: Host) -> list[Record]:
        if given:
            return [await control.abandoned(host, name, lease) for name in given]
        return await control.left_behind(host)

    found = called.controlled(finding)
    if not found:
        late = f" (a dead process may count as alive for {lease:g} s; try again)" if lease else ""
        _note(f"nothing to recover{late}")
        return 0
    grants: dict[str, Grant] = {}
    own: list[Task] = []
    left: list[CannotStart] = []
    for record in found:
        if called.app_runs(record.task):
            own.append(record.task)
            continue
        try:
            check_mine(record)
            grants[record.task.id] = called.permitted(record.task, grant, named=bool(given))
        except CannotStart as error:
            left.append(error)
    # Last, and for all in one opening of the place, because it reads the histories.
    for other in called.foreign([each.task for each in found if each.task.id in grants]):
        grants.pop(str(other.task_id))
        left.append(other)
    run = {*(task.id for task in own), *grants}
    below = _descendants(found, run)
    for refusal in left:
        if refusal.task_id not in below:
            _leave(called, refusal)
    codes = []
    if own:
        if called.app is not None and not grants:
            check_no_flags(grant, str(called.app))
        refused: list[CannotStart] = []
        codes.append(called.run_app(lambda here: here.take_up(own, refused)))
        for each in refused:
            _leave(called, each)
    if grants:
        taken = [record.task for record in found if record.task.id in grants]
        codes.append(called.run(grants, lambda here: here.take_up(taken)))
    # The run of a Task may have run its children too, in a Host of its own.
    later = [refusal for refusal in left if refusal.task_id in below]

    async def remaining(host: Host) -> list[CannotStart]:
        return [each for each in later if await _is_abandoned(host, each.task_id)]

    for refusal in called.controlled(remaining) if later else ():
        _leave(called, refusal)
    return next((code for code in codes if code), 0) if codes else LEFT


def _descendants(found: Sequence[Record], run: Set[str]) -> set[str]:
    """The ids of those whose parent, or a Task above it, is among the Tasks that are run."""
    below: set[str] = set()
    while more := {
        record.task.id
        for record in found
        if record.parent in run | below and record.task.id not in run | below
    }:
        below |= more
    return below


async def _is_abandoned(host: Host, task_id: str | None) -> bool:
    from agentic_kernel import TaskNotFound

    from ..place import orphaned

    assert task_id is not None  # The refusals of this command name their Tasks.
    try:
        return await orphaned(host, await host.record(task_id))
    except TaskNotFound:  # Another process pruned it.
        return False


def _leave(called: Invocation, left: CannotStart) -> None:
    """Print that a Task is left as it is, and why."""
    from .. import rendering
    from ..grants import NotGranted

    if called.as_json:
        words = left.words if isinstance(left, NotGranted) else ()
        rendering.json_line(
            "left", {"task_id": left.task_id, "reason": left.reason, "grant": words}
        )
    else:
        _note(line(f"left: {named(str(left.task_id))}: {left.reason}"))


def _note(text: str) -> None:
    typer.echo(text, err=True)
