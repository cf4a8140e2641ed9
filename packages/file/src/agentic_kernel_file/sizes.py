"""Sizes: when a segment is full, when the log is compacted, which states get their own file."""

from __future__ import annotations

from dataclasses import dataclass, fields

from agentic_kernel import InvalidValue


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size limits of a `FileStore`, in bytes.

    Raises:
        InvalidValue: A size is not a whole number of 1 or more.
    """

    segment: int = 8 << 20
    """A segment longer than this is sealed."""
    tail: int = 8 << 20
    """The log is compacted when it is longer than this and longer than half of the table."""
    apart: int = 64 << 10
    """A state longer than this is written to a file of its own, while other writes commit."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidValue(
                    f"sizes.{field.name}",
                    f"is {ascii(value)[:60]}; use a whole number of bytes, 1 or more",
                )
