"""Replay: a run, read back from its history; and the outcome of any Task.

A replay is for reading only. A run always goes on from its state and never from a replay, because
the history does not hold the host's ``variables``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from agentic_kernel import InvalidValue, Task

from .. import edges
from .. import events as host_events
from ..events import Event
from ..plans import vocabulary
from ..plans.action import Action
from ..plans.limits import Spent
from ..plans.observation import Observation
from ..plans.plan import NOTHING_USED, Plan, Usage
from ..plans.reasons import STOP_REASON, StopReason
from ..plans.transcript import Entry, read


class Replay(msgspec.Struct):
    """The facts about a run that its events hold."""

    status: str = ""
    """The Task's status after the last event."""
    reason: StopReason | None = None
    """The reason why the run ended; None if it has not ended."""
    steps: int = 0
    actions: list[Action] = []
    """The actions that were done, without the denied and the stopped ones."""
    observations: list[Observation] = []
    """The observation of each of these actions."""
    goals: tuple[str, ...] = ()
    spent: Spent = msgspec.field(default_factory=Spent)
    transcript: list[Entry] = []
    """The transcript as the planner saw it last, without the Task's instructions, because no event
    holds these."""


_STATUS = {
    host_events.TASK_DISPATCHED: "running",
    host_events.TASK_RESUMED: "running",
    host_events.TASK_PAUSED: "paused",
    host_events.TASK_COMPLETED: "success",
    host_events.TASK_FAILED: "failure",
    host_events.TASK_KILLED: "cancelled",
}


def replay(events: Iterable[Event]) -> Replay:
    """Read a run back from its durable events, in their order.

    Raises:
        InvalidValue: It is not iterable, or yields a value that is not an `Event`.
    """
    if not isinstance(events, Iterable):
        raise InvalidValue("events", f"is {edges.came(events)}; give the events of one Task")
    history = [edges.instance(each, f"events[{at}]", Event) for at, each in enumerate(events)]
    run = Replay(transcript=read(history))
    plan: Plan | None = None
    for event in history:
        run.status = _STATUS.get(event.type, run.status)
        match event.type:
            case vocabulary.PLAN_MADE:
                plan = msgspec.convert(event.data, Plan)
                run.spent.iterations += 1
                run.spent.bank(plan.usage)
            case vocabulary.RUN_ENTERED:
                run.spent.iterations += 1
                run.spent.bank(msgspec.convert(event.data["forfeited"], Usage))
            case vocabulary.RUN_CUT | vocabulary.PLAN_FAILED:
                for counted in ("forfeited", "usage"):
                    run.spent.bank(msgspec.convert(event.data.get(counted, {}), Usage))
            case vocabulary.STEP_OBSERVED if plan is not None:
                _observe(run, plan, event.data["observations"])
                run.steps += 1
                run.goals = tuple(event.data.get("goals", run.goals))
                plan = None
            case vocabulary.RUN_STOPPED:
                run.reason = StopReason(event.data["reason"])
    return run


def _observe(run: Replay, plan: Plan, observations: Any) -> None:
    found = msgspec.convert(observations, list[Observation])
    for action, observation in zip(plan.actions, found, strict=True):
        if observation.done:
            run.spent.count(action, observation)
            run.actions.append(action)
            run.observations.append(observation)


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a Task."""

    task: Task
    answer: Any
    """The final answer; None unless the Task is in ``success``."""
    reason: StopReason | None
    """The reason why it ended or paused; None if the Task is running, or no Loop has run it."""
    usage: Usage
    """The usage of all calls of the planner that are over; see ``reserved``."""
    events: Sequence[Event]
    state: Mapping[str, Any] | None = None
    """The durable state of the run, as plain JSON: that of its last commit, before the step that
    ended it. None if the Task's substrate has stored no such mapping, as before its first commit.
    """
    reserved: Usage = NOTHING_USED
    """The reservation of that commit, which ``usage`` does not include. Of a Task that was killed,
    completed or failed from outside, the call may have been made and have used up to this much; of
    a running one, it may be under way. Nothing if the Task ended by itself, or if its planner has
    no forecast. `Host.account` counts both together."""


def outcome(task: Task, events: Sequence[Event], state: Mapping[str, Any] | None = None) -> Outcome:
    """The outcome of a Task, from its snapshot, its history, and the state in its record."""
    noted = task.metadata.get(STOP_REASON)
    reason = StopReason(noted) if noted in list(StopReason) and task.status != "running" else None
    run = replay(events)
    reserved = NOTHING_USED if run.reason is not None else _reserved(state)
    return Outcome(task, task.result, reason, run.spent.usage, events, state, reserved)


def _reserved(state: Mapping[str, Any] | None) -> Usage:
    """The reservation in a state; nothing if it has none, or if it is not a state of the Loop."""
    try:
        return msgspec.convert((state or {}).get("reserved") or {}, Usage)
    except msgspec.ValidationError:
        return NOTHING_USED
