"""Row: what one runtime on one store does and costs, and the table of such rows.

The end-to-end benchmark of this project and `agentic-kernel-conformance bench` have the same
columns; a row of one stands beside a row of the other if both were measured in the same run.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

HEAD: Final = (
    "runtime", "store", "same", "turns/s", "pause, ms", "kill, ms", "commits", "bytes", "left",
)  # fmt: skip
"""The columns; `LEGEND` says what they are."""
LEGEND: Final = (
    "*same*: of the scenarios that were played, the number whose observable trace is the "
    "reference's. *turns/s*: turns per second of the time above the model's own. *pause* and "
    "*kill*: from the request until the Task is paused or terminal, median (slowest). *commits* "
    "and *bytes*: writes to the store and what they hand over, per turn; they do not depend on "
    "load. *left*: bytes that a turn leaves on the store's medium; databases grow by whole pages. "
    "–: not measurable here, or within the noise."
)
Per = Literal["turn", "Task"]
"""By which the commits, the bytes and the times of a row are divided."""
_NONE: Final = "–"
_EVENT: Final = {"type": "step.observed", "at": 1_893_553_445_678_901, "data": {"text": "x" * 200}}
_REPEATS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Row:
    """One runtime on one store."""

    runtime: str
    store: str
    same: int
    """The scenarios whose trace is the reference's."""
    differs: tuple[str, ...]
    """The scenarios whose trace is not."""
    turns: tuple[float, ...]
    """Turns per second of the time above the model's own, a reading each."""
    pauses: tuple[float, ...]
    """Milliseconds from the request until the Task is paused."""
    kills: tuple[float, ...]
    """Milliseconds from the request until the Task is terminal."""
    commits: float | None
    """Commits per turn; None if the runtime does not use the store that it was given."""
    bytes: float | None
    """Bytes that the commits hand over, per turn."""
    left: float | None = None
    """Bytes on the store's medium, per turn."""
    requests: float | None = None
    """Requests to the model, per turn."""
    pace: float = 0.0
    """Milliseconds that `pace` took beside it; a comparison of two runs divides by it."""
    per: Per = "turn"
    """``Task`` if the work does not know its turns: the row's turns, commits and bytes then are
    those of a whole Task."""
    reasons: tuple[str, ...] = ()
    """For each scenario that differs, its first difference and the failure of its Task."""

    def record(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {"row": f"{self.runtime} on {self.store}", **asdict(self)}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The records of rows as a Markdown table."""
    lines = [HEAD, ["---"] * len(HEAD), *map(_cells, rows)]
    differing = []
    for row in rows:
        if row["differs"]:
            differing.append(f"- {row['row']} differs in {', '.join(row['differs'])}")
            differing += [f"    - {reason}" for reason in row.get("reasons", ())]
    whole = [
        f"- {row['row']}: its Work has no `turns(task)`, so *turns/s*, *commits* and *bytes* are "
        "those of a whole Task"
        for row in rows
        if row.get("per") == "Task"
    ]
    shown = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n\n".join([shown, *("\n".join(each) for each in (differing, whole) if each), LEGEND])


def _cells(row: Mapping[str, Any]) -> list[str]:
    compared = row["same"] + len(row["differs"])
    same = f"{row['same']} of {compared}" if compared else _NONE
    return [
        row["runtime"],
        row["store"],
        f"**{same}**" if row["differs"] else same,
        number(statistics.median(row["turns"])) if row["turns"] else _NONE,
        _latency(row["pauses"]),
        _latency(row["kills"]),
        *(_NONE if row[name] is None else number(row[name]) for name in HEAD[-3:]),
    ]


def _latency(readings: Sequence[float]) -> str:
    if not readings:
        return _NONE
    return f"{number(statistics.median(readings))} ({number(max(readings))})"


def number(value: float) -> str:
    """Three digits, and never an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def pace() -> float:
    """Milliseconds that this machine needs for a fixed piece of work, now.

    Two runs were on unlike machines, or beside unlike work; a figure divided by the pace that was
    measured beside it tells of the code alone, as far as a figure can.
    """
    began = time.perf_counter()
    for _ in range(_REPEATS):
        json.loads(json.dumps(_EVENT))
    return (time.perf_counter() - began) * 1e3
