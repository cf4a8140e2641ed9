"""The crash matrix: real processes killed at named points, and what those that go on find.

    python -m integration.crash_matrix --trials 624 --seed 1
    python -m integration.crash_matrix --store file --point "in compaction" --resumers 2 --at 17

Each trial kills a process of its own with SIGKILL, at one passing of one point, lets one, two or
eight others take over at the same moment, and holds what is then stored against what the dead
process had been told.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from .crash_evidence import FAULTS, INDETERMINATE, SIGKILL, Finding, gather, judge, said
from .crash_points import COMPACTION, POINTS, STORES
from .crash_worker import VICTIM, Order

ROOT: Final = Path(__file__).parents[1]
RESUMERS: Final = (1, 2, 8)
TRIALS: Final = 624
SHOWN: Final = 20
"""The most findings of one trial that are printed."""
NOT_THERE: Final = {(COMPACTION, "sqlite")}
"""Points that a store does not have."""


class Cell(NamedTuple):
    """One line of the matrix."""

    point: str
    store: str
    resumers: int


class Trial(NamedTuple):
    """One kill."""

    cell: Cell
    at: int
    """At which passing of the point."""

    @property
    def again(self) -> str:
        """The command that repeats this one."""
        cell = self.cell
        return (
            f"python -m integration.crash_matrix --store {cell.store} --point {cell.point!r} "
            f"--resumers {cell.resumers} --at {self.at}"
        )


class Outcome(NamedTuple):
    """The result of a trial."""

    trial: Trial
    killed: bool
    """False if the process ended before it came to the passing at which it was to die."""
    findings: Sequence[Finding] = ()
    taken_over: int = 0
    indeterminate: int = 0


@dataclass
class Line:
    """The sum of a cell's trials."""

    kills: int = 0
    taken_over: int = 0
    """How many Tasks the dead left running, to be claimed by one of the others."""
    faults: Counter[str] = field(default_factory=Counter)
    """In how many trials each fault was found."""
    indeterminate: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count one trial."""
        self.kills += outcome.killed
        self.taken_over += outcome.taken_over
        self.faults.update({finding.fault for finding in outcome.findings})
        self.indeterminate += outcome.indeterminate

    def numbers(self) -> list[int]:
        """As the table shows them."""
        faults = [self.faults[fault] for fault in FAULTS]
        return [self.kills, self.taken_over, *faults, self.indeterminate]


class Template:
    """The process from which all others are forked, so that they need not start an interpreter."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, orders: Sequence[Order]) -> list[int]:
        """Run processes that all begin at once; returns their exit codes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(orders), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the template of the processes ended; its standard error says why")
        codes: list[int] = json.loads(answer)
        return codes


@contextmanager
def template(module: str = "integration.crash_worker") -> Iterator[Template]:
    """A template of the processes of this module, ended with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    with process:  # which closes its input, and waits for it
        yield Template(process)


def counted(folder: Path, code: int) -> Mapping[str, int]:
    """How often each point was passed by a victim that nobody killed.

    Raises:
        RuntimeError: It did not end well, and says why.
    """
    if code != 0:
        trouble = (folder / f"{VICTIM}.trouble").read_text()
        raise RuntimeError(f"the victim ended with {code} before any kill:\n{trouble}")
    passed: Mapping[str, int] = said(folder, VICTIM)[-1].value
    return passed


class Teller:
    """Prints what trials found as they are made, and how many are done."""

    def __init__(self, trials: int, seed: int) -> None:
        self.found = 0
        self._done = 0
        self._trials = trials
        self._seed = seed

    def tell(self, report: str) -> None:
        """Count a trial; the report is empty if it found nothing."""
        self._done += 1
        if report:
            self.found += 1
            print(f"{report}\n  seed:  {self._seed}, trial {self._done}", flush=True)
        if self._done % 50 == 0:
            print(f"{self._done} of {self._trials} trials, {self.found} with findings", flush=True)


def passings(processes: Template, store: str, folder: Path) -> Mapping[str, int]:
    """The number of times that a process that is not killed passes each point."""
    with TemporaryDirectory(dir=folder) as name:
        codes = processes.run([_victim(store, name)])
        return counted(Path(name), codes[0])


def attempt(processes: Template, trial: Trial, folder: Path) -> Outcome:
    """Kill one process, let others go on, and judge."""
    with TemporaryDirectory(dir=folder) as name:
        codes = play(processes, trial, Path(name))
        if codes[VICTIM] == 0:
            return Outcome(trial, killed=False)
        evidence = asyncio.run(gather(trial.cell.store, Path(name), codes))
    killed = codes[VICTIM] == SIGKILL
    return Outcome(trial, killed, judge(evidence), evidence.take_overs, evidence.indeterminate)


