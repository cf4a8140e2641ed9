"""Tracing: begins and ends the spans of all runs, each at its place in a trace."""

from __future__ import annotations

from collections.abc import Mapping
from time import time_ns as now
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanContext

from agentic_kernel import Task
from agentic_kernel_engine.loop import SESSION
from agentic_kernel_engine.seams import PARENT

from . import conventions as names
from .means import Means
from .propagation import ROOT, SPAN, around, brought, noted, written
from .run_spans import RunSpans
from .trails import Trail, Trails

LOST = "lost"
"""Status of a run whose Task went on, or ended, in another process."""


class Tracing:
    """Begins and ends the spans of runs. Times are in nanoseconds.

    The Host reports that a Task is dispatched, resumed or claimed before the substrate is entered,
    and a Task that was resumed or claimed may run elsewhere. So the run's span is made at the first
    report of the run itself, and starts at the time of the earlier event.

    Args:
        provider: The provider of the models; None for the provider of the Task's runtime kind.
    """

    def __init__(self, means: Means, provider: str | None) -> None:
        self.means = means
        self.trails = Trails(self._forgotten)
        self._provider = provider

    def enter(self, task: Task) -> tuple[RunSpans, Mapping[str, str]]:
        """Begin a run of this Task here; return its spans, and the notes to leave on the Task."""
        trail, at = self.trails.of(task.id), now()
        if trail.spans is not None and trail.spans.entered:
            self.end(trail, at, LOST)
        spans = trail.spans or self._begin(trail, at, task.id, task)
        spans.entered = True
        notes = {}
        span = spans.span.get_span_context()
        if span.is_valid:
            notes[SPAN] = written(span)
            if trail.root is not None and ROOT not in task.metadata and brought(task) is None:
                notes[ROOT] = written(trail.root)
        return spans, notes

    def left(self, task_id: str, spans: RunSpans) -> None:
        """End the spans of an unwound run, unless an earlier event has ended them."""
        trail = self.trails.get(task_id)
        if trail is not None and trail.spans is spans:
            self.end(trail, now(), LOST)

    def within(self, task: Task) -> RunSpans:
        """Return the spans of this Task's run; begin them if there are none."""
        trail = self.trails.of(task.id)
        return trail.spans or self._begin(trail, now(), task.id, task)

    def running(self, task_id: str, at: int, by: Any = None, agent: str = "") -> RunSpans | None:
        """Return the spans of a Task's run; None if the Task is not known to run here.

        Args:
            by: The actor of an event. An event of the actor that resumed or claimed the Task does
                not show that the Task runs here.
            agent: The name of the Task's Agent, for spans that begin now.
        """
        trail = self.trails.get(task_id)
        if trail is None:
            return None
        if trail.spans is None and trail.began and (by is None or by != trail.by):
            return self._begin(trail, at, task_id, None, agent)
        return trail.spans

    def end(self, trail: Trail, at: int, status: str, code: str = "", message: str = "") -> None:
        """End the spans of a trail's run, if there are any; see `RunSpans.end`."""
        spans, trail.spans, trail.began = trail.spans, None, 0
        if spans is not None:
            spans.end(at, status, code, message)

    def _begin(
        self, trail: Trail, at: int, task_id: str, task: Task | None, agent: str = ""
    ) -> RunSpans:
        redaction = self.means.redaction
        began, trail.began = trail.began or at, 0
        kind = ""
        if task is not None:
            kind = redaction.name(task.runtime_kind)
            agent = redaction.name(task.agent_name)
            trail.earlier = noted(task, SPAN) or trail.earlier
            trail.root = noted(task, ROOT) or trail.root
        provider = self._provider or names.provider_of(kind) or "agentic_kernel"
        told: dict[str, Any] = {
            names.OPERATION: names.INVOKE_AGENT,
            names.PROVIDER: provider,
            names.TASK: redaction.line(task_id),
        }
        if task is not None:
            session = task.metadata.get(SESSION)
            told[names.CONVERSATION] = redaction.line(session or task.id)
            told[names.KIND] = kind
            if self.means.capture:
                said = [{"type": "text", "content": task.instructions}]
                message = {"role": "user", "parts": said}
                told[names.INPUT_MESSAGES] = redaction.content([message])
        if agent:
            told[names.AGENT] = agent
        context, links = self._place(trail, task)
        span = self.means.tracer.start_span(
            f"{names.INVOKE_AGENT} {agent}".rstrip(), context, attributes=told, links=links,
            start_time=began,
        )  # fmt: skip
        mine = span.get_span_context()
        if trail.earlier is None:
            trail.root = _span_of(context) or mine
        trail.earlier = mine
        trail.caller = None
        trail.spans = RunSpans(
            self.means, span, trace.set_span_in_context(span, context), began=began, agent=agent,
            provider=provider,
        )  # fmt: skip
        self.means.instruments.began()
        return trail.spans

    def _place(self, trail: Trail, task: Task | None) -> tuple[Context, list[Link]]:
        """Return the parent context of a run's span, and its links."""
        own = None if task is None else brought(task)
        if trail.earlier is not None:
            link = Link(trail.earlier, {names.LINK: "earlier"})
            return own or around(trail.root or trail.earlier), [link]
        parent = trail.parent or self._parent(trail, task)
        if parent is not None:
            return own or Context(), [Link(parent, {names.LINK: "parent"})]
        return own or trail.caller or Context(), []

    def _parent(self, trail: Trail, task: Task | None) -> SpanContext | None:
        """Return the span of the parent Task's run; None if it is not known."""
        given_by = None if task is None else task.metadata.get(PARENT)
        if not isinstance(given_by, str):
            return None
        known = self.trails.get(given_by)
        if known is not None and known.earlier is not None:
            return known.earlier
        return None if trail.caller is None else _span_of(trail.caller)

    def _forgotten(self, trail: Trail) -> None:
        self.end(trail, now(), LOST)


def _span_of(context: Context) -> SpanContext | None:
    """Return the current span of a context; None if there is none."""
    span = trace.get_current_span(context).get_span_context()
    return span if span.is_valid else None
