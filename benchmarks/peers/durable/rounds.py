"""The contestants in turns on one server, each time in a new process."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from peers.durable.catalog import CONTESTANTS, Durable
from peers.environment import Absent, interpreter, packages, told

STEPS = 40
ROUNDS = 3
TURNS = (10, 100, 1_000)
"""Steps in the runs of which it is looked at what they leave."""

Server = Callable[[], AbstractContextManager[str]]
"""Starts a server, and says where it is."""
Used = Callable[[str], int]
"""How many bytes there are in all tables and indexes of a server."""


@dataclass(slots=True)
class Line:
    """What was found of one contestant."""

    durable: Durable
    python: Path | None = None
    packages: list[str] = field(default_factory=list)
    """What its environment held, each with its version."""
    steps: dict[str, list[float]] = field(default_factory=dict)
    """Steps per second of all runs together, a number a round, by where the server's data are."""
    left: dict[str, float] = field(default_factory=dict)
    """Bytes that a step has left, by the number of steps in a run."""
    absent: str = ""
    """Why there are no figures, if there are none."""

    def record(self) -> dict[str, Any]:
        """All of it as JSON, without what only this machine knows."""
        found = asdict(self)
        del found["python"]
        found["durable"]["contestant"]["version"] = self.durable.contestant.version
        return found

    def ask(self, figure: str, way: str, place: str, steps: int) -> float:
        """One figure, from a process of its own."""
        assert self.python is not None
        module = self.durable.contestant.module.removeprefix("durable.")
        asked = ("-m", "peers.durable", module, way, figure, place, str(steps))
        found: float = json.loads(told(self.python, *asked))
        return found


def measure(servers: dict[str, Server], used: Used) -> list[Line]:
    """Every contestant; one that cannot be installed or fails is there with the reason.

    Args:
        servers: Where a server can have its data.
        used: Says how much it has.
    """
    lines = [Line(durable) for durable in CONTESTANTS]
    _each(lines, _prepared)
    for where, server in servers.items():
        with server() as place:
            for _ in range(ROUNDS):
                _each(lines, partial(_together, place=place, where=where))
    with next(iter(servers.values()))() as place:
        for turns in TURNS:
            _each(lines, partial(_left, place=place, turns=turns, used=used))
    return lines


def _each(lines: list[Line], stage: Callable[[Line], None]) -> None:
    for line in lines:
        if not line.absent:
            try:
                stage(line)
            except Absent as reason:
                line.absent = str(reason)


def _prepared(line: Line) -> None:
    line.python = interpreter(line.durable.contestant)
    if line.durable.contestant.requires:
        line.packages = packages(line.python)


def _together(line: Line, place: str, where: str) -> None:
    found = line.ask("together", line.durable.way, place, STEPS)
    line.steps.setdefault(where, []).append(found)


def _left(line: Line, place: str, turns: int, used: Used) -> None:
    if way := line.durable.grown:
        line.ask("left", way, place, 1)  # its tables are made, with their first pages
        before = used(place)
        steps = line.ask("left", way, place, turns)
        line.left[str(turns)] = (used(place) - before) / steps
