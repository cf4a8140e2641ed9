"""Parts: the share of each process or thread in one history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agentic_kernel_engine import Store

from .contest import Contest
from .history import Operation, View, view_from
from .races import Script


@dataclass(frozen=True, slots=True)
class Part:
    """The share of one process or thread in a history."""

    operations: Sequence[Operation]
    given: Sequence[tuple[str, int, View]]

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for another process."""
        return {"operations": [each.to_json() for each in self.operations], "given": self.given}

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> Part:
        """Return the part that `to_json` wrote."""
        return cls(
            [Operation.from_json(each) for each in said["operations"]],
            [(rule, version, view_from(view)) for rule, version, view in said["given"]],
        )


async def contend(store: Store, seed: int, part: int, size: int, clock: Callable[[], int]) -> Part:
    """Play one part of a history, and return it."""
    script = Script(seed, size, part)
    contest = Contest(store, script, clock=clock, part=f"p{part} ")
    await contest.join(dispatches=part == 0)
    return Part(contest.history, contest.given)
