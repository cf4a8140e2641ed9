"""How hard the contracts try: ``--conformance-level=quick`` (the default) or ``full``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Level:
    """The sizes of the contracts' exercises."""

    name: str
    reads: int
    """Snapshots read and checked while a writer writes."""
    extras: int
    """Own extras that each of four resumers must see kept."""
    rounds: int
    """How often a race is run."""
    depth: int
    """Mutations in a row, every sequence of which is tried on `apply`."""


LEVELS: Final = {
    "quick": Level("quick", reads=10_000, extras=25, rounds=12, depth=4),
    "full": Level("full", reads=100_000, extras=500, rounds=200, depth=5),
}
