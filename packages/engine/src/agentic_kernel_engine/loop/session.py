"""Session: a conversation over several Tasks. A new one starts from an earlier one's transcript.

On its first entry the new Task takes the transcript over into its own history, in the first commit
that it makes; from then on it never looks at the earlier one, which may be pruned. What is taken
over is bounded, so a conversation of n Tasks stores no more than n times `CARRIED` for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agentic_kernel import Task, TaskNotFound, TaskStatus

from .. import edges
from ..errors import TaskFailed
from ..events import Event
from ..plans import vocabulary
from ..plans.action import FinalAnswer
from ..plans.observation import INDETERMINATE, SKIPPED, Observation
from ..plans.plan import Plan
from ..plans.transcript import Entry, Notice, Summary, Transcript, Turn, UserMessage, read
from ..principal import Principal
from ..seams.compactor import extract, fitting
from .compaction import ask

if TYPE_CHECKING:
    from ..seams.compactor import Compactor
    from .run import LoopRun

SESSION: Final = "engine/session"
"""Metadata of a Task: the name of the conversation. What is taken over does not depend on it."""
CONTINUES: Final = "engine/continues"
"""Metadata of a Task: the id of the one whose transcript it starts from."""
CARRIED: Final = 256_000
"""How long what is taken over may be, as JSON, in bytes; of what is older there is an extract."""
EXTRACT: Final = 4_000
"""How long that may be, in characters."""

NOT_FOUND: Final = "engine/session_not_found"
"""There is no such Task: it never was, or it was pruned before the new one's first commit."""
NOT_ENDED: Final = "engine/session_not_ended"
"""It has not ended: what it will have said is not known."""
FORBIDDEN: Final = "engine/session_forbidden"
"""It was run on behalf of another principal, or for another tenant."""
UNREADABLE: Final = "engine/session_unreadable"
"""No Loop has run it, or it ended before its first commit: it left no transcript."""


def continued(task: Task, instructions: str, *, summary: str | None = None) -> Task:
    """A new Task, not started, that goes on with the conversation of an earlier one.

    It starts from the earlier one's transcript, whether that ended well, failed or was killed; it
    fails with a code of this module where that cannot be had. Dispatch it like any other Task,
    once the earlier one has ended.

    Args:
        task: The earlier Task; its kind, its Agent and what came in with it carry over.
        instructions: What is said next.
        summary: Of the new Task; by default that of the earlier one.

    Raises:
        InvalidValue: An argument has the wrong type, or the new Task would break a rule.
    """
    edges.instance(task, "task", Task)
    given = {
        key: value
        for key, value in task.metadata.items()
        if key not in task.noted and not key.startswith("engine/")
    }
    return Task.new(
        summary=task.summary if summary is None else summary,
        instructions=instructions,
        runtime_kind=task.runtime_kind,
        agent_name=task.agent_name,
        metadata={**given, **lineage(task)},
    )


def lineage(task: Task) -> dict[str, Any]:
    """Metadata of a Task that goes on with the conversation of this one."""
    return {SESSION: task.metadata.get(SESSION, task.id), CONTINUES: task.id}


def on_behalf(principal: Principal) -> dict[str, Any]:
    """What ``run.started`` says of the principal; nothing if there is none."""
    if not principal.name and not principal.tenant:
        return {}
    return {"principal": {"name": principal.name, "tenant": principal.tenant}}


async def carry_over(run: LoopRun, principal: Principal, compactor: Compactor | None) -> None:
    """Start from the transcript of the Task that this one continues.

    Raises:
        TaskFailed: It cannot be had, with a code of this module.
    """
    earlier = str(run.task.metadata[CONTINUES])
    try:
        task, events = await run.job.read(earlier)
    except TaskNotFound:
        raise TaskFailed(
            NOT_FOUND, f"there is no task {earlier[:80]!r} to continue; it may have been pruned"
        ) from None
    _check(task, events, principal)
    said = Transcript([*read(events, [UserMessage(task.instructions)]), *_end(task, events)])
    wanted = None if compactor is None else ask(compactor, run, said)
    if wanted is not None:
        said = Transcript([Summary(wanted.summary), *said[wanted.entries :]])
    if said.size > CARRIED:
        count = len(said) - fitting(said, CARRIED)
        said = Transcript([Summary(extract(said[:count], EXTRACT)), *said[count:]])
    session = run.task.metadata.get(SESSION, earlier)
    run.record(vocabulary.RUN_CONTINUED, session=session, task=earlier, entries=list(said))
    run.transcript = Transcript([*said, run.opening])


def _check(task: Task, events: Iterable[Event], principal: Principal) -> None:
    """Whether a transcript may be taken over at all; whose it is comes first."""
    started = next((each for each in events if each.type == vocabulary.RUN_STARTED), None)
    if started is not None and started.data.get("principal") != on_behalf(principal).get(
        "principal"
    ):
        raise TaskFailed(
            FORBIDDEN, f"task {task.id!r} was run on behalf of somebody else; do not continue it"
        )
    if not task.status.terminal:
        raise TaskFailed(
            NOT_ENDED,
            f"task {task.id!r} is {task.status}; continue it when it has ended, or answer or "
            "resume it",
        )
    if started is None:
        raise TaskFailed(
            UNREADABLE, f"no Loop has a run of task {task.id!r} on record; begin a new conversation"
        )


def _end(task: Task, events: Iterable[Event]) -> list[Entry]:
    """What the transcript of a terminal Task does not say by itself."""
    found: list[Entry] = []
    plan: Any = None
    keys: Any = None
    answer: Any = None
    for event in events:
        match event.type:
            case vocabulary.PLAN_MADE:
                plan, keys = event.data, None
            case vocabulary.EFFECTS_PREPARED:
                keys = event.data["keys"]
            case vocabulary.STEP_OBSERVED:
                answer, plan, keys = plan, None, None
    if plan is not None and keys is not None:
        found.append(_unsettled(msgspec.convert(plan, Plan), keys))
    if task.status is not TaskStatus.SUCCESS:
        why = "" if task.failure is None else f" ({task.failure.code}: {task.failure.message})"
        found.append(Notice(f"The work ended in {task.status}{why}."))
    elif answer is None or FinalAnswer(task.result) not in msgspec.convert(answer, Plan).actions:
        found.append(Turn(Plan((FinalAnswer(task.result),)), (Observation(),)))
    return found


def _unsettled(plan: Plan, keys: Any) -> Turn:
    """A turn whose effects had been prepared when the Task ended: nobody knows what came of it."""
    return Turn(
        plan,
        tuple(
            Observation(
                error=INDETERMINATE, message="the task ended while this was going on; whether it "
                "took effect is not known; find out before you repeat it",
            )
            if str(index) in keys
            else Observation(error=SKIPPED, message="the task ended before it was begun")
            for index in range(len(plan.actions))
        ),
    )  # fmt: skip
