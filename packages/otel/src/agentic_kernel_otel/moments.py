"""Moments: events without a duration, as span events and as log records with their span's ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from opentelemetry._logs import Logger, SeverityNumber

from agentic_kernel_engine import Event
from agentic_kernel_engine.loop import StopReason

from . import conventions as names
from .redaction import Redaction
from .run_spans import RunSpans

_SAID: Final = (
    "by", "code", "kind", "digest", "decision", "child", "agent", "status", "tool", "index", "then",
    "doing", "session", "task", "round", "at",
)  # fmt: skip
"""Keys of an event's data that are not content."""
_QUOTING: Final = ("reason", "message", "refused")
"""Keys whose text may quote an exception, a person or a model."""
_REASONS: Final = frozenset({"requested", *(reason.value for reason in StopReason)})
"""Reasons that come from the program itself, without a quotation."""
_LOUD: Final = {
    "task.failed": SeverityNumber.ERROR,
    "run.abandoned": SeverityNumber.ERROR,
    "plan.failed": SeverityNumber.WARN,
    "run.reflected": SeverityNumber.WARN,
    "run.not_compacted": SeverityNumber.WARN,
    "run.result_dropped": SeverityNumber.WARN,
    "memory.failed": SeverityNumber.WARN,
    "memory.lost": SeverityNumber.WARN,
}
_MOST: Final = 200
"""The most characters of one value."""
_MOST_VERDICTS: Final = 50


class Moments:
    """Records events as span events and log records.

    Args:
        capture: True to record all data of an event, which may be content.
    """

    def __init__(self, logger: Logger, redaction: Redaction, capture: bool) -> None:
        self._logger = logger
        self._redaction = redaction
        self._capture = capture

    def tell(self, task_id: str, event: Event, spans: RunSpans | None, at: int) -> None:
        """Record an event.

        Args:
            spans: The run in which it happened; None if it happened in no run of this process.
            at: The time, in nanoseconds.
        """
        severity = _LOUD.get(event.type, SeverityNumber.INFO)
        logged = self._logger.enabled(severity_number=severity)
        shown = spans is not None and spans.span.is_recording()
        if not logged and not shown:
            return
        name = names.EVENT + self._redaction.name(event.type)
        told = self._told(event.data)
        if spans is not None and shown:
            spans.span.add_event(name, told, at)
        if logged:
            self._logger.emit(
                timestamp=at,
                # Without a run, the record belongs to the caller's current context, e.g. a request.
                context=None if spans is None else spans.context,
                severity_number=severity,
                severity_text=severity.name,
                body=self._redaction.line(event.type),
                attributes={names.TASK: self._redaction.line(task_id), **told},
                event_name=name,
            )

    def _told(self, data: Mapping[str, Any]) -> dict[str, Any]:
        told: dict[str, Any] = {}
        for key in (*_SAID, *_QUOTING):
            value = data.get(key)
            if (
                key in _QUOTING
                and not self._capture
                and not (isinstance(value, str) and value in _REASONS)
            ):
                continue
            if isinstance(value, str) and value:
                told[names.EVENT + key] = self._redaction.line(value, _MOST)
            elif isinstance(value, int) and value.bit_length() < 64:
                told[names.EVENT + key] = value
        decisions = data.get("decisions")
        if isinstance(decisions, (list, tuple)):
            told[names.VERDICTS] = [
                self._redaction.name(each.get("verdict"))
                for each in decisions[:_MOST_VERDICTS]
                if isinstance(each, Mapping)
            ]
        if self._capture and data:
            told[names.EVENT_DATA] = self._redaction.content(data)
        return told
