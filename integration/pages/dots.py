"""A plot of dots in panels: a row for each runtime, a colour for each store, a panel for each
measure. As SVG that light and dark pages show alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from .plots import COLOURS, GREY, text

_NAMES, _PANEL, _GAP = 130, 230, 46
_ROW, _TOP, _BOTTOM = 26, 78, 34
_RADIUS: Final = 4.5
_APART: Final = 2.4
"""Pixels by which the dots of one row are moved up and down, so that none hides another."""


def dots(drawn: Mapping[str, Any]) -> str:
    """The SVG of the panels that `benchmarks/end_to_end.py` records."""
    measures: Mapping[str, Mapping[str, Mapping[str, float]]] = drawn["measures"]
    rows = list(dict.fromkeys(name for each in measures.values() for name in each))
    columns = list(dict.fromkeys(s for each in measures.values() for r in each.values() for s in r))
    colours = dict(zip(columns, COLOURS, strict=False))
    wide = _NAMES + len(measures) * (_PANEL + _GAP)
    high = _TOP + len(rows) * _ROW + _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" '
        f'font-family="sans-serif" font-size="12" fill="{GREY}" role="img">',
        f"<title>{escape(drawn['title'])}</title>",
        text(8, 18, drawn["title"], "start"),
    ]
    for number, (name, colour) in enumerate(colours.items()):
        x = _NAMES + 90 * number
        parts.append(f'<circle cx="{x}" cy="36" r="{_RADIUS}" fill="{colour}"/>')
        parts.append(text(x + 10, 40, name, "start", colour))
    for number, row in enumerate(rows):
        parts.append(text(_NAMES - 12, _middle(number) + 4, row, "end"))
    for number, (title, found) in enumerate(measures.items()):
        left = _NAMES + number * (_PANEL + _GAP)
        parts += _panel(left, title, found, rows, colours)
    return "\n".join([*parts, "</svg>\n"])


def _middle(row: int) -> float:
    return _TOP + (row + 0.5) * _ROW


def _panel(
    left: float,
    title: str,
    found: Mapping[str, Mapping[str, float]],
    rows: Sequence[str],
    colours: Mapping[str, str],
) -> list[str]:
    values = [value for each in found.values() for value in each.values()]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    bottom = _TOP + len(rows) * _ROW

    def at(value: float) -> float:
        return round(left + (math.log10(value) - low) / (high - low) * _PANEL, 1)

    parts = [text(left, _TOP - 10, title, "start")]
    for exponent in range(low, high + 1):
        x = at(10.0**exponent)
        parts.append(f'<path d="M{x:g} {_TOP}V{bottom}" stroke="{GREY}" stroke-opacity="0.3"/>')
        parts.append(text(x, bottom + 18, f"{10.0**exponent:,.10g}", "middle"))
    for number, row in enumerate(rows):
        y = _middle(number)
        parts.append(f'<path d="M{left} {y}h{_PANEL}" stroke="{GREY}" stroke-opacity="0.15"/>')
        for place, (name, colour) in enumerate(colours.items()):
            if name in found.get(row, {}):
                moved = y + (place - (len(colours) - 1) / 2) * _APART
                value = found[row][name]
                parts.append(
                    f'<circle cx="{at(value)}" cy="{moved:g}" r="{_RADIUS}" fill="{colour}" '
                    f'fill-opacity="0.85"><title>{escape(f"{row}, {name}: {value:.3g}")}</title>'
                    "</circle>"
                )
    return parts
