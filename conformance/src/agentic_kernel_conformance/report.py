"""The conformance report of a test run: one column for each adapter, as text and as plain values.

An adapter is one class that subclasses a contract. Outcomes of a test: ``passed``; ``failed``;
``error`` (a fixture, the kit or a worker process failed, so nothing is found about a rule);
``closed`` (the adapter declares the test's feature closed); ``excused`` (an xfail with a reason);
``skipped`` (any other skip); ``not run``. Only ``passed`` counts as passed. Totals come from the
contract class and not from the tests that a run collects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from .contract import Unproven
from .rules import RULES
from .sources import Source
from .totals import Planned
from .trials import Tally, totals

OUTCOMES: Final = ("failed", "error", "skipped", "excused", "not run", "passed", "closed")
"""The outcomes of a test, the worst first."""
_NAMED: Final = ("failed", "error", "closed", "excused", "skipped")
_SHOWN: Final = 12
"""The number of names in one part of a line for the terminal."""


@dataclass(slots=True)
class Verdict:
    """The outcome of one test of an adapter."""

    test: str
    rules: tuple[str, ...]
    outcome: str
    detail: str = ""
    """The broken rule and what was seen, the closed feature, or the reason."""

    def broke(self) -> str:
        """Return the broken rule, or the test's name if it failed in another way."""
        rule = self.detail.partition(":")[0]
        return rule if rule in RULES else self.test


