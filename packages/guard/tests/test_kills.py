"""Processes that append to one chain and are killed in between: no break, nothing is forgotten."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from agentic_kernel_guard.stores import GuardStore, PostgresGuardStore, SQLiteGuardStore
from agentic_kernel_guard.trace import Link, verify

WRITER = """
import asyncio, sys
from agentic_kernel_guard.stores import Begin, PostgresGuardStore, SQLiteGuardStore

async def main(kind, place, name):
    store = SQLiteGuardStore(place) if kind == "sqlite" else PostgresGuardStore(
        place.partition(" ")[2], schema=place.partition(" ")[0])
    n = 0
    while True:
        action = f"{name}-{n}"
        entry = '{"action":"%s","n":%d}' % (action, 2 * n)
        limits = (("c", 10**9, 9),)
        begun = await store.begin(Begin(action, "p", (("t", None),), 9, limits, 1, entry))
        assert begun.state == "begun", begun
        print(2 * n, flush=True)
        await store.finish(action, "done", '{"action":"%s","n":%d}' % (action, 2 * n + 1))
        print(2 * n + 1, flush=True)
        n += 1

asyncio.run(main(*sys.argv[1:]))
"""


class Writer:
    """A process that begins and finishes actions until it is killed."""

    def __init__(self, kind: str, place: str, name: str) -> None:
        self.name = name
        self.said: list[int] = []
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, kind, place, name], stdout=subprocess.PIPE, text=True
        )

    def hear(self, lines: int) -> None:
        """Wait until it has said that so many entries more were written."""
        assert self.process.stdout is not None
        for _ in range(lines):
            self.said.append(int(self.process.stdout.readline()))

    def kill(self) -> None:
        """Kill it at once, and hear what it had said until then."""
        self.process.kill()
        assert self.process.stdout is not None
        # A line without its end was cut by the kill.
        rest = self.process.stdout.read().split("\n")[:-1]
        self.said += map(int, rest)
        self.process.communicate()


async def killed(kind: str, place: str, store: GuardStore, rounds: int) -> None:
    """Two processes write. In each round one of them is killed after some entries."""
    chance = random.Random(rounds)
    names = iter(range(10_000))
    ended: list[Writer] = []
    writers = [Writer(kind, place, f"w{next(names)}") for _ in range(2)]
    try:
        for writer in writers:
            writer.hear(1)
        for number in range(rounds):
            for writer in writers:
                writer.hear(chance.randrange(1, 12))
            dies = writers[number % 2]
            dies.kill()
            ended.append(dies)
            writers[number % 2] = Writer(kind, place, f"w{next(names)}")
    finally:
        for writer in writers:
            writer.kill()
    ended += writers
    links: list[Link] = []
    after = 0
    while page := await store.links(after):
        links += page
        after = page[-1].seq
    assert verify(links).entries == len(links)
    found: dict[str, list[int]] = {}
    for link in links:
        found.setdefault(link.entry["action"].partition("-")[0], []).append(link.entry["n"])
    for writer in ended:
        numbers = found.get(writer.name, [])
        # In order, without a gap, all that was said, and at most the one that was being written.
        assert numbers == list(range(len(numbers)))
        assert len(writer.said) <= len(numbers) <= len(writer.said) + 1
    for writer in ended:
        for n in range(0, len(found.get(writer.name, [])), 2):
            recorded = await store.recorded(f"{writer.name}-{n // 2}")
            assert recorded is not None
            assert (recorded[1] is None) is (n + 1 == len(found[writer.name]))


async def test_two_processes_and_a_few_kills_leave_one_chain(tmp_path: Path) -> None:
    store = SQLiteGuardStore(tmp_path / "guard.db")
    await killed("sqlite", str(tmp_path / "guard.db"), store, 2)
    await store.close()


@pytest.mark.torture
async def test_two_processes_and_many_kills_leave_one_chain_in_sqlite(tmp_path: Path) -> None:
    store = SQLiteGuardStore(tmp_path / "guard.db")
    await killed("sqlite", str(tmp_path / "guard.db"), store, 60)
    await store.close()


@pytest.mark.torture
async def test_two_processes_and_many_kills_leave_one_chain_in_postgres(
    server: str, schema: str
) -> None:
    store = PostgresGuardStore(server, schema=schema)
    await killed("postgres", f"{schema} {server}", store, 60)
    await store.close()
