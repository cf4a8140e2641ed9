"""The contestants' figures as a Markdown table."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from peers.contest import LATENCY
from peers.rounds import FEWER, RUNS, TURNS

_SHORT, _LONG = map(str, TURNS)
_HEAD = f"""\
| | keeps, as it goes on | a tool turn, of {_SHORT} | a tool turn, of {_LONG} | ÷ ours \
| {RUNS:,} runs at once | ÷ ours | each, while it waits | ÷ ours |
|---|---|---|---|---|---|---|---|---|"""
_LEGEND = f"""
The best of the rounds, their median in brackets; the ratios are of the best. A tool turn is a model
call that asks for a tool, the call of the tool and its result, by a model that answers at once, in
processor time. The runs at once are of two model calls of {LATENCY * 1000:g} ms with a tool turn
between them; ≈ is {FEWER:,} runs, times {RUNS // FEWER}. Each model is written against the
library's own interface for models, and nothing is traced. What is kept is kept in memory, so none
of them waits for a disk."""


def table(lines: Sequence[dict[str, Any]]) -> str:
    """A row for each contestant, ours first; whoever has no figures has the reason."""
    return "\n".join([_HEAD, *(_row(line, lines[0]) for line in lines), _LEGEND])


def _row(line: dict[str, Any], ours: dict[str, Any]) -> str:
    contestant = line["contestant"]
    cells = [f"{contestant['name']} {contestant['version']}".strip(), contestant["keeps"]]
    if line["absent"]:
        reason = line["absent"].replace("|", "\\|")
        cells += [f"no figures: {reason}", *6 * [""]]
    else:
        scale = RUNS / line["runs"]
        cells += [
            _spread(line["turn"][_SHORT], "µs"),
            _spread(line["turn"][_LONG], "µs"),
            _ratio(line, ours, lambda each: min(each["turn"][_LONG])),
            "≈ " * (scale > 1) + _spread([scale * each for each in line["together"]], "s"),
            _ratio(line, ours, lambda each: min(each["together"]) * RUNS / each["runs"]),
            f"{line['waiting']:.3g} KiB",
            _ratio(line, ours, lambda each: each["waiting"]),
        ]
    return f"| {' | '.join(cells)} |"


def _spread(found: Sequence[float], unit: str) -> str:
    return f"{_short(min(found))} ({_short(statistics.median(found))}) {unit}"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _ratio(
    line: dict[str, Any], ours: dict[str, Any], of: Callable[[dict[str, Any]], float]
) -> str:
    if ours["absent"]:
        return ""
    return f"{_short(of(line) / of(ours))} ×"
