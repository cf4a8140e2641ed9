"""Stop reasons: the reasons of a run's end or pause, readable on the Task."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from agentic_kernel import CannotStart, Task

from ..waiting import WAITING_FOR as WAITING_FOR

STOP_REASON: Final = "engine/stop_reason"
"""The note that every end and every pause by the Loop leaves on the Task."""


class StopReason(StrEnum):
    """The reason of an end or of a pause; a program may branch on it."""

    FINAL = "final"
    """The planner gave its final answer; the Task is in ``success``."""
    MAX_ITERATIONS = "max_iterations"
    MAX_TOOL_CALLS = "max_tool_calls"
    MAX_FAILURES = "max_failures"
    NO_PROGRESS = "no_progress"
    """Several steps in a row brought nothing new, corrective messages included."""
    MAX_GOAL_DEPTH = "max_goal_depth"
    MAX_DEPTH = "max_depth"
    """A Task tried to delegate deeper than allowed."""
    TIMEOUT = "timeout"
    """The run has worked for ``max_seconds``; a call that was under way is cancelled."""
    MAX_TOKENS = "max_tokens"
    MAX_COST = "max_cost"
    LOOP = "loop"
    """The same actions gave the same observations again and again."""
    GUARDRAIL = "guardrail"
    DENIED = "denied"
    """An action was denied, and denials end this run."""
    STOPPED = "stopped"
    """The planner or the policy stopped the run."""
    INTERRUPT = "interrupt"
    """Paused: until an approval, an answer or a moment, or because a pause was requested."""
    CANCELLED = "cancelled"
    """Paused by the run's own ``should_cancel``."""
    ERROR = "error"
    """A part of the run failed; the Task's failure has the code of that part."""


def refuse_notes(task: Task, *notes: str) -> None:
    """Refuse a Task whose metadata has a key that only its run may write.

    Raises:
        CannotStart: Its metadata has one of these keys.
    """
    for note in notes:
        if note in task.metadata:
            raise CannotStart(
                f"the metadata key {note!r} is written by the run; remove it from the Task", task.id
            )
