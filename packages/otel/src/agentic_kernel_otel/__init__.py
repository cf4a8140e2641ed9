"""Exports traces, metrics and logs of Tasks to any OpenTelemetry backend."""

from .forms import redacted
from .middleware import TracingMiddleware
from .observer import OTelObserver
from .propagation import ROOT, SPAN, TRACEPARENT, TRACESTATE, traceparent, with_trace
from .substrate import TracedSubstrate

__all__ = [
    "ROOT",
    "SPAN",
    "TRACEPARENT",
    "TRACESTATE",
    "OTelObserver",
    "TracedSubstrate",
    "TracingMiddleware",
    "redacted",
    "traceparent",
    "with_trace",
]
