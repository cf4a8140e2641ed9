"""One mutant and what came of it; the score of a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .sites import Mutant

NOTICED = "noticed"
HUNG = "hung"
SURVIVED = "survived"
UNDECIDED = "undecided"
"""The tests reach a time limit with the fault, and without it."""
NOT_RUN = "not run by any check"
EQUIVALENT = "judged equivalent"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one mutant."""

    mutant: Mutant
    outcome: str
    """One of the constants of this module."""
    by: str = ""
    """The test that failed first, or why it was judged equivalent."""
    tests: int = 0
    """How many tests were tried."""

    def line(self) -> str:
        """The verdict on one line."""
        about = f" ({self.by})" if self.by else ""
        return f"{self.outcome}: {self.mutant.file}:{self.mutant.line} {self.mutant.short()}{about}"


@dataclass(slots=True)
class Score:
    """The mutants of one file, counted."""

    planted: int = 0
    noticed: int = 0
    equivalent: int = 0

    @property
    def share(self) -> float:
        """The share noticed of those that are not judged equivalent; 1.0 if there is none."""
        counted = self.planted - self.equivalent
        return self.noticed / counted if counted else 1.0

    def add(self, verdict: Verdict) -> None:
        """Count one more."""
        self.planted += 1
        self.noticed += verdict.outcome in (NOTICED, HUNG)
        self.equivalent += verdict.outcome == EQUIVALENT


def scores(verdicts: Iterable[Verdict]) -> dict[str, Score]:
    """The score of each file, by its path, and of all under ``all``."""
    found: dict[str, Score] = {}
    total = Score()
    for verdict in verdicts:
        found.setdefault(verdict.mutant.file, Score()).add(verdict)
        total.add(verdict)
    return {**dict(sorted(found.items())), "all": total}


def table(verdicts: Iterable[Verdict]) -> list[str]:
    """The scores as a table in Markdown."""
    lines = ["| file | planted | noticed | equivalent | score |", "|---|---|---|---|---|"]
    for file, score in scores(verdicts).items():
        name = file.replace("packages/", "").replace("/src/agentic_kernel_", "/")
        name = name.replace("engine/engine/", "engine/").replace("file/file/", "file/")
        counts = f"{score.planted} | {score.noticed} | {score.equivalent}"
        lines.append(f"| {name} | {counts} | {score.share:.0%} |")
    return lines
