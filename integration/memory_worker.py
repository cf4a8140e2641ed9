"""Another process on a `PostgresMemory`: ``python -m integration.memory_worker PLACE SCHEMA NAME``.

It says what came of each call as JSON, one value a line.
"""

from __future__ import annotations

import asyncio
import sys

from agentic_kernel_engine.seams.memory import Item, NotCurrent, Scope
from agentic_kernel_postgres import PostgresMemory

from .sqlite_worker import say

SHARED = Scope("acme", "ann", "monday")
KEY = "the seat"
ROUNDS = 25


async def main(place: str, schema: str, name: str) -> None:
    """When told, propose what every worker proposes, then take each other's place in turns."""
    async with asyncio.timeout(120), PostgresMemory(place, schema=schema) as memory:
        say("ready")
        await asyncio.to_thread(sys.stdin.readline)
        said = [await memory.propose(Item(f"{n}", SHARED, "said by all")) for n in range(ROUNDS)]
        beaten = 0
        current = "first"
        for n in range(ROUNDS):
            item = Item(f"{name}/{n}", SHARED, f"as {name} knows it, {n}", KEY)
            while True:
                try:
                    assert await memory.supersede(current, item)
                    break
                except NotCurrent as faster:
                    beaten += 1
                    current = faster.successor
            current = item.id
        say({"new": said.count(True), "beaten": beaten})
        await asyncio.to_thread(sys.stdin.read)  # until killed


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
