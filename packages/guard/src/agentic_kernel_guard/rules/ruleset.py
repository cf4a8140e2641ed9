"""RuleSet: decides a request by the first rule that holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from .counters import Counters
from .rule import Approval, Effect, Limit, Rule
from .text import RuleError

ANYBODY: Final = Approval()
"""Every person who may approve calls, with no limit of time."""
CACHED: Final = 4_096
"""The most capabilities whose rules are remembered."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to a rule set. The capability is any text."""

    capability: str
    arguments: Mapping[str, Any]
    at: datetime
    """With a time zone."""
    principal: str = ""
    tenant: str = ""
    roles: frozenset[str] = frozenset()
    agent: str = ""
    safety: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    step_count: int = 0
    duration_ms: int = 0
    carries: frozenset[str] = frozenset()
    """The sources of which the arguments carry text."""
    has_read: frozenset[str] = frozenset()
    """The sources whose text the run has seen."""


@dataclass(frozen=True, slots=True)
class Near:
    """A rule that failed on one thing only."""

    rule: str
    effect: Effect
    failed: str
    """The condition that did not hold, e.g. ``arguments.amount.max``."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision of a rule set."""

    effect: Effect
    reason: str
    rule: str = ""
    """The rule that decided; empty if none did."""
    approval: Approval = ANYBODY
    counter: str = ""
    """The counter of the rule's limit; empty without one."""
    limit: Limit | None = None

    async def within(self, counters: Counters) -> Verdict:
        """This verdict, or a denial if the rule's limit is used up. Nothing is spent."""
        if self.limit is None or self.effect == "deny":
            return self
        if await counters.count(self.counter, self.limit.seconds) < self.limit.calls:
            return self
        return Verdict("deny", limit_reason(self.rule, self.limit), self.rule)


def limit_reason(rule: str, limit: Limit) -> str:
    """The reason of a denial by a limit."""
    return (
        f"the rule {rule} allows {limit.calls:,} calls in {limit.seconds:g} s for each "
        f"{limit.per}; try again later"
    )


class RuleSet:
    """Rules by priority. The first that holds decides; without one, a request is denied.

    Args:
        rules: With priorities that differ.
        error: The reason why the file cannot be used; then everything is denied.
    """

    def __init__(self, rules: Sequence[Rule], error: RuleError | None = None) -> None:
        self.rules: Final = tuple(sorted(rules, key=lambda rule: rule.priority))
        self.error: Final = error
        self.taints: Final = any(rule.carries or rule.has_read for rule in self.rules)
        """True if a rule looks at what a run has seen."""
        self._exact: dict[str, list[int]] = {}
        self._other: list[int] = []
        self._known: dict[str, tuple[Rule, ...]] = {}
        for index, rule in enumerate(self.rules):
            globs = rule.capability
            if globs is None or globs.compiled is not None:
                self._other.append(index)
            else:
                for name in globs.exact:
                    self._exact.setdefault(name, []).append(index)

    def decide(self, asked: Asked) -> Verdict:
        """Decide a request. It never raises: what cannot be decided is denied.

        A rate limit is not looked at; use `Verdict.within`.
        """
        if self.error is not None:
            return Verdict("deny", f"the rules cannot be used: {self.error}")
        try:
            for rule in self._named(asked.capability):
                if not next(failures(rule, asked), ""):
                    return self._verdict(rule, asked)
        except Exception as error:  # a value that no rule can compare must not pass one
            return Verdict("deny", f"a rule cannot look at the request: {error}")
        return Verdict("deny", "no rule matches the request; add one that allows it")

    def near(self, asked: Asked, most: int = 20) -> tuple[Near, ...]:
        """The rules that name the capability and failed on one thing only, by priority."""
        found: list[Near] = []
        for rule in self._named(asked.capability):
            try:
                failed = list(failures(rule, asked))
            except Exception as error:
                failed = [str(error)]
            if len(failed) == 1:
                found.append(Near(rule.name, rule.effect, failed[0]))
            if len(found) == most:
                break
        return tuple(found)

    def _named(self, capability: str) -> tuple[Rule, ...]:
        """The rules that name a capability."""
        known = self._known.get(capability)
        if known is None:
            indexes = list(self._exact.get(capability, ()))
            for index in self._other:
                globs = self.rules[index].capability
                if globs is None or globs.fit(capability):
                    indexes.append(index)
            known = tuple(self.rules[index] for index in sorted(indexes))
            if len(self._known) >= CACHED:
                self._known = {}
            self._known[capability] = known
        return known

    def _verdict(self, rule: Rule, asked: Asked) -> Verdict:
        reason = rule.reason or f"the rule {rule.name} says {rule.effect}"
        if rule.limit is None:
            return Verdict(rule.effect, reason, rule.name, rule.approval)
        per = rule.limit.per
        who = {"principal": asked.principal, "tenant": asked.tenant, "capability": asked.capability}
        # Principals of different tenants may share a name.
        key = f"{asked.tenant}\x1f{who[per]}" if per == "principal" else who[per]
        counter = f"{rule.name}\x1f{per}\x1f{key}"
        return Verdict(rule.effect, reason, rule.name, rule.approval, counter, rule.limit)


def failures(rule: Rule, asked: Asked) -> Iterator[str]:
    """The conditions that fail of a rule that names the capability, cheapest first.

    Raises:
        TypeError: An argument is of a type that a predicate cannot compare.
    """
    if rule.safety and asked.safety not in rule.safety:
        yield "match.safety"
    for word, globs, text in (
        ("agent", rule.agent, asked.agent),
        ("principal", rule.principal, asked.principal),
        ("tenant", rule.tenant, asked.tenant),
    ):
        if globs is not None and not globs.fit(text):
            yield f"match.{word}"
    if rule.role is not None and not any(map(rule.role.fit, asked.roles)):
        yield "match.role"
    for name, globs in rule.labels:
        label = asked.labels.get(name)
        if label is None or not globs.fit(label):
            yield f"match.labels.{name}"
    if rule.window is not None and not rule.window.holds(asked.at):
        yield "when.hours"
    if asked.step_count < rule.min_step_count:
        yield "when.min_step_count"
    if asked.duration_ms < rule.min_duration_ms:
        yield "when.min_duration_ms"
    for word, globs, sources in (
        ("carries", rule.carries, asked.carries),
        ("has_read", rule.has_read, asked.has_read),
    ):
        if globs is not None and not any(map(globs.fit, sources)):
            yield f"when.{word}"
    for predicate in rule.arguments:
        failed = predicate.failed(asked.arguments)
        if failed:
            yield f"arguments.{predicate.name}.{failed}"
