"""Races: what callers do to one Task at the same time, drawn at random toward where it goes wrong.

A race is a mixture of verbs and troubles. Left to itself, chance rarely ends a Task and then goes
on at it, rarely pauses it twice before a safe point, and hardly ever lets a run come back late; so
each race leans toward one of these, and every history belongs to one race.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Race:
    """One mixture."""

    name: str
    about: str
    """What it leans toward, and the rules that it is after."""
    verbs: Mapping[str, int]
    """How often each verb is chosen while the Task lives, relative to the others."""
    ends: int = 2
    """How often each of kill, complete and fail is chosen once the Task has lived its life."""
    patience: int = 4
    """At most how many turns of the event loop a caller leaves to others between two verbs."""
    pace: int = 4
    """At most how many turns a run takes from one safe point to the next."""
    silence: float = 0.0
    """The chance that the answer to a write is lost (R5)."""
    unsent: float = 0.0
    """The chance that a write is lost on its way; its caller hears as little (R5)."""
    cancelled: float = 0.0
    """The chance that a caller is cancelled while it waits (R4)."""
    deaths: float = 0.0
    """The chance, for each verb, that a host is declared dead first, its runs going on (R14)."""
    steps: int = 40
    """At most how many safe points a run passes before it succeeds."""
    lingering: int = 0
    """At most how many turns a run takes from its last safe point to its result."""
    dispatchers: int = 1
    """How many callers dispatch the Task."""


_PAUSES = {"pause": 4, "resume": 4, "get": 2}

RACES: Final = (
    Race("mixture", "a bit of everything", {**_PAUSES, "claim": 1}, silence=0.02, cancelled=0.05),
    Race("answers", "several resumers of one pause (R3)", {"pause": 3, "resume": 7, "get": 3}),
    Race("withdrawals", "a resume before the pause took effect (R10)", _PAUSES, patience=1),
    Race(
        "ends",
        "several ends at once, and what comes after them (R1)",
        {"kill": 1, "complete": 1, "fail": 1, "pause": 5, "resume": 5, "get": 3},
        patience=1,
    ),
    Race("own ends", "a run that ends while it is paused or killed (R10)", _PAUSES, steps=3),
    Race("silence", "writes without an answer (R5)", _PAUSES, silence=0.1, unsent=0.05),
    Race("cancelled", "callers that stop waiting (R4)", _PAUSES, cancelled=0.3),
    Race(
        "deaths",
        "hosts that are taken for dead and go on (R1, R14)",
        {**_PAUSES, "claim": 4},
        pace=20,
        deaths=0.12,
        steps=8,
    ),
    Race(
        "take-overs",
        "a pause that waits while its Task is taken over (R10, R12)",
        {"pause": 5, "claim": 5, "resume": 1, "get": 1},
        pace=60,
        deaths=0.15,
    ),
    Race(
        "late results",
        "a run that ends after its Task was taken over, or paused and resumed (R1, R10)",
        {"pause": 2, "resume": 3, "claim": 6, "get": 1},
        deaths=0.3,
        steps=3,
        lingering=60,
    ),
    Race(
        "births",
        "several dispatches of one Task (R4)",
        _PAUSES,
        dispatchers=3,
        silence=0.05,
        unsent=0.05,
    ),
)


def race_of(seed: int) -> Race:
    """The race that a seed stands for; all of them come in turn."""
    return RACES[seed % len(RACES)]


@dataclass(slots=True)
class Script:
    """What one history is made of: its race, and everything that chance decides in it.

    Args:
        seed: Decides all of it.
        size: How many operations the history has at most.
        part: Tells the scripts of several processes for one history apart.
    """

    seed: int
    size: int
    part: int = 0
    race: Race = field(init=False)
    chance: random.Random = field(init=False)
    callers: int = field(init=False)
    hosts: int = field(init=False)
    life: int = field(init=False)
    """After so many operations the ends begin."""

    def __post_init__(self) -> None:
        self.race = race_of(self.seed)
        self.chance = random.Random(self.seed << 8 | self.part)
        self.callers = max(self.race.dispatchers, self.chance.randint(2, 5))
        self.hosts = self.chance.randint(1, 3) + (1 if self.race.deaths else 0)
        self.life = int(self.size * self.chance.choice((0.3, 0.6, 0.8, 0.9)))

    def verb(self, recorded: int) -> str:
        """The next verb of a caller, when so many operations have been recorded."""
        weights = dict(self.race.verbs)
        if recorded >= self.life:
            for end in ("kill", "complete", "fail"):
                weights[end] = max(weights.get(end, 0), self.race.ends)
        return self.chance.choices(list(weights), list(weights.values()))[0]

    def stride(self) -> int:
        """How many turns of the event loop a run takes now to its next safe point."""
        return self.chance.randint(0, self.race.pace)

    def lingers(self) -> int:
        """How many turns of the event loop a run takes now to its result."""
        return self.chance.randint(0, self.race.lingering)

    def turns(self) -> int:
        """How many turns of the event loop a caller leaves to others now."""
        return self.chance.randint(0, self.race.patience)

    def happens(self, chance: float) -> bool:
        """Whether something of this chance happens now."""
        return chance > 0 and self.chance.random() < chance
