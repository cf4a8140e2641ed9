"""Pause request: the entry in a Task's inbox that asks for a pause at the next safe point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .record import Record

PAUSE: Final = "pause"
"""Type of the decision that asks for a pause at the next safe point."""


def pause_waits(record: Record) -> bool:
    """True if a pause request waits in the record's inbox."""
    return any(entry["type"] == PAUSE for entry in record.inbox)


def without_pause(inbox: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """The inbox without its pause requests."""
    return tuple(entry for entry in inbox if entry["type"] != PAUSE)
