"""Tracing: the OpenTelemetry context of a request, in and out.

Only the API is used, and only if it is installed. Without a configured SDK, spans
are recorded nowhere, and the context passes through unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

try:
    from opentelemetry import propagate as _propagate
    from opentelemetry import trace as _trace
except ImportError:  # The package is optional.
    trace: ModuleType | None = None
    propagate: ModuleType | None = None
else:
    trace, propagate = _trace, _propagate

MOST: Final = 512
"""The longest header of a context that is read, in bytes."""
_CONTEXT: Final = (b"traceparent", b"tracestate", b"baggage")


class Span:
    """The span of one request; without OpenTelemetry it records nothing."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def ended(self, route: str, method: str, status: int) -> None:
        """Name the span, after the route is known."""
        if self._span is not None:
            self._span.update_name(f"{method} {route}")
            self._span.set_attribute("http.route", route)
            self._span.set_attribute("http.response.status_code", status)
            if status >= 500 and trace is not None:
                self._span.set_status(trace.StatusCode.ERROR)


@contextmanager
def serving(
    method: str, headers: list[tuple[bytes, bytes]], answered: dict[str, str]
) -> Iterator[Span]:
    """A span for the request, as a child of the caller's, and current in the block.

    Args:
        method: The request's method.
        headers: Its headers, with names in lower case.
        answered: Gets the headers that tell the caller of the span.
    """
    if trace is None or propagate is None:
        yield Span()
        return
    carrier: Mapping[str, str] = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in headers
        if name in _CONTEXT and len(value) <= MOST
    }
    tracer = trace.get_tracer("agentic_kernel_server")
    with tracer.start_as_current_span(
        method,
        context=propagate.extract(carrier),
        kind=trace.SpanKind.SERVER,
        attributes={"http.request.method": method},
    ) as span:
        sent: dict[str, str] = {}
        propagate.inject(sent)
        # Baggage is the caller's own; only the span is new to it.
        if "traceparent" in sent:
            answered["traceparent"] = sent["traceparent"]
        yield Span(span)
