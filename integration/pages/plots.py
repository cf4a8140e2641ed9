"""A plot of some lines over a logarithmic axis, as SVG that light and dark pages show alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

_WIDE, _HIGH = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 150, 34, 44
GREY: Final = "#888888"
COLOURS: Final = ("#3f7fbf", "#c8642d", "#5a9a4a", "#9a5ab4")
_DECADES: Final = 20
"""From this ratio of the largest to the smallest on, the other axis is logarithmic too."""
_APART: Final = 14
"""Pixels between two names."""


class _Axis:
    """From values to pixels, and the values that are written beside it."""

    def __init__(self, values: Sequence[float], ends: tuple[float, float], *, log: bool) -> None:
        self._log = log
        low, high = min(values), max(values)
        if log:
            exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            self.ticks = [10.0**exponent for exponent in exponents]
        else:
            unit = 10.0 ** math.floor(math.log10(high))
            step = next(unit * part for part in (0.2, 0.5, 1, 2) if high <= 6 * unit * part)
            self.ticks = [step * n for n in range(math.ceil(high / step) + 1)]
        self._from, self._to = self._scaled(self.ticks[0]), self._scaled(self.ticks[-1])
        self._ends = ends

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self._log else value

    def at(self, value: float) -> float:
        """Where a value lies."""
        begin, end = self._ends
        part = (self._scaled(value) - self._from) / ((self._to - self._from) or 1)
        return round(begin + part * (end - begin), 1)


def plot(drawn: Mapping[str, Any]) -> str:
    """The SVG of a series as `benchmarks/series.py` records it."""
    lines: Mapping[str, Sequence[Sequence[float]]] = drawn["lines"]
    ys = [y for points in lines.values() for _, y in points]
    across = _Axis(
        [x for points in lines.values() for x, _ in points], (_LEFT, _WIDE - _RIGHT), log=True
    )
    up = _Axis(ys, (_HIGH - _BOTTOM, _TOP), log=max(ys) > _DECADES * min(ys))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" '
        f'font-family="sans-serif" font-size="12" fill="{GREY}" role="img">',
        f"<title>{escape(drawn['title'])}</title>",
        text(_LEFT, 16, f"{drawn['title']}: {drawn['y']}", "start"),
        text((_LEFT + _WIDE - _RIGHT) / 2, _HIGH - 8, drawn["x"], "middle"),
    ]
    for tick in across.ticks:
        parts.append(text(across.at(tick), _HIGH - _BOTTOM + 18, f"{tick:,.0f}", "middle"))
    for tick in up.ticks:
        y = up.at(tick)
        parts.append(text(_LEFT - 8, y + 4, f"{tick:,.10g}", "end"))
        parts.append(
            f'<path d="M{_LEFT} {y}H{_WIDE - _RIGHT}" stroke="{GREY}" stroke-opacity="0.3"/>'
        )
    names = _spread({name: up.at(points[-1][1]) for name, points in lines.items()})
    for (name, points), colour in zip(lines.items(), COLOURS, strict=False):
        path = " ".join(f"{across.at(x)},{up.at(y)}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{across.at(x)}" cy="{up.at(y)}" r="3" fill="{colour}"/>'
            for x, y in points
        ]
        parts.append(text(_WIDE - _RIGHT + 10, names[name] + 4, name, "start", colour))
    return "\n".join([*parts, "</svg>\n"])


def text(x: float, y: float, said: str, anchor: str, colour: str = GREY) -> str:
    """Words at a place; ``anchor`` says which end of them is there."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}">{escape(said)}</text>'


def _spread(wanted: Mapping[str, float]) -> dict[str, float]:
    """Where each name goes so that none lies on another."""
    placed: dict[str, float] = {}
    for name in sorted(wanted, key=lambda name: wanted[name]):
        above = max(placed.values(), default=-math.inf)
        placed[name] = max(wanted[name], above + _APART)
    return placed
