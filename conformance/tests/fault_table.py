"""The table faulty implementation × rule that caught it × how many of 50 runs.

``python -m conformance.tests.fault_table docs/faults.md`` runs each of them from 50 different
seeds, and the healthy ones for long, and writes what came of it. It takes hours. With ``--only
Planner Policy`` it runs those alone whose names begin so, and renews their rows. With ``--missing``
it runs those alone that the page does not have yet; ``--runs 10`` says how often. With
``--strangers`` it runs the mistakes of `strangers` alone, ten times, and renews their section.
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
from functools import partial
from pathlib import Path
from typing import Any

from agentic_kernel_conformance.contest import Contest
from agentic_kernel_conformance.judgement import judged
from agentic_kernel_conformance.races import Script
from agentic_kernel_conformance.store_histories import SIZE
from agentic_kernel_engine import MemoryStore, Store
from agentic_kernel_file import FileStore

from . import faulty_adapters
from .faulty_adapters import ADAPTERS
from .matrices import matrix, reported
from .strangers import adapters as strangers
from .test_histories import FAULTS, first_broken

TEN_RUNS = 10
"""The runs of each stranger's mistake."""
APART = 10_000
"""From one run's first seed to the next one's."""
MANY = 6_000
"""Histories after which a fault is taken not to show."""

_TEXT = """# Faulty implementations

A contract is worth as much as the mistakes that it catches. So the kit's own tests hold faulty
implementations. Each has one mistake, and its contract must report the rule that the mistake
breaks.

The name of a row begins with the port: `Store`, `Runtime`, `Substrate`, `Planner` and so on.
*Caught by* is the rule that the contract reported, and in how many runs.
`agentic-kernel-conformance explain RULE` prints the rule's text. *Caught* says how many of all the
runs reported it. Each mistake ran {runs} times, from {runs} different seeds, on {trials}.
Rows that were added since ran as often as their last column says.

An author of a substrate reads the rows `Substrate…`, at the end of the first table, and the rows
`Workflow…` under *Written by strangers*. `python -m conformance.tests.fault_table` writes this
page.
"""

_HEAD = ["implementation", "its mistake", "caught by (runs)", "caught"]
_RULED = ["---"] * len(_HEAD)

_IN_RACES = """
## In races

Mistakes that show only when callers race, each with the number of histories that it took: the
median, and the most.
"""


_STRANGERS = """
## Written by strangers

The authors of these implementations had read the documentation, and not the kit. Each set is one
healthy implementation and ten mistakes in it. Each mistake ran {runs} times from {runs} different
seeds, under the tests of the rule that it breaks. `python -m conformance.tests.fault_table
--strangers` writes this section.
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


def of_contracts(names: list[str], runs: int, at_once: int) -> list[Row]:
    """The faulty adapters of these names, each under the tests of the rule that it breaks."""
    rows = {name: _row(name) for name in names}
    with ThreadPoolExecutor(at_once) as pool:
        for done, caught in enumerate(pool.map(partial(_run, names), range(runs)), 1):
            for name, rule in caught:
                rows[name].rules[rule] += 1
            print(f"contracts: run {done} of {runs}", flush=True)
    return list(rows.values())


def _row(name: str) -> Row:
    cls = ADAPTERS[name]
    return Row(name.removeprefix("Test"), _story(cls.faulty), tuple(sorted(cls.reported)))


def _run(names: list[str], run: int) -> list[tuple[str, str]]:
    """Each adapter and the rule that it was caught by, "" if it was not."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"]
        options = ["--once-is-enough", f"--conformance-seed={run * APART}"]
        options += [f"--conformance-report={report}", f"--basetemp={folder}/tests"]
        classes = [f"{faulty_adapters.__file__}::{name}" for name in names]
        subprocess.run([*command, *options, *classes], stdout=subprocess.DEVNULL, check=False)
        adapters = json.loads(report.with_suffix(".json").read_text(encoding="utf-8"))["adapters"]
    return [(f"Test{row['adapter']}", _rule_of(row)) for row in adapters]


def _rule_of(row: dict[str, Any]) -> str:
    reported = ADAPTERS[f"Test{row['adapter']}"].reported
    seen = [test.get("detail", "").partition(":")[0] for test in row["tests"]]
    return next((rule for rule in seen if rule in reported), "")


