"""The events of the Loop, in the Task's history beside those of the Host.

Every step leaves ``plan.made``, ``plan.decided`` (if there was any action) and ``step.observed``,
in this order; the other events stand where they happened. No event of a step comes after the
commit that resolves the step.
"""

from __future__ import annotations

from typing import Final

from ..waiting import ANSWER as ANSWER

RUN_STARTED: Final = "run.started"
"""The run began. Data: ``limits``, those that differ from the defaults; ``tools``, the names of the
tools that the Loop has, at most 100; ``principal``, if any."""
RUN_ENTERED: Final = "run.entered"
"""The run was entered again after a crash or a take-over, which left a reservation. Data:
``forfeited`` (that reservation, now spent)."""
RUN_RETUNED: Final = "run.retuned"
"""Limits were changed. Data: ``by``, and ``limits``, or why they were ``refused``; or ``grant``, if
the parent changed the Task's grant."""
RUN_REFLECTED: Final = "run.reflected"
"""The run stalled, and the planner is told so. Data: ``text``, ``round``."""
RUN_CONTINUED: Final = "run.continued"
"""Entries of an earlier Task came over. Data: ``session``, ``task``, ``entries``."""
RUN_COMPACTED: Final = "run.compacted"
"""A summary took the place of entries. Data: ``summary``, ``kept`` beside it, ``after`` (the last
event replaced)."""
RUN_NOT_COMPACTED: Final = "run.not_compacted"
"""The compactor failed, or asked for a cut that cannot be made. Data: ``why``."""
RUN_CUT: Final = "run.cut"
"""A pause or the limit of time ended an answer early. Data: ``text`` so far; ``usage``, the most
that the call has used up, if it is known; ``forfeited``, its reservation, if it is not."""
RUN_WAITS: Final = "run.waits"
"""The Task pauses until an approval, an answer or a moment. Data: ``kind``, and its details."""
RUN_STOPPED: Final = "run.stopped"
"""The run ended. Data: ``reason``, ``usage``, ``steps``, ``message``."""
PLAN_MADE: Final = "plan.made"
"""The planner answered. Data: the `Plan`."""
PLAN_FAILED: Final = "plan.failed"
"""A call of a planner failed. Data: ``code``, ``message``, ``then`` (the remedy); ``usage``, the
most that the call has used up, if it is known; ``forfeited``, its reservation, if it is not."""
PLAN_DECIDED: Final = "plan.decided"
"""The policy decided. Data: ``decisions`` in the order of the actions."""
EFFECTS_PREPARED: Final = "effects.prepared"
"""Calls with effects are about to begin, as many as the limits leave room for. Data: ``keys`` by
the index of the action; ``grants`` by the child's id, if calls of agents get parts of the budget.
"""
APPROVAL_GIVEN: Final = "approval.given"
"""A person approved an action. Data: ``digest``, ``by``, ``why``."""
APPROVAL_REFUSED: Final = "approval.refused"
"""A person refused an action. Data: ``digest``, ``by``, ``why``."""
APPROVAL_IGNORED: Final = "approval.ignored"
"""A decision did nothing: the Task does not ask about that action, or no longer. Data:
``digest``, ``by``, ``why``."""
QUESTION_ANSWERED: Final = "question.answered"
"""A person answered. Data: ``text``, ``by``."""
STEP_OBSERVED: Final = "step.observed"
"""A step is done. Data: ``observations`` in the order of the actions, ``goals``."""
TOOL_PROGRESS: Final = "tool.progress"
"""A tool reported its progress. Data: ``tool``, ``index``, ``report``."""
TOOL_ABANDONED: Final = "tool.abandoned"
"""A tool's time is over, but its thread still runs. Data: ``tool``, ``index``, ``abandoned``
(number of such threads now), ``limit``."""
CHILD_SPAWNED: Final = "child.spawned"
"""A child is about to be spawned under this id. Data: ``child``, ``agent``; ``grant``, if it gets a
part of the budget."""
DECISION_HANDED_ON: Final = "decision.handed_on"
"""A person's decision goes to the child or the tool that asked for it. Data: ``child`` or ``tool``,
``digest``, ``by``; for a tool ``question`` and ``text``."""
CHILD_ENDED: Final = "child.ended"
"""A child that was waited for has ended. Data: ``child``, ``status``; ``used``, if it had a grant.
"""
MEMORY_RECALLED: Final = "memory.recalled"
"""The planner is shown items from memory. Data: ``hits``, each with ``id`` and ``score``."""
MEMORY_NOTED: Final = "memory.noted"
"""Items are to be remembered; they are brought into memory next. Data: ``items`` (their ids)."""
MEMORY_FAILED: Final = "memory.failed"
"""Memory or its governor failed, and the run goes on without it. Data: ``doing``, ``message``."""
MEMORY_LOST: Final = "memory.lost"
"""Noted items are given up: memory failed for too long, or is gone. Data: ``items`` (their
ids)."""

LOOP_EVENTS: Final = frozenset(
    {
        RUN_STARTED, RUN_ENTERED, RUN_RETUNED, RUN_REFLECTED, RUN_CONTINUED, RUN_COMPACTED,
        RUN_NOT_COMPACTED, RUN_CUT, RUN_WAITS, RUN_STOPPED,
        PLAN_MADE, PLAN_FAILED, PLAN_DECIDED, EFFECTS_PREPARED, APPROVAL_GIVEN, APPROVAL_REFUSED,
        APPROVAL_IGNORED, QUESTION_ANSWERED, STEP_OBSERVED, TOOL_PROGRESS, TOOL_ABANDONED,
        CHILD_SPAWNED, DECISION_HANDED_ON, CHILD_ENDED, MEMORY_RECALLED, MEMORY_NOTED,
        MEMORY_FAILED, MEMORY_LOST,
    }
)  # fmt: skip

APPROVAL: Final = "engine/approval"
"""A decision in the inbox about one action. Data: ``digest``, ``granted``, ``by``, ``why``."""
RETUNE: Final = "engine/retune"
"""A decision in the inbox that changes limits. Data: ``limits``, ``by``."""
STEP: Final = "engine/step"
"""A decision in the inbox: do one step, then pause."""
GRANT: Final = "engine/grant"
"""A decision in the inbox of a child: its parent changed its grant. Only the run of a parent sends
it. Data: ``grant`` (amounts by name), ``seq`` (an older change does nothing)."""
