"""Trials are drawn once each, counted when they end, and go on where they stopped."""

from __future__ import annotations

import math
from itertools import islice

import pytest

from agentic_kernel_conformance.trials import Campaign, Tally, Trials, totals


def ignored(line: str) -> None:
    """Take news."""


def trials(first_seed: int, seconds: float | None = None) -> Trials:
    return Trials(Tally("Acme", "test", first_seed, first_seed), "again ", seconds, ignored)


def test_a_count_ends_them() -> None:
    drawn = trials(5)
    seeds = []
    for trial in drawn.upto(3):
        with trial:
            trial.operations = 40
        seeds.append(trial.seed)
    assert seeds == [5, 6, 7]
    tally = drawn.tally
    assert (tally.trials, tally.operations, tally.findings, tally.next_seed) == (3, 120, 0, 8)


def test_the_clock_ends_them_after_the_first_and_whatever_their_count() -> None:
    assert [trial.seed for trial in trials(0, 0.0).upto(100)] == [0]
    endless = trials(0, math.inf).upto(1)
    assert [trial.seed for trial in islice(endless, 50)] == list(range(50))


def test_what_is_under_way_is_tried_again() -> None:
    drawn = trials(0)
    first, second, third = drawn.upto(3)
    with second:
        pass
    with pytest.raises(KeyboardInterrupt), third:
        raise KeyboardInterrupt
    assert (drawn.tally.trials, drawn.tally.next_seed) == (1, 0)
    with first:
        pass
    assert (drawn.tally.trials, drawn.tally.next_seed) == (2, 2)


def test_a_finding_is_counted_and_says_how_to_repeat_it() -> None:
    drawn = trials(7)
    with pytest.raises(ValueError, match="odd") as caught, next(drawn.upto(1)):
        raise ValueError("odd")
    assert caught.value.__notes__ == ["found with seed 7; to repeat it: again 7"]
    assert (drawn.tally.findings, drawn.tally.next_seed) == (1, 8)


def test_the_time_is_shared_by_weight_and_what_is_left_of_a_share_is_for_the_others() -> None:
    campaign = Campaign(0, 80.0, ignored)
    campaign.expect("a", 1)
    campaign.expect("b", 3)
    assert campaign.share("a") == 20.0
    campaign.over("a", 5.0)
    assert campaign.share("b") == 75.0
    campaign.over("b", 100.0)
    assert campaign.share("one that nobody expected") == 0.0
    assert Campaign(0, None, ignored).share("a") is None


def test_the_totals_tell_from_where_nothing_is_repeated() -> None:
    tallies = [Tally("A", "a", 0, 5, 5, 200), Tally("B", "b", 0, 1_200, 1_200, 50_000, 1)]
    assert totals(tallies) == (
        "in all: 1,205 trials, 50,200 operations, 1 finding; go on with --conformance-seed=1200"
    )
