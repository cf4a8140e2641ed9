"""What is kept of a benchmark that was measured several times: one record, and its readings."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any


def repeated(runs: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The records of the last run; a figure that each run has is that of the median ratio.

    Such a figure has ``readings`` too, a pair of ours and the limit for each run. A single run is
    returned as it is.
    """
    *others, last = runs
    if not others:
        return list(last)
    return [_middle(each, [_found(run, each) for run in runs]) for each in last]


def _found(run: Sequence[dict[str, Any]], like: Mapping[str, Any]) -> dict[str, Any] | None:
    wanted = like.get("name")
    return next((each for each in run if wanted and each.get("name") == wanted), None)


def _middle(last: dict[str, Any], found: Sequence[dict[str, Any] | None]) -> dict[str, Any]:
    figures = [each for each in found if each is not None and "limit" in each and each["limit"]]
    if len(figures) < len(found):
        return last
    ratios = [each["ours"] / each["limit"] for each in figures]
    middle = figures[ratios.index(statistics.median_low(ratios))]
    return {**middle, "readings": [[each["ours"], each["limit"]] for each in figures]}
