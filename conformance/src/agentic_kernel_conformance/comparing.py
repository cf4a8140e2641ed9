"""Compares what two benchmark runs found: `agentic-kernel-conformance compare A B`.

A figure is compared by its ratio to the limit that was measured beside it, so that a slower machine
makes no difference by itself. It is worse or better only if the ratio moved by more than a tenth
and by more than the noise, which is the spread of the readings of either run. If it is divided by
the machine's pace, and the two paces differ by more than the rest explains, it is unclear. A count
is compared exactly, because load does not touch it; only counts decide the exit status. A count per
turn is unclear if the two runs did not complete the same scenarios, because the turns are not the
same. A record that the quick mode leaves out is not measured, and so it is not gone.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

MARGIN: Final = 1.1
"""A ratio that moved by less is the same, however quiet the machine was."""
NOISE: Final = 0.3
"""The spread that is taken for a figure without readings: files of one run have none."""
FEW: Final = 10
"""A time with fewer readings has at least `NOISE`: the spread of a few is too small by chance."""
MOST_BYTES: Final = 64 * 2**20
"""The largest file of results that is read."""

Verdict = Literal["worse", "better", "same", "unclear", "new", "gone", "unmeasured"]
_MARKS: Final[Mapping[Verdict, str]] = {
    "worse": "**worse**", "better": "better", "same": "same", "new": "new", "gone": "**gone**",
    "unmeasured": "not measured",
}  # fmt: skip


class NoResults(Exception):
    """Error for a path without results of a benchmark; the message names it and the remedy."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One figure of one run."""

    name: str
    unit: str
    values: tuple[float, ...]
    """Its ratios to the limit, or its only value if it is a count."""
    shown: float
    """The value that a person reads, in ``unit``."""
    better: Literal["lower", "higher"] = "lower"
    count: bool = False
    """True if load cannot touch it."""
    beside: str = ""
    """The limit that was measured beside it, for a person to read."""
    pace: float | None = None
    """The machine's pace, if it is by this that the values are divided."""
    record: str = ""
    """The record that it is of."""
    differing: frozenset[str] = frozenset()
    """The scenarios that were not completed, if the value is counted per turn."""

    @property
    def middle(self) -> float:
        """The median."""
        return statistics.median(self.values)

    @property
    def noise(self) -> float:
        """The distance of the readings, as a part of the median."""
        if self.count:
            return 0.0
        if len(self.values) < 2:
            return NOISE
        spread = (max(self.values) - min(self.values)) / self.middle
        few = self.pace is not None and len(self.values) < FEW  # The readings of one run.
        return max(spread, NOISE) if few else spread


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of two runs."""

    benchmark: str
    name: str
    before: Reading | None
    after: Reading | None
    unmeasured: bool = False
    """True if the second run is a quick one, which leaves its record out."""

    @property
    def unlike(self) -> frozenset[str]:
        """The scenarios that one run alone completed, for a count per turn."""
        sides = [each.differing for each in (self.before, self.after) if each is not None]
        return sides[0] ^ sides[1] if len(sides) == 2 else frozenset()

    @property
    def count(self) -> bool:
        """True if load cannot touch it."""
        return any(each is not None and each.count for each in (self.before, self.after))

    @property
    def noise(self) -> float:
        """The noise of the noisier side."""
        return max(each.noise for each in (self.before, self.after) if each is not None)

    @property
    def drift(self) -> float:
        """The distance of the paces of the two runs, as a part of the smaller one."""
        paces = [each.pace for each in (self.before, self.after) if each and each.pace]
        return max(paces) / min(paces) - 1 if len(paces) == 2 else 0.0

    @property
    def factor(self) -> float | None:
        """The factor by which it is worse after; below 1 it is better. None if it is unknown."""
        if self.before is None or self.after is None:
            return None
        one, other = self.before.middle, self.after.middle
        if self.before.better == "higher":
            one, other = other, one
        return other / one if one else None

    @property
    def verdict(self) -> Verdict:
        """The result of the comparison."""
        if self.before is None:
            return "new"
        if self.after is None:
            return "unmeasured" if self.unmeasured else "gone"
        factor = self.factor
        if self.count:
            if self.before.middle == self.after.middle:
                return "same"
            if self.unlike:
                return "unclear"
            return "better" if factor is not None and factor < 1 else "worse"
        if factor is None:
            return "same"
        least = max(MARGIN, 1 + self.noise)
        if 1 / least <= factor <= least:
            return "same"
        if 1 / (least * (1 + self.drift)) <= factor <= least * (1 + self.drift):
            return "unclear"  # The pace is one moment's: its own error may be all of it.
        return "worse" if factor > 1 else "better"

    @property
    def fails(self) -> bool:
        """True if it decides the exit status: a count that is worse, or is not counted any more."""
        return self.count and self.verdict in ("worse", "gone")


def readings(record: Mapping[str, Any]) -> Iterator[Reading]:
    """The figures of one record of a benchmark; none for a record that has no limit to go by."""
    if "row" in record:
        yield from _of_row(record)
    elif record.get("limit"):
        pairs = record.get("readings") or [[record["ours"], record["limit"]]]
        ratios = tuple(ours / limit for ours, limit in pairs if limit)
        better = record.get("better", "lower")
        unit = record["unit"]
        beside = f"limit {_number(record['limit'])} {unit}".strip()
        yield Reading(record["name"], unit, ratios, record["ours"], better, beside=beside)
    elif record.get("theirs"):
        ratio = (record["ours"] / record["theirs"],)
        name = f"{record['name']}, beside {record['peer']}"
        unit = record["unit"]
        beside = f"peer {_number(record['theirs'])} {unit}".strip()
        yield Reading(name, unit, ratio, record["ours"], beside=beside)


def _of_row(row: Mapping[str, Any]) -> Iterator[Reading]:
    """Of a row of the end-to-end benchmark; its times are divided by the pace beside it."""
    name, pace, per = row["row"], row["pace"], row.get("per", "turn")
    names = frozenset(each.partition(" (")[0] for each in row["differs"])
    differing = float(len(names))
    yield Reading(f"{name}: traces that differ", "", (differing,), differing, count=True)
    for count in ("commits", "bytes", "requests"):
        value = row[count]
        if value is not None:
            called = f"{name}: {count} per {per}"
            yield Reading(called, "", (value,), value, count=True, differing=names)
    seconds = {
        f"{per} above the model's time": ("ms", [1e3 / each for each in row["turns"]]),
        "pause": ("ms", row["pauses"]),
        "kill": ("ms", row["kills"]),
    }
    for what, (unit, values) in seconds.items():
        if values and pace:
            ratios = tuple(value / pace for value in values)
            middle, beside = statistics.median(values), f"pace {_number(pace)}"
            yield Reading(f"{name}: {what}", unit, ratios, middle, beside=beside, pace=float(pace))


def results(place: Path) -> dict[str, dict[str, Any]]:
    """The records of a folder or a file, by the names of the benchmarks.

    Raises:
        NoResults: There is none, or a file is not one of them.
    """
    record = "record some with `agentic-kernel-conformance bench --json FILE`"
    if not place.exists():
        raise NoResults(f"{place}: there is no such file or folder; {record}")
    files = [place] if place.is_file() else sorted(place.glob("*.json"))
    if not files:
        raise NoResults(
            f"{place}: no results; {record}, or run python benchmarks/run.py --into {place}"
        )
    return {path.stem: _read(path) for path in files}


def _read(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise NoResults(f"{path}: {size} bytes; results have at most {MOST_BYTES}")
    remedy = "give a file that `bench --json` wrote, or a file or folder of benchmarks/run.py"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise NoResults(f"{path}: no JSON ({error}); {remedy}") from error
    if not isinstance(found, dict) or not isinstance(found.get("figures"), list):
        raise NoResults(f"{path}: has no list `figures`; {remedy}")
    return found


def compared(one: Path, other: Path) -> list[Compared]:
    """Every figure of two places; two files are compared whatever they are called.

    Raises:
        NoResults: A place has none, or they have no benchmark in common.
    """
    before, after = results(one), results(other)
    if one.is_file() and other.is_file():
        before, after = ({other.stem: found} for found in (*before.values(), *after.values()))
    names = [name for name in before if name in after]
    if not names:
        raise NoResults(f"{one} and {other}: no benchmark is in both")
    return [each for name in names for each in _figures(name, before[name], after[name])]


def _figures(
    benchmark: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Compared]:
    sides = []
    for side in (before, after):
        try:
            found = [
                replace(each, record=_name(record))
                for record in side["figures"]
                for each in readings(record)
            ]
        except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise NoResults(
                f"{benchmark}: a figure cannot be read ({type(error).__name__}: {error}); "
                "give results that `bench --json` or benchmarks/run.py wrote"
            ) from error
        sides.append({each.name: each for each in found})
    quick = bool(after.get("quick")) and not before.get("quick")
    measured = {each.record for each in sides[1].values()}
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        one, other = sides[0].get(name), sides[1].get(name)
        unmeasured = quick and one is not None and one.record not in measured
        yield Compared(benchmark, name, one, other, unmeasured)


def _name(record: Mapping[str, Any]) -> str:
    return str(record["row"] if "row" in record else record["name"])


def left_out(place: Path) -> int:
    """The number of findings without a limit, a peer and counts, such as lines to be drawn."""
    records = (each for found in results(place).values() for each in found["figures"])
    return sum(not any(readings(each)) for each in records)


def table(found: Sequence[Compared], left: int = 0) -> str:
    """The readings that moved, as Markdown for a comment; the others are below, folded.

    Args:
        left: The number of findings that are not compared.
    """
    moved = [each for each in found if each.verdict not in ("same", "unclear", "unmeasured")]
    unclear = [each for each in found if each.verdict == "unclear"]
    same = [each for each in found if each.verdict == "same"]
    worse = [each for each in found if each.fails and each.verdict == "worse"]
    gone = [each for each in found if each.fails and each.verdict == "gone"]
    said = (
        f"**{len(worse)} of the counts got worse.** Load does not touch counts."
        if worse
        else "No count got worse."
    )
    if gone:
        said += f" **{len(gone)} counts are gone:** only the first run has them."
    unmeasured = [each for each in found if each.verdict == "unmeasured"]
    summed = f"{said} {len(moved)} of {len(found)} figures moved."
    if any(not each.count for each in unclear):
        times = sum(not each.count for each in unclear)
        summed += f" Unclear: {times}; measure both again, beside less other work."
    if any(each.count for each in unclear):
        counts = sum(each.count for each in unclear)
        summed += f" Counts that are unclear: {counts}; only one run completed their scenarios."
    if unmeasured:
        summed += f" Not measured: {len(unmeasured)}; the quick mode leaves them out."
    parts = ["## Benchmarks", summed]
    if moved or unclear:
        order = ("worse", "gone", "better", "new")
        moved.sort(key=lambda each: (not each.fails, order.index(each.verdict)))
        parts.append(_rows([*moved, *unclear]))
    if same:
        folded = f"<details><summary>{len(same)} stayed the same</summary>"
        parts += [folded, _rows(same), "</details>"]
    parts.append(
        "The ratio is of the times divided by the limits, peers or paces in parentheses. "
        f"A time is worse if its ratio to its limit grew by more than {MARGIN - 1:.0%} and by more "
        f"than the noise: the spread of its readings, or {NOISE:.0%} if there is one reading only, "
        f"and at least {NOISE:.0%} for fewer than {FEW} readings beside a pace. It is unclear if "
        "the paces of both runs differ, and the noise and that difference together explain it. "
        f"{left} findings without a limit are not compared."
    )
    return "\n\n".join(parts) + "\n"


def _rows(found: Sequence[Compared]) -> str:
    lines = ["| benchmark | figure | before | after | ratio | noise | verdict |", "|---" * 7 + "|"]
    for each in found:
        factor = "" if each.factor is None else f"{each.factor:.2f}×"
        noise = "count" if each.count else f"±{each.noise:.0%}" if each.noise <= 1 else "over 100%"
        cells = [
            each.benchmark, each.name.replace("|", "\\|"), _shown(each.before),
            _shown(each.after), factor, noise, _said(each),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _said(each: Compared) -> str:
    if each.verdict == "unclear":
        if each.count:
            return f"unclear: only one run completed {', '.join(sorted(each.unlike))}"
        return f"unclear: the machine's pace differs by {each.drift:.0%}"
    return _MARKS.get(each.verdict, each.verdict)


def _shown(reading: Reading | None) -> str:
    if reading is None:
        return "–"
    beside = f" ({reading.beside})" if reading.beside else ""
    return f"{_number(reading.shown)} {reading.unit}".strip() + beside


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
