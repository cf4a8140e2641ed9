"""The plot of the end-to-end benchmark shows every cell, and each within its panel."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from .pages.dots import dots

SVG = "{http://www.w3.org/2000/svg}"
CELLS: dict[str, dict[str, float]] = {
    "reference": {"memory": 0.3, "Postgres": 9.0},
    "Copilot <CLI>": {"memory": 40.0, "Postgres": 2_000.0},
}


def drawn(**measures: Any) -> ElementTree.Element:
    return ElementTree.fromstring(dots({"title": "All & more", "measures": measures}))


def test_every_cell_is_a_dot_with_its_value_as_a_tooltip() -> None:
    svg = drawn(turn=CELLS, kill=CELLS)
    told = [dot.findtext(f"{SVG}title") for dot in svg.iter(f"{SVG}circle")]
    shown = [title for title in told if title]
    assert shown == 2 * [
        f"{row}, {store}: {value:.3g}" for row in CELLS for store, value in CELLS[row].items()
    ]
    words = [each.text for each in svg.iter(f"{SVG}text")]
    assert {*CELLS, "memory", "Postgres", "turn", "kill", "All & more"} <= set(words)


@pytest.mark.parametrize(
    "cells",
    [CELLS, {"one": {"memory": 1.0}}, {"one": {"memory": 0.001}, "other": {"file": 100_000.0}}],
)
def test_no_dot_is_outside_the_picture_or_left_of_the_first_tick(cells: Any) -> None:
    svg = drawn(turn=cells)
    wide, high = (float(part) for part in svg.attrib["viewBox"].split()[2:])
    left = min(
        float(found[1])
        for path in svg.iter(f"{SVG}path")
        if (found := re.match(r"M([\d.]+) ", path.attrib["d"]))
    )
    for dot in svg.iter(f"{SVG}circle"):
        if dot.find(f"{SVG}title") is not None:
            assert left <= float(dot.attrib["cx"]) <= wide
            assert 0 < float(dot.attrib["cy"]) < high


def test_two_stores_of_one_value_are_two_dots() -> None:
    svg = drawn(turn={"one": {"memory": 1.0, "file": 1.0}})
    places = {(dot.attrib["cx"], dot.attrib["cy"]) for dot in svg.iter(f"{SVG}circle") if len(dot)}
    assert len(places) == 2
