"""Trials: what a random test draws, seed after seed, until its count or its time is over.

Trial *k* of a test has the seed *first + k*, so a run that is interrupted goes on from the next
seed and repeats nothing. By default a test stops at the count of its level; a campaign by the
clock (``--conformance-minutes``) gives each test a share of the time instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

_NEWS: Final = 30.0
"""Seconds between two lines about what is going on."""


@dataclass(slots=True)
class Tally:
    """What one random test has done so far."""

    adapter: str
    test: str
    first_seed: int
    next_seed: int
    """Every seed below it has been tried."""
    trials: int = 0
    operations: int = 0
    findings: int = 0

    def line(self) -> str:
        """One line for the terminal."""
        return (
            f"{self.adapter} {self.test}: from seed {self.first_seed}: "
            f"{amount(self.trials, 'trial')}, {amount(self.operations, 'operation')}, "
            f"{amount(self.findings, 'finding')}; next seed {self.next_seed}"
        )


class Trial:
    """One trial, as a context: what is raised in it is a finding, and says how to repeat it."""

    def __init__(self, trials: Trials, seed: int, about: str) -> None:
        self.seed = seed
        self.about = about
        """Which trial it is, of how many."""
        self.operations = 0
        """To be set to the number of operations that were judged."""
        self._trials = trials

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, Exception):
            self._trials.ended(self, error)


class Trials:
    """The trials of one random test.

    Args:
        tally: Where they are counted.
        again: The command that repeats this test, but for the seed.
        seconds: How long they go on; None if a count ends them.
        news: Takes a line about what is going on, now and then.
        progress: Called before each trial.
    """

    def __init__(
        self,
        tally: Tally,
        again: str,
        seconds: float | None,
        news: Callable[[str], None],
        progress: Callable[[], None] | None = None,
    ) -> None:
        self.tally = tally
        self._again = again
        self._seconds = seconds
        self._news = news
        self._progress = progress
        self._drawn = tally.first_seed
        self._open: set[int] = set()

    def upto(self, count: int) -> Iterator[Trial]:
        """One trial after the other; several at a time may be under way.

        Args:
            count: How many there are where no clock decides.
        """
        begun = told = time.monotonic()
        of = f" of {count}" if self._seconds is None else ""
        while True:
            now, number = time.monotonic(), self._drawn - self.tally.first_seed
            if number >= count if self._seconds is None else number and now - begun > self._seconds:
                return
            if now - told > _NEWS:
                told = now
                self._news(self.tally.line())
            seed, self._drawn = self._drawn, self._drawn + 1
            self._open.add(seed)
            if self._progress is not None:
                self._progress()
            yield Trial(self, seed, f"trial {number + 1}{of}")

    def ended(self, trial: Trial, error: BaseException | None) -> None:
        """Count a trial."""
        self._open.discard(trial.seed)
        tally = self.tally
        tally.trials += 1
        tally.operations += trial.operations
        tally.next_seed = min(self._open, default=self._drawn)
        if error is not None:
            tally.findings += 1
            error.add_note(f"found with seed {trial.seed}; to repeat it: {self._again}{trial.seed}")


@dataclass(slots=True)
class Campaign:
    """The random tests of one run: where their seeds begin, and the time that they share.

    Args:
        first_seed: Every test begins with it.
        seconds: How long they go on, all of them together; None if each has its count.
        news: Takes a line about what is going on, now and then.
    """

    first_seed: int
    seconds: float | None
    news: Callable[[str], None]
    tallies: dict[str, Tally] = field(default_factory=dict)
    """By the node id of the test."""
    _weights: dict[str, float] = field(default_factory=dict)

    def expect(self, test_id: str, weight: float) -> None:
        """Count on a test that will take a share of the time."""
        self._weights[test_id] = weight

    def share(self, test_id: str) -> float | None:
        """A test's share, in seconds, of the time that is left; None where counts decide."""
        if self.seconds is None:
            return None
        weight = self._weights.get(test_id, 1.0)
        return self.seconds * weight / (sum(self._weights.values()) or weight)

    def trials(
        self,
        test_id: str,
        adapter: str,
        test: str,
        again: str,
        progress: Callable[[], None] | None = None,
    ) -> Trials:
        """The trials of a test that begins now."""
        tally = Tally(adapter, test, self.first_seed, self.first_seed)
        self.tallies[test_id] = tally
        return Trials(tally, again, self.share(test_id), self.news, progress)

    def over(self, test_id: str, seconds: float) -> None:
        """A test has ended after so long; what it left of its share is for the others."""
        self._weights.pop(test_id, None)
        if self.seconds is not None:
            self.seconds = max(0.0, self.seconds - seconds)


def totals(tallies: list[Tally]) -> str:
    """All the trials of a run in one line, and where to go on."""
    trials, operations, findings = (
        sum(getattr(tally, name) for tally in tallies)
        for name in ("trials", "operations", "findings")
    )
    goes_on = max(tally.next_seed for tally in tallies)
    return (
        f"in all: {amount(trials, 'trial')}, {amount(operations, 'operation')}, "
        f"{amount(findings, 'finding')}; go on with --conformance-seed={goes_on}"
    )


def amount(count: int, noun: str) -> str:
    """A count and what is counted, as a person would write it."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
