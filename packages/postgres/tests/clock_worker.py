"""A worker whose clock is off: ``python -m … PLACE SCHEMA MODULE:KIND LEASE HOURS NAME``.

It joins, stores a Task of its name that it owns, and answers for each owner that it is told, one a
line, whether that owner is alive in its eyes; until it is killed or nobody asks any more.
"""

from __future__ import annotations

import asyncio
import json
import pkgutil
import sys
import time
from typing import Any

from agentic_kernel import KernelError

from .records import running

_now = time.time


async def main(place: str, schema: str, kind: str, lease: str, hours: str, name: str) -> None:
    """Live with a clock that is some hours fast, or slow if they are negative."""
    time.time = lambda: _now() + 3600 * float(hours)
    store: Any = pkgutil.resolve_name(kind)(place, schema=schema, lease=float(lease))
    async with store:
        try:
            await store.join(name)
            await store.insert(running(name, owner=f"{name}:1"))
        except KernelError as refusal:
            print(json.dumps(str(refusal)), flush=True)
            return
        print(json.dumps("joined"), flush=True)
        while owner := (await asyncio.to_thread(sys.stdin.readline)).strip():
            print(json.dumps(await store.alive(owner)), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
