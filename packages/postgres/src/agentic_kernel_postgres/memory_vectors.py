"""Vectors: scaled to length 1 in the database's precision; a vector of zeros keeps length 0."""

from __future__ import annotations

from array import array
from typing import Any, Final

from agentic_kernel_engine.seams.memories import BadVector, unit

_MOST: Final = 16_000
"""The most numbers that a vector of pgvector can have."""


def stored(vector: Any) -> list[float]:
    """A vector of length 1, as the database keeps it."""
    numbers = unit(vector)
    if len(numbers) > _MOST:
        raise BadVector(
            f"the embedder gave {len(numbers):,} numbers for a text; pgvector takes at most "
            f"{_MOST:,}"
        )
    # The database refuses a number that is too small for its precision instead of rounding to 0.
    return array("f", numbers).tolist()
