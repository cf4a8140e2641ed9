"""ActionTrace: one action whole, from its grant to its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .chain import Link

Outcome = Literal["granted", "denied", "succeeded", "failed", "indeterminate", "done"]


@dataclass(frozen=True, slots=True)
class ActionTrace:
    """One action, e.g. an invocation. Its entries are those of the chain, in order."""

    action: str
    outcome: Outcome
    """``indeterminate`` also while the action runs: its start is there, its end is not."""
    entries: tuple[dict[str, Any], ...]

    @property
    def last(self) -> dict[str, Any]:
        """The last entry."""
        return self.entries[-1]


def traced(action: str, links: Sequence[Link]) -> ActionTrace:
    """The action of some entries; there is at least one."""
    entries = tuple(link.entry for link in links)
    kinds: dict[str, Outcome] = {
        "granted": "granted",
        "denied": "denied",
        "began": "indeterminate",
        "expanded": "done",
        "repeated": "done",
        "revoked": "done",
        "attenuated": "granted",
    }
    last = entries[-1]
    outcome = last["outcome"] if last["kind"] == "ended" else kinds[last["kind"]]
    return ActionTrace(action, outcome, entries)
