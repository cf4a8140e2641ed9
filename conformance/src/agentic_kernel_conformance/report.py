"""The conformance report of a test run: one line for each adapter, and the matrix as files.

An adapter is one class that subclasses a contract. Outcomes: ``passed``; ``failed``; ``closed``
(the adapter declares the test's feature closed); ``excused`` (an xfail with a reason);
``skipped`` (any other skip). Only ``passed`` counts as passed.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .rules import RULES
from .trials import Tally, totals

_WORST = ("failed", "skipped", "excused", "passed", "closed")
_SIGNS = {
    "passed": "✓",
    "failed": "✗",
    "closed": "closed",
    "excused": "excused",
    "skipped": "skipped",
}


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
    """One class under a contract, and the outcomes of its tests."""

    name: str
    contract: str
    features: dict[str, bool]
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def counts(self) -> Counter[str]:
        """Count the tests by outcome."""
        return Counter(verdict.outcome for verdict in self.verdicts.values())

    def rule(self, name: str) -> str:
        """Return the worst outcome of the rule's tests; "" if the rule has no test here."""
        found = {v.outcome for v in self.verdicts.values() if name in v.rules}
        return next((outcome for outcome in _WORST if outcome in found), "")

    def line(self) -> str:
        """Return the line for the terminal: ``passed 41 of 47, 6 closed: durable, processes``."""
        counts = self.counts()
        parts = [f"passed {counts['passed']} of {counts.total()}"]
        for outcome in ("failed", "closed", "excused", "skipped"):
            if counts[outcome]:
                parts.append(f"{counts[outcome]} {outcome}: {', '.join(self._named(outcome))}")
        return f"{self.name} ({self.contract}): {', '.join(parts)}"

    def _named(self, outcome: str) -> list[str]:
        """Return the names for an outcome: closed features, broken rules, or else tests."""
        found = [v for v in self.verdicts.values() if v.outcome == outcome]
        if outcome == "closed":
            return sorted({verdict.detail for verdict in found})
        if outcome == "failed":
            return sorted({verdict.broke() for verdict in found})
        return sorted({verdict.test for verdict in found})

    def document(self) -> dict[str, Any]:
        """Return the adapter's row of the matrix as plain values."""
        counts = self.counts()
        return {
            "adapter": self.name,
            "contract": self.contract,
            "features": self.features,
            "total": counts.total(),
            **{outcome: counts[outcome] for outcome in _SIGNS},
            "rules": {name: self.rule(name) for name in RULES if self.rule(name)},
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
    """The adapters of one run, in the order of their first test."""

    level: str
    adapters: dict[str, Adapter] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    """The counts of the random tests, by node id."""

    def add(self, found: dict[str, Any], test: str, outcome: str, detail: str) -> None:
        """Add the outcome of one phase of a test; the first failure of any phase is kept."""
        adapter = self.adapters.setdefault(
            found["class"], Adapter(found["adapter"], found["contract"], found["features"])
        )
        known = adapter.verdicts.get(test)
        if known is None or (outcome == "failed" and known.outcome != "failed"):
            adapter.verdicts[test] = Verdict(test, tuple(found["rules"]), outcome, detail)

    def lines(self) -> list[str]:
        """Return the lines for the terminal, one for each adapter."""
        return [adapter.line() for adapter in self.adapters.values()]

    def trials(self) -> list[str]:
        """Return the lines for the terminal about the random tests."""
        tallies = list(self.tallies.values())
        return [*(tally.line() for tally in tallies), totals(tallies)] if tallies else []

    def write(self, path: Path) -> list[Path]:
        """Write the matrix as JSON and as Markdown, side by side; return the two paths."""
        stem = path.with_suffix("") if path.suffix in (".json", ".md") else path
        as_json, as_markdown = (stem.with_name(f"{stem.name}.{end}") for end in ("json", "md"))
        stem.parent.mkdir(parents=True, exist_ok=True)
        document = {
            "level": self.level,
            "rules": {name: {"title": r.title, "asks": r.asks} for name, r in RULES.items()},
            "adapters": [adapter.document() for adapter in self.adapters.values()],
            "trials": [asdict(tally) for tally in self.tallies.values()],
        }
        text = json.dumps(document, indent=2, ensure_ascii=False)
        as_json.write_text(f"{text}\n", encoding="utf-8")
        as_markdown.write_text(self.markdown(), encoding="utf-8")
        return [as_json, as_markdown]

    def markdown(self) -> str:
        """Return the matrix rule × adapter and the terminal's lines, as Markdown."""
        adapters = list(self.adapters.values())
        lines = [f"# Conformance ({self.level})", ""]
        head = ["rule", *(adapter.name for adapter in adapters)]
        lines += [_row(head), _row(["---"] * len(head))]
        for name, rule in RULES.items():
            outcomes = [adapter.rule(name) for adapter in adapters]
            if any(outcomes):
                signs = [_SIGNS.get(outcome, "–") for outcome in outcomes]
                lines.append(_row([f"{name}: {rule.title}", *signs]))
        lines.append(
            _row(["passed", *(f"{a.counts()['passed']} of {a.counts().total()}" for a in adapters)])
        )
        lines += ["", *(f"- {line}" for line in self.lines()), ""]
        if self.tallies:
            lines += ["## Random tests", "", *(f"- {line}" for line in self.trials()), ""]
        return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
