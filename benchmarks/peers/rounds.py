"""The contestants in turns, each time in a new process: a busy moment falls on all of them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from peers.catalog import CONTESTANTS, Contestant
from peers.environment import Absent, interpreter, packages, told

TURNS = (10, 100)
"""Turns in a run: what a turn costs is to be the same in both."""
RUNS, FEWER = 10_000, 1_000
PATIENCE = 60
"""Seconds; whoever would take longer for all the runs is asked for fewer."""


@dataclass(slots=True)
class Line:
    """What was found of one contestant."""

    contestant: Contestant
    python: Path | None = None
    packages: list[str] = field(default_factory=list)
    """What its environment held, each with its version."""
    turn: dict[str, list[float]] = field(default_factory=dict)
    """Microseconds of a tool turn, one number a round, by the turns in the run."""
    runs: int = RUNS
    """How many runs were begun at once."""
    together: list[float] = field(default_factory=list)
    """Seconds until all of them were done, one number a round."""
    waiting: float = 0.0
    """KiB of each while it waited."""
    absent: str = ""
    """Why there are no figures, if there are none."""

    def record(self) -> dict[str, Any]:
        """All of it as JSON, without what only this machine knows."""
        found = asdict(self)
        del found["python"]
        found["contestant"]["version"] = self.contestant.version
        return found

    def ask(self, figure: str, number: int) -> float:
        """One figure, from a process of its own."""
        assert self.python is not None
        asked = ("-m", "peers", self.contestant.module, str(self.contestant.keeping))
        found: float = json.loads(told(self.python, *asked, figure, str(number)))
        return found


def measure() -> list[Line]:
    """Every contestant; one that cannot be installed or fails is there with the reason."""
    lines = [Line(contestant) for contestant in CONTESTANTS]
    for stage in (_prepared, *5 * [_turn], _sized, *3 * [_together], _waiting):
        for line in lines:
            if not line.absent:
                try:
                    stage(line)
                except Absent as reason:
                    line.absent = str(reason)
    return lines


def _prepared(line: Line) -> None:
    line.python = interpreter(line.contestant)
    if line.contestant.requires:
        line.packages = packages(line.python)


def _turn(line: Line) -> None:
    for turns in TURNS:
        line.turn.setdefault(str(turns), []).append(line.ask("turn", turns))


def _sized(line: Line) -> None:
    if line.ask("together", FEWER) * RUNS / FEWER > PATIENCE:
        line.runs = FEWER


def _together(line: Line) -> None:
    line.together.append(line.ask("together", line.runs))


def _waiting(line: Line) -> None:
    line.waiting = line.ask("waiting", line.runs)
