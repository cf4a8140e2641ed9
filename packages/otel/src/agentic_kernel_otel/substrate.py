"""TracedSubstrate: a substrate whose runs are in the trace that travels with their Task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry import context as contexts

from agentic_kernel import InvalidValue, Task
from agentic_kernel_engine import Event, Job, Substrate
from agentic_kernel_engine.faults import log

from .run_spans import RunSpans

if TYPE_CHECKING:
    from .tracing import Tracing

_log = logging.getLogger(__name__)


class TracedSubstrate:
    """A `Substrate` around another: the same, but for what OpenTelemetry gets to know.

    The context of the Task's part is current in the run, and the notes `SPAN` and `ROOT` leave
    it on the Task with the run's first commit, for the process that goes on with it.

    Args:
        substrate: Does the work.
        tracing: Of the observer that the Host is given as well.
    """

    def __init__(self, substrate: Substrate, tracing: Tracing) -> None:
        self._substrate = substrate
        self._tracing = tracing

    async def accept(self, task: Task) -> None:
        accept = getattr(self._substrate, "accept", None)
        if accept is not None:
            await accept(task)

    async def on_killed(self, task: Task, state: Any, events: Sequence[Event]) -> None:
        on_killed = getattr(self._substrate, "on_killed", None)
        if on_killed is not None:
            await on_killed(task, state, events)

    async def execute(self, job: Job) -> Any:
        stretch = self._entered(job)
        if stretch is None:
            return await self._substrate.execute(job)
        token = contexts.attach(stretch.context)
        try:
            return await self._substrate.execute(job)
        except asyncio.CancelledError:
            # Also of a Task that was ended by another host, of which this one is told nothing.
            self._tracing.left(job.task.id, stretch)
            raise
        finally:
            contexts.detach(token)

    def _entered(self, job: Job) -> RunSpans | None:
        try:
            stretch, notes = self._tracing.enter(job.task)
            for key, value in notes.items():
                try:
                    job.note(key, value)
                except InvalidValue:
                    # The key came in with the Task, so it is not free for notes.
                    continue
        except Exception as fault:
            log(_log, fault, "a run of task %r is not traced", job.task.id)
            return None
        return stretch
