"""Why a run ended or paused: one of these reasons, readable on the Task."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from agentic_kernel import CannotStart, Task

from ..waiting import WAITING_FOR as WAITING_FOR

STOP_REASON: Final = "engine/stop_reason"
"""The note that every end and every pause by the Loop leaves on the Task."""


class StopReason(StrEnum):
    """What a program may branch on."""

    FINAL = "final"
    """The planner gave its final answer; the Task is in ``success``."""
    MAX_ITERATIONS = "max_iterations"
    MAX_TOOL_CALLS = "max_tool_calls"
    MAX_FAILURES = "max_failures"
    NO_PROGRESS = "no_progress"
    """Nothing new came of several steps in a row, reflection included."""
    MAX_GOAL_DEPTH = "max_goal_depth"
    MAX_DEPTH = "max_depth"
    """A Task tried to delegate deeper than allowed."""
    TIMEOUT = "timeout"
    """The run had worked for as long as it may; no new work was started."""
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
    """Paused: for an approval, an answer, a moment, or because it was asked to."""
    CANCELLED = "cancelled"
    """Paused by the run's own ``should_cancel``."""
    ERROR = "error"
    """A fault; the Task's failure has the code of whatever failed."""


def refuse_notes(task: Task, *notes: str) -> None:
    """Refuse a Task that came with what its run is to note.

    Raises:
        CannotStart: Its metadata has one of these keys.
    """
    for note in notes:
        if note in task.metadata:
            raise CannotStart(f"the metadata {note!r} is a note of its run; omit it", task.id)
