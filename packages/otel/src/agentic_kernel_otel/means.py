"""Means: the tracer, instruments and redaction that all runs of one observer share."""

from __future__ import annotations

import logging

from opentelemetry.trace import Span, StatusCode, Tracer

from agentic_kernel_engine.faults import log

from . import conventions as names
from .instruments import Instruments
from .redaction import Redaction

_log = logging.getLogger(__name__)


class Means:
    """A tracer, instruments and a redaction.

    Args:
        capture: True if content is recorded.
    """

    __slots__ = ("_faulty", "capture", "instruments", "redaction", "tracer")

    def __init__(
        self, tracer: Tracer, instruments: Instruments, redaction: Redaction, capture: bool
    ) -> None:
        self.tracer = tracer
        self.instruments = instruments
        self.redaction = redaction
        self.capture = capture
        self._faulty = False

    def end(self, span: Span, at: int) -> None:
        """End a span; a failure of a span processor is logged once and not raised."""
        try:
            span.end(at)
        except Exception as fault:
            if not self._faulty:
                self._faulty = True
                log(_log, fault, "a span could not be exported; this is reported once")

    def close(self, span: Span, at: int, error: str, unfinished: bool) -> None:
        """End a span, with its error and its `UNFINISHED` mark, if any."""
        if (error or unfinished) and span.is_recording():
            if error:
                span.set_attribute(names.ERROR_TYPE, error)
                span.set_status(StatusCode.ERROR)
            if unfinished:
                span.set_attribute(names.UNFINISHED, True)
        self.end(span, at)
