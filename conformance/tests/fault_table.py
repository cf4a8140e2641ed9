"""The table faulty implementation × rule that caught it × how many of 50 runs.

``python -m conformance.tests.fault_table docs/faults.md`` runs each of them from 50 different
seeds, and the healthy ones for long, and writes what came of it. It takes some minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentic_kernel_conformance.contest import Contest
from agentic_kernel_conformance.judgement import judged
from agentic_kernel_conformance.races import Script
from agentic_kernel_conformance.store_histories import SIZE
from agentic_kernel_engine import MemoryStore, Store
from agentic_kernel_file import FileStore

from . import (
    faulty_adapters,
    faulty_approvals,
    faulty_kernels,
    faulty_memories,
    faulty_runtimes,
    faulty_seams,
    faulty_stores,
)
from .faulty_adapters import ADAPTERS
from .test_histories import FAULTS, first_broken

APART = 10_000
"""From one run's first seed to the next one's."""
MANY = 6_000
"""Histories after which a fault is taken not to show."""

_MODULES = (
    faulty_stores, faulty_runtimes, faulty_kernels, faulty_seams, faulty_memories, faulty_approvals,
)  # fmt: skip
_TEXT = """# Faulty implementations

Every mistake of the kit's own tests, run {runs} times from {runs} different seeds: which rule the
contract reported, and in how many of the runs. Written by
`python -m conformance.tests.fault_table`, on {trials}.
"""

_IN_RACES = """
## In races

Mistakes that show only when callers race, each with the number of histories that it took: the
median, and the most.
"""


@dataclass(slots=True)
class Row:
    """One faulty implementation."""

    name: str
    mistake: str
    named_for: tuple[str, ...]
    """The rules of which at least one must be reported."""
    rules: Counter[str] = field(default_factory=Counter)
    histories: list[int] = field(default_factory=list)

    def caught(self) -> int:
        """In how many runs it was caught by a rule that it is named for."""
        return sum(self.rules[rule] for rule in self.named_for)

    def cells(self, runs: int) -> list[str]:
        """The row of the table."""
        told = (f"{rule} ({count})" for rule, count in self.rules.most_common() if rule)
        cells = [self.name, self.mistake, ", ".join(told), f"{self.caught()} of {runs}"]
        if self.histories:
            ordered = sorted(self.histories)
            cells.append(f"{ordered[len(ordered) // 2]:,} · {ordered[-1]:,}")
        return cells


def of_contracts(runs: int, at_once: int) -> list[Row]:
    """The faulty adapters, each under the tests of the rule that it breaks."""
    rows = {name: _row(name) for name in ADAPTERS}
    with ThreadPoolExecutor(at_once) as pool:
        for done, caught in enumerate(pool.map(_run, range(runs)), 1):
            for name, rule in caught:
                rows[name].rules[rule] += 1
            print(f"contracts: run {done} of {runs}", flush=True)
    return list(rows.values())


def _row(name: str) -> Row:
    cls = vars(faulty_adapters)[name]
    found = (getattr(module, cls.faulty, None) for module in _MODULES)
    faulty = next(each for each in found if each is not None)
    return Row(name.removeprefix("Test"), _story(faulty), tuple(sorted(cls.reported)))


def _run(run: int) -> list[tuple[str, str]]:
    """Each adapter and the rule that it was caught by, "" if it was not."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"]
        options = ["--once-is-enough", f"--conformance-seed={run * APART}"]
        options += [f"--conformance-report={report}", f"--basetemp={folder}/tests"]
        file = Path(faulty_adapters.__file__)
        subprocess.run([*command, *options, str(file)], stdout=subprocess.DEVNULL, check=False)
        adapters = json.loads(report.with_suffix(".json").read_text(encoding="utf-8"))["adapters"]
    return [(f"Test{row['adapter']}", _rule_of(row)) for row in adapters]


def _rule_of(row: dict[str, Any]) -> str:
    reported = ADAPTERS[f"Test{row['adapter']}"].reported
    seen = [test.get("detail", "").partition(":")[0] for test in row["tests"]]
    return next((rule for rule in seen if rule in reported), "")


async def of_races(runs: int) -> list[Row]:
    """The stores and hosts whose mistakes show only when callers race."""
    rows = []
    for name, (store, host, rules) in FAULTS.items():
        faulty = host if store is MemoryStore else store
        row = Row(name, _story(faulty), tuple(sorted(rules)))
        for run in range(runs):
            rule, tried, text = await first_broken(store, host, run * APART, MANY)
            row.rules[rule] += 1
            row.histories.append(tried)
            if rule not in rules:
                print(f"{name}, seed {run * APART}: {rule or 'nothing'} {text}", flush=True)
        rows.append(row)
        print(f"races: {name}, {row.caught()} of {runs}", flush=True)
    return rows


async def flagged(name: str, store: Store, many: int) -> tuple[str, str]:
    """How many histories of a healthy store were taken for faulty."""
    found = 0
    for seed in range(7 * 10**6, 7 * 10**6 + many):
        try:
            await judged(Contest(store, Script(seed, SIZE)), "")
        except AssertionError as error:
            found += 1
            print(f"{name}, seed {seed}: {error}", flush=True)
        if seed % 1_000 == 999:
            print(f"healthy: {name}, {seed % 10**6 + 1} of {many}", flush=True)
    return name, f"{found} of {many:,}"


def _story(faulty: type) -> str:
    return (inspect.getdoc(faulty) or "").partition("\n")[0]


def _table(head: list[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    """Run all of it; the exit status tells whether each was caught in each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--healthy", type=int, default=20_000, help="histories in memory")
    parser.add_argument("--at-once", type=int, default=2, help="runs of pytest at the same time")
    given = parser.parse_args()
    contracts = of_contracts(given.runs, given.at_once)
    races = asyncio.run(of_races(given.runs))
    with tempfile.TemporaryDirectory() as folder:
        files = FileStore(folder)
        healthy = [
            asyncio.run(flagged("Host on MemoryStore", MemoryStore(), given.healthy)),
            asyncio.run(flagged("Host on FileStore", files, given.healthy // 10)),
        ]
        files.close()
    head = ["implementation", "its mistake", "caught by (runs)", "caught"]
    trials = f"histories of {SIZE} operations"
    parts = [
        _TEXT.format(runs=given.runs, trials=trials),
        "## Under the contract of their port\n",
        _table(head, (row.cells(given.runs) for row in contracts)),
        _IN_RACES,
        _table([*head, "histories"], (row.cells(given.runs) for row in races)),
        "\n## The healthy\n\nThe same histories over what is not faulty.\n",
        _table(["implementation", "histories that were flagged"], healthy),
    ]
    given.file.write_text("\n".join(parts) + "\n", encoding="utf-8")
    missed = [row.name for row in (*contracts, *races) if row.caught() != given.runs]
    print(f"not caught in every run: {', '.join(missed) or 'none'}")
    return int(bool(missed) or any(not each.startswith("0 ") for _, each in healthy))


if __name__ == "__main__":
    raise SystemExit(main())
