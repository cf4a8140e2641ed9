"""Rule: whom and what it names, what it asks, and what it decides."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, tzinfo
from typing import Any, Literal

from .predicate import Predicate

Effect = Literal["allow", "deny", "require_approval"]
Per = Literal["principal", "tenant", "capability"]


@dataclass(frozen=True, slots=True)
class Globs:
    """Names with ``*`` for any characters and ``?`` for one; one of them must fit."""

    patterns: tuple[str, ...]
    exact: frozenset[str]
    """The names without ``*`` and ``?``."""
    compiled: Any = None
    """The others as one pattern of RE2, or None."""

    def fit(self, text: str) -> bool:
        """True if the whole text fits one of the names."""
        return text in self.exact or bool(self.compiled and self.compiled.fullmatch(text))


@dataclass(frozen=True, slots=True)
class Window:
    """Hours of some days of the week, in one time zone. An end before its start is the next day."""

    zone: tzinfo
    days: frozenset[int]
    """Days on which the window starts, 0 for Monday."""
    start: time
    end: time

    def holds(self, at: datetime) -> bool:
        """True if the moment lies in the window; its start belongs to it, its end does not.

        Raises:
            TypeError: The moment has no time zone. Python would take it as one of this machine's.
        """
        if at.tzinfo is None:
            raise TypeError(f"the time {at} has no time zone; use datetime.now(UTC)")
        local = at.astimezone(self.zone)
        day, now = local.weekday(), local.time()
        if self.start < self.end:
            return day in self.days and self.start <= now < self.end
        early = now < self.end and (day - 1) % 7 in self.days
        return early or (now >= self.start and day in self.days)


@dataclass(frozen=True, slots=True)
class Limit:
    """The most calls in a time, for each principal, tenant or capability."""

    calls: int
    seconds: float
    per: Per


@dataclass(frozen=True, slots=True)
class Approval:
    """The people who may approve, and the time for which a call waits for one of them."""

    approvers: tuple[str, ...] = ()
    """Names; empty if every person who may approve calls may approve this one."""
    timeout: float | None = None
    """Seconds, or None for no limit."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. It decides if all that it names and asks holds."""

    name: str
    priority: int
    """The lowest number is looked at first."""
    effect: Effect
    capability: Globs | None = None
    agent: Globs | None = None
    principal: Globs | None = None
    tenant: Globs | None = None
    role: Globs | None = None
    safety: frozenset[str] = frozenset()
    labels: tuple[tuple[str, Globs], ...] = ()
    arguments: tuple[Predicate, ...] = ()
    window: Window | None = None
    min_step_count: int = 0
    min_duration_ms: int = 0
    carries: Globs | None = None
    """Sources of text in the arguments."""
    has_read: Globs | None = None
    """Sources whose text the run has seen."""
    limit: Limit | None = None
    approval: Approval = Approval()
    reason: str = ""
    line: int = 0
