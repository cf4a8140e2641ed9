"""Work: makes the Tasks with which the contracts test a substrate; its author supplies it.

The contracts do not know which instructions your substrate understands. A `Work` object turns
"succeed", "fail", "run until stopped" and "pass several safe points" into Tasks that do so. Each
call returns a fresh Task, ``not_started`` and with its own id; the contract dispatches it.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from agentic_kernel import Query, Runtime, Task


class System(Runtime, Query, Protocol):
    """The system under test: a Runtime and a Query over the same Tasks."""


@runtime_checkable
class Work(Protocol):
    """Makes the Tasks of the contracts for one substrate."""

    def succeed(self) -> Task:
        """A Task that soon ends in ``success`` on its own."""
        ...

    def fail(self) -> Task:
        """A Task that soon ends in ``failure`` on its own."""
        ...

    def run_until_stopped(self) -> Task:
        """A Task that does not end by itself within the contract's patience.

        If the Runtime pauses, the Task reaches safe points again and again.
        """
        ...

    def pass_safe_points(self) -> Task:
        """A Task that passes several safe points and then ends in ``success`` on its own."""
        ...


@runtime_checkable
class ResultWork(Work, Protocol):
    """Optional: a `Work` that knows the result of ``succeed`` in advance."""

    def expected_result(self, task: Task) -> Any:
        """The exact result of a Task that ``succeed`` made."""
        ...


@runtime_checkable
class RefusingWork(Work, Protocol):
    """A `Work` for the feature ``refuses``."""

    def refused(self) -> Task:
        """A Task that the substrate refuses with `CannotStart`."""
        ...


@runtime_checkable
class OutputWork(Work, Protocol):
    """A `Work` for the feature ``keeps_partial_output``."""

    async def until_output(self, task: Task) -> None:
        """Return once the running Task, made by ``run_until_stopped``, has produced output."""
        ...


@runtime_checkable
class HearingWork(Work, Protocol):
    """Optional: a `Work` that says with which extras its Tasks can be resumed.

    Without it the contracts resume with short texts of their own.
    """

    def extra(self, token: str) -> Any:
        """An extra that lets the Task go on as it would without it.

        Args:
            token: A short text of the contract. Different tokens give different extras, and the
                same token gives an equal extra.

        Returns:
            Text that is not empty, because a Runtime refuses any other extra.
        """
        ...


def extra_of(work: Work, token: str) -> str:
    """Return the extra of the work for a token, or the token if the work names no extras."""
    return str(work.extra(token)) if isinstance(work, HearingWork) else token
