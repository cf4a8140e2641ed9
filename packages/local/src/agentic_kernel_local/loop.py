"""LocalLoop: a Loop that also takes up Tasks that release 0.1.0 began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentic_kernel import CannotStart, InvalidValue, Task
from agentic_kernel_engine import Event, Job, Loop

from .schemas import fitted

_EARLIER: Final = (1, 2)
"""The versions of the states of `LocalSubstrate`, which the Loop replaced."""


class LocalLoop(Loop):
    """A Loop that also takes up Tasks whose state `LocalSubstrate` of an earlier version wrote.

    That state has counters only, and the text is in the Task's history. So such a Task begins a run
    of the Loop that goes on from the text in progress. The tokens that it used before do not count.
    """

    async def accept(self, task: Task) -> None:
        """See `Loop.accept`.

        Raises:
            CannotStart: Also if llama.cpp cannot hold answers to the schema of the result.
        """
        try:
            schema = self.answer_forms.of(task).schema
            if schema is not None:
                fitted(schema)
        except InvalidValue as error:
            raise CannotStart(f"the schema of the result, {error}", task.id) from error
        await super().accept(task)

    async def execute(self, job: Job) -> Any:
        """See `Loop.execute`."""
        job.state = _of_loop(job.state)
        return await super().execute(job)

    async def on_killed(self, task: Task, state: Any, events: Sequence[Event]) -> None:
        """See `Loop.on_killed`."""
        await super().on_killed(task, _of_loop(state), events)


def _of_loop(state: Any) -> Any:
    """Return a state of the Loop as it is; None for one of `LocalSubstrate`."""
    return None if isinstance(state, Mapping) and state.get("v") in _EARLIER else state
