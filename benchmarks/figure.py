"""What a benchmark hands back, and how contestants are timed side by side."""

from __future__ import annotations

import timeit
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure beside its limit and its bar."""

    name: str
    """What was measured, in a few words."""
    ours: float
    unit: str
    """E.g. ``µs``, ``ms``, ``bytes``, ``steps/s``, ``×``."""
    limit: float
    """What the unavoidable work alone came to, measured in the same run."""
    limit_is: str
    """What that work is."""
    bar: float
    """What ours is to reach, in ``unit``."""
    better: Literal["lower", "higher"] = "lower"

    @property
    def held(self) -> bool:
        """Whether ours is on the right side of the bar."""
        return self.ours <= self.bar if self.better == "lower" else self.ours >= self.bar

    def record(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {**asdict(self), "held": self.held}


def interleaved(
    contestants: Mapping[str, Callable[[], object]], *, number: int, rounds: int
) -> dict[str, float]:
    """The best time of one call of each contestant, in seconds.

    They take turns, so a busy moment of the machine falls on all of them; the best round is the
    one that the machine disturbed least.

    Args:
        number: Calls in one turn.
        rounds: Turns of each contestant.
    """
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, contestant in contestants.items():
            best[name] = min(best[name], timeit.timeit(contestant, number=number) / number)
    return best
