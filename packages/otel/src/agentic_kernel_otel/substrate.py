"""TracedSubstrate: a substrate whose runs are part of their Task's trace."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry import context as contexts

from agentic_kernel import InvalidValue, Task
from agentic_kernel_engine import Event, Job, Substrate, edges
from agentic_kernel_engine.faults import log
from agentic_kernel_engine.principal import NOBODY, Principal
from agentic_kernel_engine.substrate import Accepting, Acting, Cleaning, Limiting, Metered, Reading

from .run_spans import RunSpans

if TYPE_CHECKING:
    from .tracing import Tracing

_log = logging.getLogger(__name__)


class TracedSubstrate(Accepting, Cleaning, Acting, Limiting, Metered, Reading):
    """A `Substrate` around another one, which adds tracing and changes nothing else.

    The context of the run's span is current in the run. The run's first commit stores it on the
    Task as the notes `SPAN` and `ROOT`, for the process that continues the Task.

    Args:
        substrate: The substrate that does the work.
        tracing: The tracing of the same observer that the Host has.
    """

    def __init__(self, substrate: Substrate, tracing: Tracing) -> None:
        self._substrate = substrate
        self._tracing = tracing

        def optional(port: type[Any]) -> Any:
            return edges.optional(substrate, "substrate", port)

        self._accepting: Accepting | None = optional(Accepting)
        self._cleaning: Cleaning | None = optional(Cleaning)
        self._acting: Acting | None = optional(Acting)
        self._limiting: Limiting | None = optional(Limiting)
        self._reading: Reading | None = optional(Reading)
        self._metered: Metered | None = optional(Metered)

    async def accept(self, task: Task) -> None:
        if self._accepting is not None:
            await self._accepting.accept(task)

    async def on_killed(self, task: Task, state: Any, events: Sequence[Event]) -> None:
        if self._cleaning is not None:
            await self._cleaning.on_killed(task, state, events)

    @property
    def principal(self) -> Principal:
        """The principal of the wrapped substrate; `NOBODY` if it has no principal."""
        return NOBODY if self._acting is None else self._acting.principal

    @property
    def limit_names(self) -> Collection[str]:
        """The limits that the wrapped substrate keeps."""
        return () if self._limiting is None else self._limiting.limit_names

    @property
    def reads(self) -> Collection[str]:
        """The forms of states that the wrapped substrate reads."""
        return () if self._reading is None else self._reading.reads

    @property
    def meters(self) -> bool:
        """True if the wrapped substrate keeps within a grant, and says what it used."""
        return self._metered is not None and self._metered.meters is True

    async def execute(self, job: Job) -> Any:
        spans = self._entered(job)
        if spans is None:
            return await self._substrate.execute(job)
        token = contexts.attach(spans.context)
        try:
            return await self._substrate.execute(job)
        except asyncio.CancelledError:
            # Also if another host ended the Task: this host's observer gets no event of that.
            self._tracing.left(job.task.id, spans)
            raise
        finally:
            contexts.detach(token)

    def _entered(self, job: Job) -> RunSpans | None:
        try:
            spans, notes = self._tracing.enter(job.task)
            for key, value in notes.items():
                try:
                    job.note(key, value)
                except InvalidValue:
                    # The Task's metadata already has this key, so a note cannot use it.
                    continue
        except Exception as fault:
            log(_log, fault, "a run of task %r is not traced", job.task.id)
            return None
        return spans
