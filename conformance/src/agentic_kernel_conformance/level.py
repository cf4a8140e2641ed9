"""The levels of the contracts: ``--conformance-level=brief``, ``quick`` (the default), ``full``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Level:
    """The sizes of the contracts' exercises."""

    name: str
    reads: int
    """Snapshots read and checked while a writer writes."""
    extras: int
    """Extras of its own that each of four resumers must see kept."""
    rounds: int
    """Repetitions of each race."""
    depth: int
    """The length of the sequences of mutations; `apply` is given every sequence."""
    histories: int
    """Random histories of one Task each, over a store whose writes do not wait."""
    durable_histories: int
    """The same, over a store whose writes wait for a disk or a network."""
    shared_histories: int
    """Random histories by several processes, and by callers of a Runtime."""
    examples: int
    """Random sequences of verbs, one after the other, compared with `apply`."""
    patiences: int
    """The factor on the time limit of a test, because a test does more work at a higher level."""


LEVELS: Final = {
    # For an additional interpreter or platform, if another one runs a higher level.
    "brief": Level(
        "brief",
        reads=1_000,
        extras=5,
        rounds=4,
        depth=3,
        histories=100,
        durable_histories=100,
        shared_histories=10,
        examples=10,
        patiences=1,
    ),
    "quick": Level(
        "quick",
        reads=10_000,
        extras=25,
        rounds=12,
        depth=4,
        histories=2_000,
        durable_histories=1_000,
        shared_histories=60,
        examples=60,
        patiences=1,
    ),
    "full": Level(
        "full",
        reads=100_000,
        extras=500,
        rounds=200,
        depth=5,
        histories=50_000,
        durable_histories=20_000,
        shared_histories=2_000,
        examples=2_000,
        patiences=20,
    ),
}
