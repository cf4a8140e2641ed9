"""Propagation: how a trace travels with a Task, in W3C Trace Context.

In: `with_trace` puts the caller's place in a trace into the Task's metadata, before dispatch. Out:
the note `SPAN` says where in its trace the Task is; `traceparent` reads it, in any process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from agentic_kernel import Task

TRACEPARENT: Final = "otel/traceparent"
"""Metadata of a Task: the ``traceparent`` of whoever gave the work."""
TRACESTATE: Final = "otel/tracestate"
"""Metadata of a Task: the ``tracestate`` beside it, if there is any."""
SPAN: Final = "otel/span"
"""Note on a Task: the ``traceparent`` of its latest part."""
ROOT: Final = "otel/root"
"""Note on a Task that no trace came in with: the ``traceparent`` that its parts are below, which is
that of whoever dispatched it, or else of its first part."""

_propagator = TraceContextTextMapPropagator()


def with_trace(task: Task, context: Context | None = None) -> Task:
    """The Task with the trace that is current here in its metadata; itself, if there is none.

    For a Task that is dispatched elsewhere: within one process the trace is found without it.

    Args:
        task: Not started yet. A trace that it carries already is replaced.
        context: Whose trace; the current one by default.
    """
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, contexts.get_current() if context is None else context)
    if not carrier:
        return task
    kept = {k: v for k, v in task.metadata.items() if k not in (TRACEPARENT, TRACESTATE)}
    added = {f"otel/{name}": value for name, value in carrier.items()}
    return replace(task, metadata={**kept, **added})


def traceparent(task: Task) -> str | None:
    """Where in its trace the Task is, as a ``traceparent``; None if nobody has traced it.

    That of its latest part if there is one, else what came in with it.
    """
    found = task.metadata.get(SPAN if SPAN in task.noted else TRACEPARENT)
    return found if isinstance(found, str) else None


def written(span: SpanContext) -> str:
    """The ``traceparent`` of a span."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, around(span))
    return carrier.get("traceparent", "")


def around(span: SpanContext) -> Context:
    """A context in which this span is current, and nothing else is known."""
    return trace.set_span_in_context(trace.NonRecordingSpan(span), Context())


def brought(task: Task) -> Context | None:
    """The context that came in with the Task; None if it is none."""
    metadata = task.metadata
    return _read(metadata.get(TRACEPARENT), metadata.get(TRACESTATE))


def noted(task: Task, key: str) -> SpanContext | None:
    """The span of a note; None if it is none, or came in with the Task."""
    context = _read(task.metadata[key]) if key in task.noted else None
    return None if context is None else trace.get_current_span(context).get_span_context()


def _read(parent: Any, state: Any = None) -> Context | None:
    if not isinstance(parent, str):
        return None
    carrier = {"traceparent": parent}
    if isinstance(state, str):
        carrier["tracestate"] = state
    context = _propagator.extract(carrier, Context())
    return context if trace.get_current_span(context).get_span_context().is_valid else None
