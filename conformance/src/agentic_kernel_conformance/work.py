"""Work: how the contracts make a substrate do what they need; supplied by who made the substrate.

The contracts know nothing about instructions that mean something to your substrate. A `Work`
object turns "succeed", "fail", "run until stopped" and "pass several safe points" into Tasks that
do so. Each call returns a fresh Task, ``not_started`` and with an id of its own; the contract
dispatches it.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from agentic_kernel import Query, Runtime, Task


class System(Runtime, Query, Protocol):
    """What the contracts of runtimes and queries are about: both, over the same Tasks."""


@runtime_checkable
class Work(Protocol):
    """Tasks made to measure for one substrate."""

    def succeed(self) -> Task:
        """A Task that soon ends in ``success`` on its own."""
        ...

    def fail(self) -> Task:
        """A Task that soon ends in ``failure`` on its own."""
        ...

    def run_until_stopped(self) -> Task:
        """A Task that does not end by itself within the contract's patience.

        Where the Runtime pauses, it comes to safe points again and again.
        """
        ...

    def pass_safe_points(self) -> Task:
        """A Task that passes several safe points and then ends in ``success`` on its own."""
        ...


@runtime_checkable
class ResultWork(Work, Protocol):
    """Optional: what ``succeed`` results in is known beforehand."""

    def expected_result(self, task: Task) -> Any:
        """The exact result of a Task that ``succeed`` made."""
        ...


@runtime_checkable
class RefusingWork(Work, Protocol):
    """For the feature ``refuses``."""

    def refused(self) -> Task:
        """A Task that the substrate refuses with `CannotStart`."""
        ...


@runtime_checkable
class OutputWork(Work, Protocol):
    """For the feature ``keeps_partial_output``."""

    async def until_output(self, task: Task) -> None:
        """Return once the running Task, made by ``run_until_stopped``, has produced output."""
        ...
