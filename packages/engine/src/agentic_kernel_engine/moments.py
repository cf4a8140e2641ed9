"""Moments: the range of time that may be stored, so that readers can show it in any time zone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from agentic_kernel import InvalidValue
from agentic_kernel.frozen import shown

EARLIEST: Final = datetime(1, 1, 2, tzinfo=UTC)
"""The first moment that may be stored: a day after the calendar begins, because a time zone may lie
a day behind UTC."""
LATEST: Final = datetime(9999, 12, 30, 23, 59, 59, 999_999, tzinfo=UTC)
"""The last moment that may be stored: a day before the calendar ends."""


def aware(name: str, value: Any) -> datetime:
    """A moment from a caller, in UTC.

    Raises:
        InvalidValue: The value is not a datetime, has no time zone, or is out of range.
    """
    if not isinstance(value, datetime):
        raise InvalidValue(name, f"must be a datetime, not {type(value).__name__}")
    try:
        # The time zone is the caller's code and may raise.
        naive, shown = datetime.utcoffset(value) is None, datetime.isoformat(value)
        moment = None if naive else datetime.astimezone(value, UTC)
    except OverflowError:
        naive, moment, shown = False, None, datetime.isoformat(datetime.replace(value, tzinfo=None))
    except Exception as fault:
        raise InvalidValue(name, "has a time zone that raises; use another one") from fault
    if naive:
        raise InvalidValue(name, "is a naive datetime; give it a time zone")
    if moment is None or not EARLIEST <= moment <= LATEST:
        raise InvalidValue(name, f"is {shown}; use {EARLIEST.date()} to {LATEST.date()} in UTC")
    return moment


def stored(name: str, text: Any) -> datetime:
    """A moment from its stored form, ISO 8601 with an offset; moved into the range if outside.

    Version 0.1 stored moments that have no form in UTC; a reader must not fail on them.

    Raises:
        InvalidValue: The text is not a moment.
    """
    try:
        moment = datetime.fromisoformat(text)
        offset = moment.utcoffset()
    except (TypeError, ValueError):
        moment, offset = None, None
    if moment is None or offset is None:
        raise InvalidValue(name, f"{shown(text)} is not an ISO 8601 date and time")
    try:
        return min(max(moment.astimezone(UTC), EARLIEST), LATEST)
    except OverflowError:
        return EARLIEST if moment.year < 5000 else LATEST
