"""The figures of a benchmark, and the timing of contestants side by side."""

from __future__ import annotations

import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure beside its limit and its bar."""

    name: str
    """The measured thing, in a few words."""
    ours: float
    unit: str
    """E.g. ``µs``, ``ms``, ``bytes``, ``steps/s``, ``×``."""
    limit: float
    """The same for the unavoidable work alone, measured in the same run."""
    limit_is: str
    """The unavoidable work."""
    bar: float
    """The value that ours has to reach, in ``unit``."""
    better: Literal["lower", "higher"] = "lower"

    @property
    def held(self) -> bool:
        """True if ours is on the right side of the bar."""
        return self.ours <= self.bar if self.better == "lower" else self.ours >= self.bar

    def record(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {**asdict(self), "held": self.held}


def table(figures: Sequence[Mapping[str, Any]]) -> str:
    """Their records as a Markdown table."""
    lines = [
        "| what | ours | limit | ours ÷ limit | bar | held |",
        "|---|---|---|---|---|---|",
    ]
    for figure in figures:
        unit, sign = figure["unit"], "≤" if figure["better"] == "lower" else "≥"
        lines.append(
            f"| {figure['name']} | {_number(figure['ours'])} {unit} "
            f"| {_number(figure['limit'])} {unit}: {figure['limit_is']} "
            f"| {figure['ours'] / figure['limit']:.2f} "
            f"| {sign} {_number(figure['bar'])} {unit} "
            f"| {'yes' if figure['held'] else '**no**'} |"
        )
    return "\n".join(lines)


def _number(value: float) -> str:
    """Three digits, and never an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


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