def play(processes: Template, trial: Trial, folder: Path) -> dict[str, int]:
    """Run the processes of a trial; returns their exit codes. Nobody goes on after a survivor."""
    kind, place = trial.cell.store, str(folder)
    codes = {VICTIM: processes.run([_victim(kind, place, trial.cell.point, trial.at)])[0]}
    if codes[VICTIM] == 0:
        return codes
    dead = next((line.value for line in said(folder, VICTIM) if line.what == "host"), "")
    heirs: list[Order] = [
        {"name": f"heir-{n}", "kind": kind, "folder": place, "point": None, "at": 0, "dead": dead}
        for n in range(trial.cell.resumers)
    ]
    names = (heir["name"] for heir in heirs)
    return codes | dict(zip(names, processes.run(heirs), strict=True))


def _victim(kind: str, folder: str, point: str | None = None, at: int = 0) -> Order:
    return {"name": VICTIM, "kind": kind, "folder": folder, "point": point, "at": at, "dead": ""}


def cells(
    points: Iterable[str] = POINTS,
    stores: Iterable[str] = STORES,
    resumers: Iterable[int] = RESUMERS,
) -> list[Cell]:
    """The lines of the matrix, but for those that a store does not have."""
    return [Cell(*line) for line in product(points, stores, resumers) if line[:2] not in NOT_THERE]


def crash(
    chosen: Sequence[Cell],
    trials: int,
    seed: int,
    folder: Path,
    tell: Callable[[Outcome], None] = lambda _: None,
) -> dict[Cell, Line]:
    """Do so many trials, in turn for each cell, and sum them up.

    The seed decides at which passing of its point each process is killed. A process may pass a
    point a little less often than the one that was counted; the trial is then made again at half
    that number.
    """
    dice = random.Random(seed)
    lines = {cell: Line() for cell in chosen}
    with template() as processes:
        stores = sorted({cell.store for cell in chosen})
        counts = {store: passings(processes, store, folder) for store in stores}
        for cell in islice(cycle(chosen), trials):
            at = dice.randrange(counts[cell.store][cell.point])
            outcome = attempt(processes, Trial(cell, at), folder)
            while not outcome.killed and not outcome.findings and at:
                at //= 2
                outcome = attempt(processes, Trial(cell, at), folder)
            lines[cell].add(outcome)
            tell(outcome)
    return lines


def table(lines: Mapping[Cell, Line]) -> str:
    """The matrix as Markdown; a fault counts once for each trial in which it was found."""
    head = ["point", "store", "resumers", "kills", "taken over", *FAULTS, INDETERMINATE]
    rows: list[list[object]] = [[*head], ["---", "---", *["---:"] * (len(head) - 2)]]
    for point, store in product(dict.fromkeys(cell.point for cell in lines), STORES):
        here = {cell: line for cell, line in lines.items() if cell[:2] == (point, store)}
        rows += [[*cell, *line.numbers()] for cell, line in here.items()]
        if (point, store) in NOT_THERE and any(cell.store == store for cell in lines):
            rows.append([point, store, *["n/a"] * (len(head) - 2)])
    whole = zip(*(line.numbers() for line in lines.values()), strict=True)
    rows.append(["all", "", "", *map(sum, whole)])
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def report(outcome: Outcome) -> str:
    """The findings of a trial, and the command that repeats it."""
    cell, at = outcome.trial.cell, outcome.trial.at
    return "\n".join(
        [
            f"found, killed {cell.point}, passing {at}, on {cell.store}, {cell.resumers} resumers:",
            *(f"  {finding.fault}: {finding.detail}" for finding in outcome.findings[:SHOWN]),
            f"  again: {outcome.trial.again}",
        ]
    )


def main() -> int:
    """Run what the command line asks for; returns 1 if anything was found."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"how many kills ({TRIALS})")
    parser.add_argument("--seed", type=int, default=0, help="decides where each is killed (0)")
    parser.add_argument("--store", choices=STORES, action="append")
    parser.add_argument("--point", choices=POINTS, action="append")
    parser.add_argument("--resumers", type=int, choices=RESUMERS, action="append")
    parser.add_argument("--at", type=int, help="at this passing of the point, once for each line")
    asked = parser.parse_args()
    chosen = cells(asked.point or POINTS, asked.store or STORES, asked.resumers or RESUMERS)
    if not chosen:
        parser.error("this store does not have this point")
    teller = Teller(asked.trials, asked.seed)

    def tell(outcome: Outcome) -> None:
        teller.tell(report(outcome) if outcome.findings else "")

    with TemporaryDirectory() as name:
        if asked.at is None:
            lines = crash(chosen, asked.trials, asked.seed, Path(name), tell)
        else:
            lines = {cell: Line() for cell in chosen}
            with template() as processes:
                for cell, line in lines.items():
                    outcome = attempt(processes, Trial(cell, asked.at), Path(name))
                    line.add(outcome)
                    tell(outcome)
    kills = sum(line.kills for line in lines.values())
    print(f"{table(lines)}\n{kills} kills, seed {asked.seed}, {teller.found} trials with findings")
    return int(teller.found > 0)


if __name__ == "__main__":
    sys.exit(main())
