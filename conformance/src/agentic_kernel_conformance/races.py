"""Races: random mixtures of verbs and faults on one Task, weighted toward the cases that break.

Unweighted choices rarely end a Task and then go on calling it, rarely pause it twice before a safe
point, and hardly ever let a run come back late. So each race favours one of these cases, and every
history belongs to one race.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Race:
    """One mixture of verbs and faults."""

    name: str
    about: str
    """The case that the race favours, and the rules that it tests."""
    verbs: Mapping[str, int]
    """The weight of each verb in the random choice."""
    ends: int = 2
    """The least weight of each of kill, complete and fail after `Script.life` operations."""
    patience: int = 4
    """The most turns of the event loop that a caller waits between two verbs."""
    pace: int = 4
    """The most turns of the event loop that a run takes from one step to the next."""
    silence: float = 0.0
    """The chance that the answer to a write is lost (R5: settled writes)."""
    unsent: float = 0.0
    """The chance that a write is lost before the store; its caller gets no answer either (R5)."""
    cancelled: float = 0.0
    """The chance that a caller is cancelled while it waits (R4: its writes go on)."""
    deaths: float = 0.0
    """The chance, before each verb, that a host is declared dead but goes on (R14: liveness)."""
    steps: int = 40
    """The most steps of a run before its result; a run that waits for the end takes more."""
    lingering: int = 0
    """The most turns of the event loop that a run takes from its last step to its result."""
    dispatchers: int = 1
    """The number of callers that dispatch the Task."""


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
    """Return the race of a seed; consecutive seeds take all races in turn."""
    return RACES[seed % len(RACES)]


@dataclass(slots=True)
class Script:
    """The plan of one history: its race, and every random choice in it.

    Args:
        seed: The seed of every choice.
        size: The number of operations after which the callers stop.
        part: The number of the process or thread; each part of a history chooses differently.
    """

    seed: int
    size: int
    part: int = 0
    race: Race = field(init=False)
    chance: random.Random = field(init=False)
    callers: int = field(init=False)
    hosts: int = field(init=False)
    life: int = field(init=False)
    """The number of operations after which `Race.ends` counts."""

    def __post_init__(self) -> None:
        self.race = race_of(self.seed)
        self.chance = random.Random(self.seed << 8 | self.part)
        self.callers = max(self.race.dispatchers, self.chance.randint(2, 5))
        self.hosts = self.chance.randint(1, 3) + (1 if self.race.deaths else 0)
        self.life = int(self.size * self.chance.choice((0.3, 0.6, 0.8, 0.9)))

    def verb(self, recorded: int) -> str:
        """Return a caller's next verb, given the number of operations recorded so far."""
        weights = dict(self.race.verbs)
        if recorded >= self.life:
            for end in ("kill", "complete", "fail"):
                weights[end] = max(weights.get(end, 0), self.race.ends)
        return self.chance.choices(list(weights), list(weights.values()))[0]

    def stride(self) -> int:
        """Return the number of turns of the event loop to the run's next step."""
        return self.chance.randint(0, self.race.pace)

    def lingers(self) -> int:
        """Return the number of turns of the event loop to the run's result."""
        return self.chance.randint(0, self.race.lingering)

    def turns(self) -> int:
        """Return the number of turns of the event loop that a caller waits now."""
        return self.chance.randint(0, self.race.patience)

    def happens(self, chance: float) -> bool:
        """True if an event of this chance happens now."""
        return chance > 0 and self.chance.random() < chance
