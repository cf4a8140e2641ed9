"""Replay: what other rules would say to the requests that a trace has recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agentic_kernel_engine.edges import instance

from ..rules import Asked, RuleSet
from .chain import Link, read


@dataclass(frozen=True, slots=True)
class Replayed:
    """One recorded request, and what the rules say to it now."""

    action: str
    capability: str
    principal: str
    before: str
    """The earlier decision: ``allow``, ``deny`` or ``require_approval``."""
    now: str
    """The decision of the rules now."""
    rule: str
    """The rule that decides now; empty for none."""
    reason: str
    certain: bool
    """False if the trace has an argument in part only, because it was redacted."""

    @property
    def differs(self) -> bool:
        """True if the rules decide otherwise."""
        return self.before != self.now


def replayed(links: Iterable[Link], rules: RuleSet) -> Iterator[Replayed]:
    """Ask the rules about each recorded request, in order. Rate limits are not looked at.

    An entry without a decision, or of a grant for a pattern, is no request.
    """
    instance(rules, "rules", RuleSet)
    for link in read(links):
        entry = link.entry
        if "effect" not in entry:
            continue
        verdict = rules.decide(request_of(entry))
        yield Replayed(
            entry["action"], entry["capability"], entry["principal"], entry["effect"],
            verdict.effect, verdict.rule, verdict.reason, not entry["redacted"],
        )  # fmt: skip


def request_of(entry: dict[str, Any]) -> Asked:
    """The request of an entry that has a decision."""
    return Asked(
        entry["capability"],
        entry["arguments"],
        datetime.fromtimestamp(entry["at"] / 1_000, UTC),
        entry["principal"],
        entry["tenant"],
        frozenset(entry["roles"]),
        entry["agent"],
        entry["safety"],
        entry["labels"],
        entry["step_count"],
        entry["duration_ms"],
        frozenset(entry["carries"]),
        frozenset(entry["has_read"]),
    )
