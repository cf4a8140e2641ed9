"""Moments: events that take no time, as span events, and as log records with their span's ids."""

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
"""Parts of the data that are no content."""
_QUOTING: Final = ("reason", "message", "refused")
"""Parts that may quote an exception, a person or a model."""
_REASONS: Final = frozenset({"requested", *(reason.value for reason in StopReason)})
"""The reasons that a program gives, which quote nobody."""
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
"""Characters of one part."""
_MOST_VERDICTS: Final = 50


class Moments:
    """Where moments are told.

    Args:
        capture: Whether all of an event's data is, which may be content.
    """

    def __init__(self, logger: Logger, redaction: Redaction, capture: bool) -> None:
        self._logger = logger
        self._redaction = redaction
        self._capture = capture

    def tell(self, task_id: str, event: Event, stretch: RunSpans | None, at: int) -> None:
        """Tell of an event.

        Args:
            stretch: The one that it happened in; None if it happened in none that is here.
            at: When, in nanoseconds.
        """
        severity = _LOUD.get(event.type, SeverityNumber.INFO)
        logged = self._logger.enabled(severity_number=severity)
        shown = stretch is not None and stretch.span.is_recording()
        if not logged and not shown:
            return
        name = names.EVENT + self._redaction.name(event.type)
        told = self._told(event.data)
        if stretch is not None and shown:
            stretch.span.add_event(name, told, at)
        if logged:
            self._logger.emit(
                timestamp=at,
                # Without a stretch it belongs to whoever is doing it, in a request, say.
                context=None if stretch is None else stretch.context,
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