def of_strangers(runs: int) -> str:
    """The section about the strangers' mistakes, each of which is run so many times."""
    sets: list[list[str]] = []
    rows: list[Row] = []
    for set_name, each in strangers.SETS.items():
        found = {
            name: Row(_short(name), _story(cls.faulty), (cls.breaks,)) for name, cls in each.items()
        }
        with tempfile.TemporaryDirectory() as folder:
            for run in range(runs):
                report = Path(folder) / f"report-{run}"
                file = Path(strangers.__file__)
                for name, row in matrix(file, each, report, run * APART).items():
                    rules = reported(row) & each[name].reported
                    found[name].rules[next(iter(sorted(rules)), "")] += 1
                print(f"strangers: {set_name}, run {run + 1} of {runs}", flush=True)
        always = sum(row.caught() == runs for row in found.values())
        sets.append([set_name, f"{always} of {strangers.TEN}"])
        rows += found.values()
    parts = [
        _STRANGERS.format(runs=runs),
        _table(["set", "mistakes caught in every run"], sets),
        "\n" + _table(_HEAD, (row.cells(runs) for row in rows)),
        f"\nNot caught: {strangers.NOT_CAUGHT}",
    ]
    return "\n".join(parts) + "\n"


def _short(name: str) -> str:
    return name.removeprefix("Test")


def with_strangers(text: str, section: str) -> str:
    """The page with this section in place of the one that it had, if any."""
    head = _STRANGERS.strip().partition("\n")[0]
    before = text.partition(f"\n{head}\n")[0]
    return f"{before}{section}"


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
    """The number of histories of a healthy store that were taken for faulty."""
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


def renewed(text: str, rows: Iterable[Row], runs: int) -> str:
    """The page with these rows in place of what it said, if anything, of the same adapters."""
    before, line, after = text.partition(f"| {' | '.join(_RULED)} |\n")
    table, races, rest = after.partition("\n## In races")
    known = {each.split(" | ")[0].removeprefix("| "): each for each in table.splitlines()}
    known |= {row.name: f"| {' | '.join(row.cells(runs))} |" for row in rows}
    order = [name.removeprefix("Test") for name in ADAPTERS]
    kept = "".join(f"{known[name]}\n" for name in order if name in known)
    return f"{before}{line}{kept}{races}{rest}"


def main() -> int:
    """Run all of it; the exit status tells whether each was caught in each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--healthy", type=int, default=20_000, help="histories in memory")
    parser.add_argument("--at-once", type=int, default=2, help="runs of pytest at the same time")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="renew the rows of these alone")
    parser.add_argument("--missing", action="store_true", help="run what the page does not have")
    parser.add_argument("--strangers", action="store_true", help="renew the strangers' section")
    given = parser.parse_args()
    if given.strangers:
        section = of_strangers(TEN_RUNS)
        text = given.file.read_text(encoding="utf-8")
        given.file.write_text(with_strangers(text, section), encoding="utf-8")
        return 0
    if given.only or given.missing:
        begins = tuple(f"Test{name}" for name in given.only or [""])
        names = [name for name in ADAPTERS if name.startswith(begins)]
        if given.missing:
            page = given.file.read_text(encoding="utf-8")
            names = [name for name in names if f"| {_short(name)} |" not in page]
        if not names:
            parser.error("no adapter is left to run; see --only and --missing")
        contracts = of_contracts(names, given.runs, given.at_once)
        text = renewed(given.file.read_text(encoding="utf-8"), contracts, given.runs)
        given.file.write_text(text, encoding="utf-8")
        return _missed(contracts, given.runs)
    contracts = of_contracts(list(ADAPTERS), given.runs, given.at_once)
    races = asyncio.run(of_races(given.runs))
    with tempfile.TemporaryDirectory() as folder:
        files = FileStore(folder)
        healthy = [
            asyncio.run(flagged("Host on MemoryStore", MemoryStore(), given.healthy)),
            asyncio.run(flagged("Host on FileStore", files, given.healthy // 10)),
        ]
        files.close()
    trials = f"histories of {SIZE} operations"
    parts = [
        _TEXT.format(runs=given.runs, trials=trials),
        "## Under the contract of their port\n",
        _table(_HEAD, (row.cells(given.runs) for row in contracts)),
        _IN_RACES,
        _table([*_HEAD, "histories"], (row.cells(given.runs) for row in races)),
        "\n## The healthy\n\nThe same histories over what is not faulty.\n",
        _table(["implementation", "histories that were flagged"], healthy),
    ]
    parts.append(of_strangers(TEN_RUNS))
    given.file.write_text("\n".join(parts).rstrip() + "\n", encoding="utf-8")
    flawed = any(not each.startswith("0 ") for _, each in healthy)
    return _missed([*contracts, *races], given.runs) or int(flawed)


def _missed(rows: Iterable[Row], runs: int) -> int:
    """Say which were not caught in every run, and return 1 if there are any."""
    missed = [row.name for row in rows if row.caught() != runs]
    print(f"not caught in every run: {', '.join(missed) or 'none'}")
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
