"""The calls of release 0.1.0 on a store: ``released_store_worker.py URL SCHEMA [once]``.

The release's interpreter runs this file, so it uses only names that both versions have. It takes
one order a line, a verb and a name, and answers each in a line: ``"ok"``, or the error.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from agentic_kernel import Complete, Dispatch, Pause, Task, apply
from agentic_kernel_engine import Record
from agentic_kernel_postgres import PostgresStore

LEASE = 60.0


async def obey(store: Any, verb: str, name: str) -> None:
    """Make the call that a verb names, on the Task or the host of that name."""
    if verb == "join":
        await store.join(name)
    elif verb == "insert":
        task = Task.new(id=name, summary="s", instructions="i", runtime_kind="k")
        await store.insert(
            Record(apply(task, Dispatch(), datetime.now(UTC)), owner="old:1"), [b"1"]
        )
    elif verb == "claim":
        await store.claim(name, "old")
    elif verb == "prune":
        await store.prune(datetime.now(UTC) + timedelta(days=1))
    else:
        before, now = await store.load(name), datetime.now(UTC)
        after = before.changed(version=before.version + 1, step=before.step + 1)
        if verb == "step":
            await store.commit(before, after, [b"2"])
        elif verb == "pause":
            await store.commit(
                before, after.changed(task=apply(before.task, Pause(), now), owner=None)
            )
        elif verb == "end":
            task = apply(before.task, Complete("done"), now)
            await store.commit(before, after.changed(task=task, owner=None))


async def main(url: str, schema: str, once: str = "") -> None:
    async def answer(store: Any, verb: str, name: str) -> None:
        try:
            await obey(store, verb, name)
            said = "ok"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        print(json.dumps(said), flush=True)

    store = PostgresStore(url, schema=schema, lease=LEASE)
    if once:
        await answer(store, "load", "before")
    while not once and (order := (await asyncio.to_thread(sys.stdin.readline)).split()):
        await answer(store, *order)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
