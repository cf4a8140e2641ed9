"""Substrate: the port that the author of a new Runtime implements, and its optional parts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, Protocol

from agentic_kernel import Task

from .events import Event
from .host.job import Job
from .principal import Principal


class Substrate(Protocol):
    """The part of a Runtime that does a Task's work.

    A substrate may also be `Accepting`, `Cleaning`, `Acting`, `Limiting`, `Metered` or `Reading`.
    Name these as base classes: a method that is misspelled then fails in the type checker, and
    when the substrate is made.
    """

    @abstractmethod
    async def execute(self, job: Job) -> Any:
        """Do the work and return its result, a JSON value.

        The Host calls it once for each run: first with ``job.state`` None, and after a pause, a
        crash or a take-over with the state of the last commit. The work after that commit is done
        again, so commit before each effect. A later call must find all it needs in ``job.task``,
        ``job.state`` and ``job.history()``.

        The Host unwinds a run by an ordinary cancellation: clean up and let it pass.

        Raises:
            TaskFailed: The work failed; the Task ends in ``failure`` with this code.
            StateUnreadable: The substrate does not understand ``job.state``. Raise it before
                anything else is done: the Host lets the Task go and leaves it to another (R23).
        """
        ...


class Accepting(Protocol):
    """A substrate that may refuse a Task before anything is written."""

    @abstractmethod
    async def accept(self, task: Task) -> None:
        """Return to accept the Task.

        Raises:
            CannotStart: The substrate refuses the Task.
        """
        ...


class Cleaning(Protocol):
    """A substrate whose Tasks may leave work running elsewhere, e.g. in another process."""

    @abstractmethod
    async def on_killed(self, task: Task, state: Any, events: Sequence[Event]) -> None:
        """End everything that a killed Task has running elsewhere.

        The Host that ran the Task calls it at least once, or the Host that killed the Task while
        no Host ran it. The Host logs an exception of this method, and waits for the method only
        when the Host is closed.

        Args:
            state: The state of the Task's last commit; None if there was none.
            events: All durable events of the Task.
        """
        ...


class Acting(Protocol):
    """A substrate that acts for one principal if a dispatch names no other."""

    @property
    @abstractmethod
    def principal(self) -> Principal:
        """The principal; it never changes."""
        ...


class Limiting(Protocol):
    """A substrate that keeps limits; a dispatch with limits is refused on any other."""

    @property
    @abstractmethod
    def limit_names(self) -> Collection[str]:
        """The names of the fields of `Limits` that it keeps; they never change."""
        ...


class Reading(Protocol):
    """A substrate that reads states which carry a form; see `Job.tag`.

    A Host with a substrate that is not `Reading` takes only Tasks whose state has no form.
    """

    @property
    @abstractmethod
    def reads(self) -> Collection[str]:
        """The forms that it reads, such as ``acme/2``; they never change."""
        ...


class Metered(Protocol):
    """A substrate whose runs keep within the grant in `Job.terms` (R18), as a `Ledger` does.

    Its state says what a Task has used, and the note ``engine/used`` says so at the Task's end.
    """

    @property
    @abstractmethod
    def meters(self) -> bool:
        """True if it does; it never changes."""
        ...
