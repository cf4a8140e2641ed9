"""Propagation: passes a trace on with a Task, in the form of W3C Trace Context.

In: `with_trace` puts the caller's trace context into the Task's metadata, before dispatch. Out: the
note `SPAN` holds the span of the Task's latest run; `traceparent` reads it, in any process.
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
"""Metadata of a Task: the ``traceparent`` of the caller that gave the work."""
TRACESTATE: Final = "otel/tracestate"
"""Metadata of a Task: the ``tracestate`` of the same caller, if there is any."""
SPAN: Final = "otel/span"
"""Note on a Task: the ``traceparent`` of its latest run."""
ROOT: Final = "otel/root"
"""Note on a Task that was dispatched without a trace in its metadata: the ``traceparent`` of the
parent of its runs. That is the caller's span, or else the span of the first run."""

_propagator = TraceContextTextMapPropagator()


def with_trace(task: Task, context: Context | None = None) -> Task:
    """Return the Task with the current trace in its metadata; the same Task if there is no trace.

    Use it for a Task that another process dispatches; within one process it is not necessary.

    Args:
        task: A Task that has not started. A trace in its metadata is replaced.
        context: The context that holds the trace; None for the current one.
    """
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, contexts.get_current() if context is None else context)
    if not carrier:
        return task
    kept = {k: v for k, v in task.metadata.items() if k not in (TRACEPARENT, TRACESTATE)}
    added = {f"otel/{name}": value for name, value in carrier.items()}
    return replace(task, metadata={**kept, **added})


def traceparent(task: Task) -> str | None:
    """Return the ``traceparent`` of the Task's latest run, or else the one in its metadata.

    None if the Task has neither.
    """
    found = task.metadata.get(SPAN if SPAN in task.noted else TRACEPARENT)
    return found if isinstance(found, str) else None


def written(span: SpanContext) -> str:
    """Return the ``traceparent`` of a span; an empty string if the span is not valid."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, around(span))
    return carrier.get("traceparent", "")


def around(span: SpanContext) -> Context:
    """Return a context that holds only this span, as the current one."""
    return trace.set_span_in_context(trace.NonRecordingSpan(span), Context())


def brought(task: Task) -> Context | None:
    """Return the context in the Task's metadata; None if it is missing or not valid."""
    metadata = task.metadata
    return _read(metadata.get(TRACEPARENT), metadata.get(TRACESTATE))


def noted(task: Task, key: str) -> SpanContext | None:
    """Return the span of a note; None if it is missing, not valid, or not a note of a run."""
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
