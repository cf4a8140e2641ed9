"""Substrate: the port that the author of a new Runtime implements, and its two optional parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from agentic_kernel import Task

from .events import Event
from .host.job import Job


class Substrate(Protocol):
    """Where a Task's work really happens.

    A substrate may also be `Accepting` or `Cleaning`. Name these as base classes: a method that is
    misspelled then fails in the type checker, and when the substrate is made.
    """

    async def execute(self, job: Job) -> Any:
        """Do the work and return its result, a JSON value.

        The Host enters it once for each run: first with ``job.state`` None, and after a pause, a
        crash or a take-over with the state of the last commit. Everything after that commit
        happens again, so commit before each effect. A call that goes on must find all it needs in
        ``job.task``, ``job.state`` and ``job.history()``.

        The Host unwinds a run by a cancellation like any other: clean up and let it through.

        Raises:
            TaskFailed: The work failed; the Task ends in ``failure`` with this code.
        """
        ...


class Accepting(Protocol):
    """A substrate that may refuse a Task before anything is written."""

    async def accept(self, task: Task) -> None:
        """Return to accept the Task.

        Raises:
            CannotStart: The substrate refuses the Task.
        """
        raise NotImplementedError


class Cleaning(Protocol):
    """A substrate that has something running outside of the store."""

    async def on_killed(self, task: Task, state: Any, events: Sequence[Event]) -> None:
        """End everything that a killed Task has running elsewhere.

        Called at least once, by the Host that ran the Task, or by the Host that killed it while no
        Host ran it. The Host logs what it raises; only the Host's closing waits for it.

        Args:
            state: Of the Task's last commit; None if there was none.
            events: All durable events of the Task.
        """
        raise NotImplementedError
