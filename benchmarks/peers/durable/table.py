"""The contestants' figures as a Markdown table."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from peers.durable.contest import LEAVING, RUNS
from peers.durable.rounds import STEPS, TURNS

_LEGEND = f"""
{RUNS} runs at once of {STEPS} steps each, in one process, on one server that all contestants use in
turns: the median of the rounds. Each step brings 200 characters and is committed before the next
begins. Ours ÷ theirs is the median of what each round gave. What a step of a run of so many leaves
is counted in all tables and indexes, after as many runs as make {LEAVING:,} steps; there LangGraph
keeps the texts of all steps in its state, as it keeps messages.
"""


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """A row for each contestant, ours first; whoever has no figures has the reason."""
    places = list(lines[0]["steps"])
    head = ["", "keeps, as it goes on"]
    for place in places:
        head += [f"steps/s {place}", "ours ÷ theirs"]
    head += [f"bytes per step, of {turns:,}" for turns in TURNS]
    rows = [head, ["---"] * len(head), *(_row(line, lines[0], places) for line in lines)]
    return "\n".join([*(f"| {' | '.join(row)} |" for row in rows), _LEGEND])


def _row(line: Mapping[str, Any], ours: Mapping[str, Any], places: Sequence[str]) -> list[str]:
    contestant = line["durable"]["contestant"]
    cells = [f"{contestant['name']} {contestant['version']}".strip(), contestant["keeps"]]
    if line["absent"]:
        reason = line["absent"].replace("|", "\\|")
        return [*cells, f"no figures: {reason}", *(2 * len(places) + len(TURNS) - 1) * [""]]
    for place in places:
        ratio = times(ours["steps"][place], line["steps"][place])
        cells.append(f"{statistics.median(line['steps'][place]):,.0f}")
        cells.append("1 ×" if line is ours else f"{ratio:.3g} ×")
    left = line["left"]
    return cells + [f"{left[str(turns)]:,.0f}" if left else "" for turns in TURNS]


def times(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """How many times as fast ours is, compared within each round."""
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))
