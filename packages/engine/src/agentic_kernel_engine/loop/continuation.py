"""Continuation: a conversation over several Tasks; a Task starts from an earlier transcript.

The first commit of the new Task copies the transcript into its own history. From then on the new
Task never reads the earlier one, which may be pruned. The copy is bounded, so a conversation of n
Tasks stores at most n times `CARRIED` bytes of copies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agentic_kernel import Task, TaskNotFound, TaskStatus

from .. import edges
from ..errors import TaskFailed
from ..events import Event
from ..inputs import CONTINUES as CONTINUES
from ..inputs import SESSION as SESSION
from ..plans import vocabulary
from ..plans.action import FinalAnswer
from ..plans.observation import INDETERMINATE, SKIPPED, Observation
from ..plans.plan import Plan
from ..plans.transcript import Entry, Notice, Summary, Transcript, Turn, UserMessage, read
from ..principal import Principal
from ..seams.compactor import Compactor, extract, fitting
from .compaction import ask

if TYPE_CHECKING:
    from .run import LoopRun

CARRIED: Final = 256_000
"""The most bytes of JSON of a copied transcript; an extract replaces its older part."""
EXTRACT: Final = 4_000
"""The most characters of that extract."""

NOT_FOUND: Final = "engine/session_not_found"
"""The earlier Task is not stored, or was pruned before the new Task's first commit."""
NOT_ENDED: Final = "engine/session_not_ended"
"""The earlier Task has not ended, so its transcript is not complete."""
FORBIDDEN: Final = "engine/session_forbidden"
"""The earlier Task ran for another principal, or for another tenant."""
UNREADABLE: Final = "engine/session_unreadable"
"""No Loop has run the earlier Task, or it ended before its first commit: it has no transcript."""


def continued(task: Task, instructions: str, *, summary: str | None = None) -> Task:
    """A new Task, not started, that goes on with the conversation of an earlier one.

    It starts from the earlier Task's transcript, in whatever status that Task has ended. If there
    is no usable transcript, it fails with a code of this module. Dispatch it like any other Task,
    after the earlier one has ended.

    Args:
        task: The earlier Task; the new one gets its kind, its Agent and its input metadata.
        instructions: The user's next message.
        summary: The summary of the new Task; by default that of the earlier one.

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
    """The principal as ``run.started`` records it; empty if there is none."""
    if not principal.name and not principal.tenant:
        return {}
    return {"principal": {"name": principal.name, "tenant": principal.tenant}}


async def carry_over(run: LoopRun, principal: Principal, compactor: Compactor | None) -> None:
    """Start from the transcript of the Task that this one continues.

    Raises:
        TaskFailed: The transcript cannot be used; the failure has a code of this module.
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
    """Refuse a transcript that may not be continued; the principal is checked first."""
    started = next((each for each in events if each.type == vocabulary.RUN_STARTED), None)
    if started is not None and started.data.get("principal") != on_behalf(principal).get(
        "principal"
    ):
        raise TaskFailed(
            FORBIDDEN,
            f"task {task.id!r} ran for another principal or tenant; only a Task for the same one "
            "may continue it",
        )
    if not task.status.terminal:
        raise TaskFailed(
            NOT_ENDED,
            f"task {task.id!r} is {task.status}; continue it when it has ended, or answer or "
            "resume it",
        )
    if started is None:
        raise TaskFailed(
            UNREADABLE, f"no Loop has recorded a run of task {task.id!r}; begin a new conversation"
        )


def _end(task: Task, events: Iterable[Event]) -> list[Entry]:
    """The entries about a Task's end that its transcript itself does not hold."""
    found: list[Entry] = []
    plan: Any = None
    keys: Any = None
    answer: Any = None
    for event in events:
        match event.type:
            case vocabulary.PLAN_MADE:
                plan, keys = event.data, None
            case vocabulary.EFFECTS_PREPARED:
                keys = {**(keys or {}), **event.data["keys"]}
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
    """A turn whose effects were prepared when the Task ended, so that their outcome is unknown."""
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
