"""The crash matrix of the Loop: a run killed at each point of its step, and what heirs make of it.

    python -m integration.loop_crash_matrix --trials 360 --seed 1
    python -m integration.loop_crash_matrix --point "in the tool" --resumers 2 --at 4 --order 17

Each trial kills a process with SIGKILL, at one passing of one point, lets one, two or eight others
take over at the same moment, and holds the Task and its history against the journal of what was
really done. See `crash_matrix` for the kills of a Host under a substrate without seams.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from .crash_evidence import SIGKILL, Finding
from .crash_matrix import RESUMERS, SHOWN, Teller, Template, counted, template
from .crash_worker import VICTIM
from .loop_crash_evidence import FAULTS, INDETERMINATE, Remains, gather_remains, judge
from .loop_crash_points import POINTS, SHAPES, limits
from .loop_crash_worker import LoopOrder

WORKER: Final = "integration.loop_crash_worker"
TRIALS: Final = 360
KILLS: Final = "kills"
TAKEN: Final = "taken over"
COLUMNS: Final = (KILLS, TAKEN, *FAULTS, INDETERMINATE)
ORDERS: Final = 1_000
"""How many seeds of the order of the steps there are to draw from."""


class Cell(NamedTuple):
    """One line of the matrix."""

    point: str
    resumers: int


class Trial(NamedTuple):
    """One kill."""

    cell: Cell
    at: int
    """At which passing of the point."""
    order: int
    """Seed of the order of the steps."""

    @property
    def shapes(self) -> list[str]:
        """The steps in their order."""
        return random.Random(self.order).sample(list(SHAPES), len(SHAPES))

    @property
    def again(self) -> str:
        """The command that repeats this one."""
        cell = self.cell
        return (
            f"python -m integration.loop_crash_matrix --point {cell.point!r} "
            f"--resumers {cell.resumers} --at {self.at} --order {self.order}"
        )


class Outcome(NamedTuple):
    """The result of a trial."""

    trial: Trial
    findings: Sequence[Finding]
    counts: Counter[str]
    """One trial's part of each column; a fault counts once."""


def passings(processes: Template, folder: Path) -> Mapping[str, int]:
    """How often a process that is not killed passes each point, whatever the order of the steps."""
    with TemporaryDirectory(dir=folder) as name:
        codes = processes.run([order(VICTIM, name, list(SHAPES), limits())])
        return counted(Path(name), codes[0])


def play(
    processes: Template, trial: Trial, folder: Path, bounds: Mapping[str, int] | None = None
) -> Remains:
    """Kill one process, let others go on, and read what they left.

    Args:
        bounds: Limits of the run; those that every trial has if not given.
    """
    bounds = dict(bounds or limits())
    shapes, place = trial.shapes, str(folder)
    victim = order(VICTIM, place, shapes, bounds, trial.cell.point, trial.at)
    heirs = [order(f"heir-{n}", place, shapes, bounds) for n in range(trial.cell.resumers)]
    codes = {VICTIM: processes.run([victim])[0]}
    names = [heir["name"] for heir in heirs]
    codes |= dict(zip(names, processes.run(heirs), strict=True))
    return asyncio.run(gather_remains(folder, codes, shapes, bounds))


def attempt(processes: Template, trial: Trial, folder: Path) -> Outcome:
    """Make a trial in a folder of its own, and judge it."""
    with TemporaryDirectory(dir=folder) as name:
        remains = play(processes, trial, Path(name))
    findings = judge(remains)
    counts = Counter({finding.fault for finding in findings})
    counts[KILLS] = int(remains.evidence.codes[VICTIM] == SIGKILL)
    counts[TAKEN] = remains.evidence.take_overs
    counts[INDETERMINATE] = remains.indeterminate
    return Outcome(trial, findings, counts)


def order(
    name: str,
    folder: str,
    shapes: list[str],
    bounds: Mapping[str, int],
    point: str | None = None,
    at: int = 0,
) -> LoopOrder:
    """The order to a process."""
    return {
        "name": name, "kind": "file", "folder": folder, "point": point, "at": at, "dead": "",
        "shapes": shapes, "limits": dict(bounds),
    }  # fmt: skip


def cells(points: Sequence[str] = POINTS, resumers: Sequence[int] = RESUMERS) -> list[Cell]:
    """The lines of the matrix."""
    return [Cell(*line) for line in product(points, resumers)]


def crash(
    chosen: Sequence[Cell],
    trials: int,
    seed: int,
    folder: Path,
    tell: Callable[[Outcome], None] = lambda _: None,
) -> dict[Cell, Counter[str]]:
    """Do so many trials, in turn for each cell, and sum them up.

    The seed decides about the order of the steps, and at which passing of its point each process
    is killed.
    """
    dice = random.Random(seed)
    lines: dict[Cell, Counter[str]] = {cell: Counter() for cell in chosen}
    with template(WORKER) as processes:
        counts = passings(processes, folder)
        for cell in islice(cycle(chosen), trials):
            trial = Trial(cell, dice.randrange(counts[cell.point]), dice.randrange(ORDERS))
            outcome = attempt(processes, trial, folder)
            lines[cell] += outcome.counts
            tell(outcome)
    return lines


def table(lines: Mapping[Cell, Counter[str]]) -> str:
    """The matrix as Markdown; a fault counts once for each trial in which it was found."""
    rows: list[list[object]] = [["point", "resumers", *COLUMNS]]
    rows.append(["---", *["---:"] * (len(COLUMNS) + 1)])
    rows += [[*cell, *(line[column] for column in COLUMNS)] for cell, line in lines.items()]
    whole: Counter[str] = sum(lines.values(), Counter())
    rows.append(["all", "", *(whole[column] for column in COLUMNS)])
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def report(outcome: Outcome) -> str:
    """The findings of a trial, and the command that repeats it."""
    trial = outcome.trial
    return "\n".join(
        [
            f"found, killed {trial.cell.point}, passing {trial.at}, "
            f"{trial.cell.resumers} resumers, steps {trial.shapes}:",
            *(f"  {finding.fault}: {finding.detail}" for finding in outcome.findings[:SHOWN]),
            f"  again: {trial.again}",
        ]
    )


def main() -> int:
    """Run what the command line asks for; returns 1 if anything was found."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"how many kills ({TRIALS})")
    parser.add_argument("--seed", type=int, default=0, help="decides where each is killed (0)")
    parser.add_argument("--point", choices=POINTS, action="append")
    parser.add_argument("--resumers", type=int, choices=RESUMERS, action="append")
    parser.add_argument("--at", type=int, help="at this passing of the point, once for each line")
    parser.add_argument("--order", type=int, default=0, help="of the steps, with --at (0)")
    asked = parser.parse_args()
    chosen = cells(asked.point or POINTS, asked.resumers or RESUMERS)
    teller = Teller(asked.trials, asked.seed)

    def tell(outcome: Outcome) -> None:
        teller.tell(report(outcome) if outcome.findings else "")

    with TemporaryDirectory() as name:
        if asked.at is None:
            lines = crash(chosen, asked.trials, asked.seed, Path(name), tell)
        else:
            lines = {}
            with template(WORKER) as processes:
                for cell in chosen:
                    outcome = attempt(processes, Trial(cell, asked.at, asked.order), Path(name))
                    lines[cell] = outcome.counts
                    tell(outcome)
    kills = sum(line[KILLS] for line in lines.values())
    print(f"{table(lines)}\n{kills} kills, seed {asked.seed}, {teller.found} trials with findings")
    return int(teller.found > 0)


if __name__ == "__main__":
    sys.exit(main())
