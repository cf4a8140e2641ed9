"""Caller: the run that makes a call, for tools that delegate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from agentic_kernel import Task

from ..host.job import Job


class Caller(msgspec.Struct, eq=False):
    """The run that calls an agent."""

    job: Job
    """The run's hold on its Task."""
    admit: Callable[[Task, Task], Task]
    """Checks that the Task may give work to a child, and returns the child to start; see
    `Delegation.admit`."""
    decisions: list[dict[str, Any]]
    """Decisions of people about requests of this call's child; emptied once the child has them."""
    leaving: Callable[[], bool]
    """Returns True if a call must stop waiting for its child, because the run is about to pause."""
    joined: Task | None = None
    """The child's snapshot after the call has waited for it."""
