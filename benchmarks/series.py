"""The growth of a quantity with another one, which a benchmark gives to be drawn."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Series:
    """Some lines over one axis; ``integration/pages/figures.py`` draws them."""

    series: str
    """The name of the drawing."""
    title: str
    x: str
    """The growing quantity, in a few words."""
    y: str
    """The measured quantity, with its unit."""
    lines: dict[str, list[tuple[float, float]]]
    """The points of each line, by its name."""

    def record(self) -> dict[str, Any]:
        """All of it as JSON."""
        return asdict(self)
