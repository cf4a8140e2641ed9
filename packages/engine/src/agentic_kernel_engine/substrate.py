"""Substrate: all that the author of a new Runtime must write."""

from __future__ import annotations

from typing import Any, Protocol

from .host.job import Job


class Substrate(Protocol):
    """Where a Task's work really happens.

    A substrate may also have ``async def accept(self, task: Task) -> None``: it is called before
    anything is written, and raises `CannotStart` to refuse the Task.

    And it may have ``async def on_killed(self, task: Task, state: Any, events: Sequence[Event]) ->
    None``: it is called after a Task was killed, by the Host that ran it, or that killed it while
    nobody did, and ends what that Task has running outside of its store. At least once; what it
    raises is logged, and nothing waits for it but the closing of the Host.
    """

    async def execute(self, job: Job) -> Any:
        """Do the work and return its result, a JSON value.

        Entered once for every stretch of running: first with ``job.state`` None, and after a
        pause, a crash or a take-over with what the last commit left. What happened after that
        commit happens again, so effects go behind a commit of their own. A call that goes on
        must find all it needs in ``job.task``, ``job.state`` and ``job.history()``.

        Being unwound is a cancellation like any other: clean up and let it through.

        Raises:
            TaskFailed: The work failed; the Task ends in ``failure`` with this code.
        """
        ...
