"""Sizes: when a segment is full, and when the log is compacted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """In bytes."""

    segment: int = 8 << 20
    """A segment longer than this is sealed."""
    tail: int = 8 << 20
    """The log is compacted when it is longer than this and than half of the table."""
