"""The work of another process on a memory: ``python memory_worker.py FOLDER JOB ARGUMENT…``.

It says what it has done, one line at a time, and only what was acknowledged.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from agentic_kernel_engine.seams import Item, NotCurrent, Scope
from agentic_kernel_file import FileMemory

HERE = Scope("acme", "ann", "monday")
GARBAGE = 1 << 12
"""So little that the log is compacted again and again."""


def say(*words: object) -> None:
    print(*words, flush=True)


async def write(memory: FileMemory, name: str) -> None:
    """Propose, supersede and forget, three at a time, until killed."""

    async def each(chain: str) -> None:
        n, current = 0, ""
        while True:
            item = Item(f"{name}/{chain}/{n}", HERE, f"text of {name}/{chain}/{n} " + "x" * 300)
            say("tries", item.id)
            if current and n % 2:
                assert await memory.supersede(current, item)
                say("superseded", current, item.id)
            else:
                assert await memory.propose(item)
                say("proposed", item.id)
            if current and n % 3 == 0:
                say("forgets", current)
                await memory.tombstone(HERE, current, "asked for")
                say("forgotten", current)
            current, n = item.id, n + 1

    await asyncio.gather(*(each(chain) for chain in "abc"))


async def chain(memory: FileMemory, name: str, share: str) -> None:
    """Propose what every process proposes, and take each other's place in turns."""
    told = [await memory.propose(Item(f"{n}", HERE, "said by all")) for n in range(int(share))]
    current = "first"
    for n in range(int(share)):
        item = Item(f"{name}/{n}", HERE, f"as {name} knows it, {n}", "seat")
        while True:
            try:
                assert await memory.supersede(current, item)
                break
            except NotCurrent as faster:
                current = faster.successor
        current = item.id
    say(told.count(True))


async def main(folder: str, job: str, *arguments: str) -> None:
    memory = FileMemory(folder, garbage=GARBAGE)
    jobs: dict[str, Callable[..., Awaitable[None]]] = {"write": write, "chain": chain}
    await jobs[job](memory, *arguments)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
