"""The table faulty store × the check that caught it × how many of the runs.

``python -m packages.postgres.tests.fault_table docs/faults-postgres.md`` runs each faulty store ten
times under the check that it is named with, and `PostgresStore` as often under every check, on the
server that ``DATABASE_URL`` names or on one of the wheel's own, and writes what came of it. That
takes some minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import logging
import os
import re
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from secrets import token_hex
from typing import Final

import psycopg

from integration.postgres_server import Server

from .bench import Bench, verdict
from .checks import CHECKS
from .faults import FAULTS

_TEXT: Final = """# Faulty stores on Postgres

What a store on a server has to hold beyond [the contract of every store](conformance.md) is tested
by checks of its own: functions that take a store's class and an empty schema. The gate makes each
with `PostgresStore`. Here each is made {runs} times with stores that have one mistake, such as a
real author might make, and as often with `PostgresStore`. A mistake counts as caught when the check
says what it is expected to say, and not when anything else goes wrong. Written by
`python -m packages.postgres.tests.fault_table docs/faults-postgres.md`.

## The mistakes

{faults}

## The healthy

`PostgresStore` under the same checks.

{healthy}
"""


def _run(name: str, server: str, runs: int) -> int:
    """In how many runs a faulty store was caught."""
    fault, caught = FAULTS[name], 0
    for run in range(runs):
        schema = f"fault_{token_hex(6)}"
        bench = Bench(server, schema, fault.kind, fault.later)
        found = asyncio.run(verdict(fault.check.holds, bench))
        caught += bool(re.search(fault.says, found))
        if not re.search(fault.says, found):
            print(f"{name}, run {run}: {found or 'nothing was found'}", flush=True)
        _forget(server, schema)
    print(f"{name}: {caught} of {runs}", flush=True)
    return caught


def _flagged(name: str, server: str, runs: int) -> int:
    """In how many runs the healthy store was taken for faulty."""
    flagged = 0
    for run in range(runs):
        schema = f"healthy_{token_hex(6)}"
        found = asyncio.run(verdict(CHECKS[name].holds, Bench(server, schema)))
        flagged += bool(found)
        if found:
            print(f"healthy, {name}, run {run}: {found}", flush=True)
        _forget(server, schema)
    print(f"healthy, {name}: {flagged} of {runs}", flush=True)
    return flagged


def _forget(server: str, schema: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _words(name: str) -> str:
    return name.replace("_", " ")


def page(caught: dict[str, int], flagged: dict[str, int], runs: int) -> str:
    """The whole page."""
    faults = [
        [fault.check.part, name, fault.story, _words(fault.check.holds.__name__),
         f"{caught[name]} of {runs}"]
        for name, fault in FAULTS.items() if name in caught
    ]  # fmt: skip
    healthy = [
        [_words(name), (inspect.getdoc(CHECKS[name].holds) or "").partition("\n")[0],
         f"{flagged[name]} of {runs}"]
        for name in flagged
    ]  # fmt: skip
    return _TEXT.format(
        runs=runs,
        faults=_table(["what happens", "store", "its mistake", "check", "caught"], faults),
        healthy=_table(["check", "what holds", "flagged"], healthy),
    )


def main() -> int:
    """Run all of it; the exit status tells whether each was caught, and the healthy never."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    given = parser.parse_args()
    logging.disable()  # the faults are many, and each is told of at length
    place = os.environ.get("DATABASE_URL")
    with nullcontext() if place else Server() as own:
        server = place or (own.place if own else "")
        flagged = {name: _flagged(name, server, given.runs) for name in CHECKS}
        caught = {name: _run(name, server, given.runs) for name in FAULTS}
    given.file.write_text(page(caught, flagged, given.runs), encoding="utf-8")
    missed = [name for name, count in caught.items() if count != given.runs]
    wronged = [name for name, count in flagged.items() if count]
    print(f"not caught in every run: {', '.join(missed) or 'none'}")
    print(f"flagged though healthy: {', '.join(wronged) or 'none'}")
    return int(bool(missed or wronged))


if __name__ == "__main__":
    raise SystemExit(main())
