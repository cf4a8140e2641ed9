"""Caller: the run behind a call, for tools that delegate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentic_kernel import Task

from ..host.job import Job


class Caller:
    """The run that calls an agent.

    Args:
        job: The run's hold on its Task.
        admit: Checks that the Task may give work to a child, and returns the child to start; see
            `Delegation.admit`.
        decisions: Decisions of people about requests of this call's child; emptied once the child
            has them.
        leaving: Returns True if a call must stop waiting for its child, because the run is about
            to pause.
    """

    __slots__ = ("admit", "decisions", "job", "joined", "leaving")

    joined: Task | None
    """The child's snapshot after the call has waited for it."""

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
        self.joined = None
