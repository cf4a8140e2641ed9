"""Trials: the seeds that a random test tries, until its count or its time is used up.

Trial *k* of a test has the seed *first + k*, so an interrupted campaign can continue from the next
seed and repeats no trial. By default a test stops at the count of its level; with
``--conformance-minutes`` each test gets a share of the time instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

_NEWS: Final = 30.0
"""Seconds between two progress lines."""


@dataclass(slots=True)
class Tally:
    """The counts of one random test so far."""

    adapter: str
    test: str
    first_seed: int
    next_seed: int
    """Every seed from `first_seed` up to this one, exclusive, has been tried."""
    trials: int = 0
    operations: int = 0
    findings: int = 0
    wanted: int = 0
    """The number of trials at this level; 0 if the test has not drawn any."""

    def line(self) -> str:
        """One line for the terminal."""
        return (
            f"{self.adapter} {self.test}: from seed {self.first_seed}: "
            f"{amount(self.trials, 'trial')}, {amount(self.operations, 'operation')}, "
            f"{amount(self.findings, 'finding')}; next seed {self.next_seed}"
        )


class Trial:
    """One trial, as a context manager: an exception in it is a finding.

    The exception gets a note with the command that repeats the trial.
    """

    def __init__(self, trials: Trials, seed: int, about: str) -> None:
        self.seed = seed
        self.about = about
        """The trial's number, such as ``trial 3 of 100``."""
        self.operations = 0
        """The number of operations that were judged; set by the test."""
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
        tally: The counts of these trials.
        again: The command that repeats this test, without the seed at its end.
        seconds: The time for all of them; None if a count ends them.
        news: Callback for a progress line, now and then.
        progress: Callback before each trial.
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
        """Yield one trial after the other; several at a time may be under way.

        Args:
            count: The number of trials, if no time is set.
        """
        self.tally.wanted = max(self.tally.wanted, count)
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
        """Count a trial; if it raised, add the command that repeats it to the exception."""
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
    """The random tests of one run: their first seed, and the time that they share.

    Args:
        first_seed: The first seed of every test.
        seconds: The time for all tests together; None if each test has its count.
        news: Callback for a progress line, now and then.
    """

    first_seed: int
    seconds: float | None
    news: Callable[[str], None]
    tallies: dict[str, Tally] = field(default_factory=dict)
    """The counts by node id of the test."""
    _weights: dict[str, float] = field(default_factory=dict)

    def expect(self, test_id: str, weight: float) -> None:
        """Register a test that will take a share of the time."""
        self._weights[test_id] = weight

    def share(self, test_id: str) -> float | None:
        """Return the test's share of the time left, in seconds; None if counts decide."""
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
        """Return the trials of a test that begins now."""
        tally = Tally(adapter, test, self.first_seed, self.first_seed)
        self.tallies[test_id] = tally
        return Trials(tally, again, self.share(test_id), self.news, progress)

    def over(self, test_id: str, seconds: float) -> None:
        """Record that a test ended after ``seconds``; the others get the rest of its share."""
        self._weights.pop(test_id, None)
        if self.seconds is not None:
            self.seconds = max(0.0, self.seconds - seconds)


def totals(tallies: list[Tally]) -> str:
    """Return one line about all trials of a run, with the seed to continue from."""
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
    """Return a count with its noun, such as ``1 trial`` or ``1,200 trials``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
