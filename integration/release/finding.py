"""One line of the release check."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    subject: str
    good: bool
    said: str

    def line(self) -> str:
        """The line that is printed."""
        return f"{'ok' if self.good else 'FAILED':7} {self.subject}: {self.said}"
