"""Caller: the run behind a call, for tools that delegate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentic_kernel import Task

from ..host.job import Job


class Caller:
    """The run that calls an agent.

    Args:
        job: Its hold on its Task.
        admit: Whether the Task may give work to a child; see `Delegation.admit`.
        decisions: What people said to what the child of this very call asked for; emptied once
            the child has it.
        leaving: Whether a call is to let go of its child, because the run is about to pause.
    """

    __slots__ = ("admit", "decisions", "job", "leaving")

    def __init__(
        self,
        job: Job,
        admit: Callable[[Task, Task], Task],
        decisions: list[dict[str, Any]],
        leaving: Callable[[], bool],
    ) -> None:
        self.job = job
        self.admit = admit
        self.decisions = decisions
        self.leaving = leaving
