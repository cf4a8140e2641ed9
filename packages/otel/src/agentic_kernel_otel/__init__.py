"""Exports traces, metrics and logs of Tasks to any OpenTelemetry backend.

Each name is loaded when it is first used, because the libraries behind them take long to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "redacted": "forms",
    "TracingMiddleware": "middleware",
    "OTelObserver": "observer",
    "ROOT": "propagation",
    "SPAN": "propagation",
    "TRACEPARENT": "propagation",
    "TRACESTATE": "propagation",
    "traceparent": "propagation",
    "with_trace": "propagation",
    "TracedSubstrate": "substrate",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
