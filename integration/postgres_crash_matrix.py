"""The crash matrix on Postgres: processes killed at named points, and what those that go on find.

    python -m integration.postgres_crash_matrix --seed 1 --page docs/crashes-postgres.md
    python -m integration.postgres_crash_matrix --point "in the commit" --resumers 2 --at 17

As `crash_matrix`, with the same judge, on the server that ``DATABASE_URL`` names or on one of the
wheel's own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from itertools import cycle, islice, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psycopg

from agentic_kernel_engine import Event, Record
from agentic_kernel_engine.events import from_stored
from agentic_kernel_postgres import PostgresStore

from .crash_evidence import SIGKILL, Evidence, judge, said
from .crash_matrix import (
    RESUMERS,
    SHOWN,
    Cell,
    Line,
    Outcome,
    Teller,
    Template,
    Trial,
    counted,
    template,
)
from .crash_points import AFTER, ANSWER, BEFORE, COMMIT, PRUNE, WORK
from .crash_worker import VICTIM, Order
from .postgres_crash_page import page, table
from .postgres_crash_worker import schema_of
from .postgres_server import Server

WORKER: Final = "integration.postgres_crash_worker"
POINTS: Final = (BEFORE, COMMIT, AFTER, ANSWER, WORK, PRUNE)
TRIALS: Final = 288


class Trials:
    """Trials on one server, each in a schema of its own.

    Args:
        place: Where the server is.
        processes: From which all are forked.
        folder: Where each has a folder of its own.
    """

    def __init__(self, place: str, processes: Template, folder: Path) -> None:
        self._place = place
        self._processes = processes
        self._folder = folder

    def passings(self) -> Mapping[str, int]:
        """How often a process that is not killed passes each point."""
        with TemporaryDirectory(dir=self._folder) as name:
            codes = self._processes.run([self._order(VICTIM, Path(name))])
            self._forget(Path(name))
            return counted(Path(name), codes[0])

    def attempt(self, trial: Trial) -> Outcome:
        """Kill one process, let others go on, and judge."""
        with TemporaryDirectory(dir=self._folder) as name:
            evidence = self.play(trial, Path(name))
        if evidence is None:
            return Outcome(trial, killed=False)
        killed = evidence.codes[VICTIM] == SIGKILL
        return Outcome(trial, killed, judge(evidence), evidence.take_overs, evidence.indeterminate)

    def play(self, trial: Trial, folder: Path) -> Evidence | None:
        """Everything that a trial left; None if nobody was killed."""
        try:
            codes = self._played(trial, folder)
            return asyncio.run(self._gather(folder, codes)) if codes[VICTIM] else None
        finally:
            self._forget(folder)

    def _played(self, trial: Trial, folder: Path) -> dict[str, int]:
        """How each process ended; nobody goes on after a survivor."""
        victim = self._order(VICTIM, folder, trial.cell.point, trial.at)
        codes = {VICTIM: self._processes.run([victim])[0]}
        if codes[VICTIM]:
            dead = next((line.value for line in said(folder, VICTIM) if line.what == "host"), "")
            heirs = [self._order(f"heir-{n}", folder) for n in range(trial.cell.resumers)]
            for heir in heirs:
                heir["dead"] = dead
            names = [heir["name"] for heir in heirs]
            codes |= dict(zip(names, self._processes.run(heirs), strict=True))
        return codes

    def _order(self, name: str, folder: Path, point: str | None = None, at: int = 0) -> Order:
        return {"name": name, "kind": self._place, "folder": str(folder), "point": point, "at": at,
                "dead": ""}  # fmt: skip

    async def _gather(self, folder: Path, codes: Mapping[str, int]) -> Evidence:
        records: dict[str, Record] = {}
        logs: dict[str, list[Event]] = {}
        unreadable: list[str] = []
        async with PostgresStore(self._place, schema=schema_of(folder)) as store:
            for record in await store.find():
                task_id = record.task.id
                try:
                    records[task_id] = await store.load(task_id)
                    found = await store.events(task_id)
                    logs[task_id] = [from_stored(place, text) for place, text in found]
                except Exception as fault:  # whatever it is, the Task does not read
                    unreadable.append(f"{task_id}: {type(fault).__name__}: {fault}")
            unreadable += [f"{bad.task_id}: {bad}" for bad in await store.unreadable()]
        done = folder / "effects"
        effects = [line.split() for line in done.read_text().splitlines()] if done.exists() else []
        return Evidence(
            codes,
            {name: said(folder, name) for name in codes},
            [(task, int(step)) for task, step in effects],
            records,
            logs,
            unreadable,
            {name: (folder / f"{name}.trouble").read_text() for name in codes},
        )

    def _forget(self, folder: Path) -> None:
        with psycopg.connect(self._place, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema_of(folder)} CASCADE")


def cells(points: Sequence[str] = POINTS, resumers: Sequence[int] = RESUMERS) -> list[Cell]:
    """The lines of the matrix."""
    return [Cell(point, "postgres", count) for point, count in product(points, resumers)]


def crash(
    trials: Trials,
    chosen: Sequence[Cell],
    many: int,
    seed: int,
    tell: Callable[[Outcome], None] = lambda _: None,
) -> dict[Cell, Line]:
    """Do so many trials, in turn for each cell, and sum them up; the seed decides where to kill.

    A process may pass a point a little less often than the one that was counted; the trial is then
    made again at half that number.
    """
    dice = random.Random(seed)
    lines = {cell: Line() for cell in chosen}
    counts = trials.passings()
    for cell in islice(cycle(chosen), many):
        at = dice.randrange(counts[cell.point])
        outcome = trials.attempt(Trial(cell, at))
        while not outcome.killed and not outcome.findings and at:
            at //= 2
            outcome = trials.attempt(Trial(cell, at))
        lines[cell].add(outcome)
        tell(outcome)
    return lines


def report(outcome: Outcome) -> str:
    """The findings of a trial, and the command that repeats it."""
    cell, at = outcome.trial.cell, outcome.trial.at
    return "\n".join(
        [
            f"found, killed {cell.point}, passing {at}, {cell.resumers} resumers:",
            *(f"  {finding.fault}: {finding.detail}" for finding in outcome.findings[:SHOWN]),
            f"  again: python -m integration.postgres_crash_matrix --point {cell.point!r} "
            f"--resumers {cell.resumers} --at {at}",
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
    parser.add_argument("--page", type=Path, help="write the matrix to this file")
    asked = parser.parse_args()
    chosen = cells(asked.point or POINTS, asked.resumers or RESUMERS)
    teller = Teller(asked.trials, asked.seed)

    def tell(outcome: Outcome) -> None:
        teller.tell(report(outcome) if outcome.findings else "")

    given = os.environ.get("DATABASE_URL")
    with (
        nullcontext() if given else Server() as server,
        TemporaryDirectory() as name,
        template(WORKER) as processes,
    ):
        place = given or (server.place if server else "")
        trials = Trials(place, processes, Path(name))
        if asked.at is None:
            lines = crash(trials, chosen, asked.trials, asked.seed, tell)
        else:
            lines = {cell: Line() for cell in chosen}
            for cell, line in lines.items():
                outcome = trials.attempt(Trial(cell, asked.at))
                line.add(outcome)
                tell(outcome)
    kills = sum(line.kills for line in lines.values())
    print(f"{table(lines)}\n{kills} kills, seed {asked.seed}, {teller.found} trials with findings")
    if asked.page:
        asked.page.write_text(page(lines, asked.seed), encoding="utf-8")
    return int(teller.found > 0)


if __name__ == "__main__":
    sys.exit(main())