@dataclass(slots=True)
class Adapter:
    """One class under a contract, the tests of the contract, and their outcomes."""

    name: str
    contract: str
    node: str
    """The pytest node id of the class."""
    features: dict[str, bool]
    planned: dict[str, Planned]
    bounds: dict[str, Any] = field(default_factory=dict)
    """The numbers within which a substrate declares to keep; empty for other contracts."""
    patience: float = 0.0
    usual_patience: float = 0.0
    sources: list[Source] = field(default_factory=list)
    unproven: list[Unproven] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def seen(self, test: str) -> list[Verdict]:
        """Return the outcomes of a test of the contract, one for each parameter set that ran."""
        return [v for v in self.verdicts.values() if v.test.partition("[")[0] == test]

    def counts(self, rule: str = "") -> Counter[str]:
        """Count the tests of the contract by outcome; only those of a rule if one is given."""
        found: Counter[str] = Counter()
        for name, test in self.planned.items():
            if not rule or rule in test.rules:
                outcomes = [verdict.outcome for verdict in self.seen(name)]
                found.update(outcomes)
                if missing := max(0, test.count - len(outcomes)):
                    found["not run"] += missing
        return found

    def rule(self, name: str) -> str:
        """Return the worst outcome of the rule's tests; "" if the contract has none of them."""
        found = self.counts(name)
        return next((outcome for outcome in OUTCOMES if found[outcome]), "")

    def cell(self, name: str) -> str:
        """Return the rule's cell: ``✓ 4 of 4``, or ``3 of 4, processes closed``.

        A rule has no ``✓`` if a closed feature leaves a part of it unproven, even if all its tests
        passed: ``4 of 4, unproven without keeps_output``.
        """
        found = self.counts(name)
        if not found:
            return "–"
        parts = [f"{found['passed']} of {found.total()}"]
        for outcome in ("failed", "error", "excused", "skipped", "not run"):
            if found[outcome]:
                parts.append(f"{found[outcome]} {outcome}")
        closed = {v.detail for v in self._of(name) if v.outcome == "closed"}
        parts += [f"{feature} closed" for feature in sorted(closed)]
        hooks = {u.unless for u in self.unproven if u.rule == name and u.unless}
        parts += [f"unproven without {hook}" for hook in sorted(hooks - closed)]
        whole = found["passed"] == found.total() and not hooks
        sign = "✗ " if found["failed"] or found["error"] else "✓ " if whole else ""
        return sign + ", ".join(parts)

    def line(self) -> str:
        """Return the line for the terminal: ``passed 41 of 47, 6 closed: durable, processes``."""
        counts = self.counts()
        parts = [f"passed {counts['passed']} of {counts.total()}"]
        for outcome in _NAMED:
            if counts[outcome]:
                names = self._named(outcome)
                more = [f"and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
                parts.append(f"{counts[outcome]} {outcome}: {', '.join([*names[:_SHOWN], *more])}")
        parts += [f"{counts['not run']} not run"] if counts["not run"] else []
        return f"{self.name} ({self.contract}): {', '.join(parts)}"

    def lacks(self) -> Iterator[str]:
        """Yield the reasons for which this adapter's column is only a part of the evidence."""
        counts = self.counts()
        if counts["not run"]:
            yield f"{self.name}: {counts['not run']} of {counts.total()} tests did not run"
        for outcome in ("excused", "skipped"):
            if counts[outcome]:
                yield f"{self.name}: {counts[outcome]} {outcome}"
        if self.patience < self.usual_patience:
            yield f"{self.name}: patience {self.patience:g} s is below {self.usual_patience:g} s"

    def _of(self, rule: str) -> list[Verdict]:
        return [v for v in self.verdicts.values() if rule in v.rules]

    def _named(self, outcome: str) -> list[str]:
        """Return the names for an outcome: closed features, broken rules, or else tests."""
        found = [v for v in self.verdicts.values() if v.outcome == outcome]
        if outcome == "closed":
            return sorted({verdict.detail for verdict in found})
        if outcome == "failed":
            return sorted({verdict.broke() for verdict in found})
        return sorted({verdict.test.partition("[")[0] for verdict in found})

    def document(self) -> dict[str, Any]:
        """Return the adapter's column as plain values."""
        counts = self.counts()
        rules = [name for name in RULES if self.rule(name)]
        return {
            "adapter": self.name,
            "contract": self.contract,
            "node": self.node,
            "features": self.features,
            **({"bounds": self.bounds} if self.bounds else {}),
            "patience": self.patience,
            "sources": [asdict(each) for each in self.sources],
            "total": counts.total(),
            **{outcome.replace(" ", "_"): counts[outcome] for outcome in OUTCOMES},
            "rules": {name: self.rule(name) for name in rules},
            "cells": {name: self.cell(name) for name in rules},
            "unproven": [asdict(each) for each in self.unproven],
            "tests": [
                {
                    "test": verdict.test,
                    "rules": list(verdict.rules),
                    "outcome": verdict.outcome,
                    **({"detail": verdict.detail} if verdict.detail else {}),
                }
                for verdict in self.verdicts.values()
            ],
        }


@dataclass(slots=True)
class Report:
    """The adapters of one run, in the order of their first test.

    Args:
        header: The facts about the run that the report begins with.
        lowered: The reasons for which the whole run is only a part of the evidence.
        causes: The options of the run that leave tests out.
    """

    header: dict[str, Any]
    lowered: list[str] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)
    adapters: dict[str, Adapter] = field(default_factory=dict)
    """The adapters by the node id of their class."""
    tallies: dict[str, Tally] = field(default_factory=dict)
    """The counts of the random tests, by node id."""
    errors: dict[str, str] = field(default_factory=dict)
    """The tests during which a worker process of pytest crashed, and what it says."""

    def add(self, node: str, test: str, outcome: str, detail: str) -> None:
        """Add the outcome of one phase of a test; the first failure of any phase is kept.

        A test that the contract does not have is left out.
        """
        adapter = self.adapters[node]
        plan = adapter.planned.get(test.partition("[")[0])
        if plan is None:
            return
        known = adapter.verdicts.get(test)
        bad = ("failed", "error")
        if known is None or (outcome in bad and known.outcome not in bad):
            adapter.verdicts[test] = Verdict(test, plan.rules, outcome, detail)

    def crashed(self, test_id: str, told: str) -> None:
        """Add a crash of a worker process of pytest during a test."""
        self.errors[test_id] = told
        node, _, test = test_id.rpartition("::")
        if node in self.adapters:
            self.adapters[node].verdicts.pop(test, None)
            self.add(node, test, "error", told)

    @property
    def verdict(self) -> str:
        """``error``, ``failed``, ``partial`` or ``passed``: the first of these that is true."""
        found = sum((adapter.counts() for adapter in self.adapters.values()), Counter[str]())
        if found["error"] or self.errors:
            return "error"
        if found["failed"]:
            return "failed"
        return "partial" if self.partial() else "passed"

    def partial(self) -> list[str]:
        """Return the reasons for which this run is only a part of the evidence."""
        found = [reason for adapter in self.adapters.values() for reason in adapter.lacks()]
        if self.causes and any(reason.endswith("did not run") for reason in found):
            found.append(f"options that leave tests out: {', '.join(self.causes)}")
        short = [t for t in self.tallies.values() if not t.findings and t.trials < t.wanted]
        found += [f"{t.adapter} {t.test}: {t.trials} of {t.wanted} trials" for t in short]
        return [*self.lowered, *found]

    def lines(self) -> list[str]:
        """Return the lines for the terminal: one for each adapter, then what is missing."""
        lines = [adapter.line() for adapter in self.adapters.values()]
        lines += [f"ERROR: {test}: {told}" for test, told in self.errors.items()]
        return [*lines, *(f"PARTIAL: {reason}" for reason in self.partial())] if lines else []

    def trials(self) -> list[str]:
        """Return the lines for the terminal about the random tests."""
        tallies = list(self.tallies.values())
        return [*(tally.line() for tally in tallies), totals(tallies)] if tallies else []

    def document(self) -> dict[str, Any]:
        """Return the report as plain values, without its digest."""
        return {
            **self.header,
            "verdict": self.verdict,
            "partial": self.partial(),
            "rules": {name: {"title": r.title, "asks": r.asks} for name, r in RULES.items()},
            "adapters": [adapter.document() for adapter in self.adapters.values()],
            "errors": self.errors,
            "trials": [asdict(tally) for tally in self.tallies.values()],
        }
