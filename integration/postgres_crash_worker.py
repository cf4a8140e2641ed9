"""The processes of a crash trial on Postgres; ``python -m integration.postgres_crash_worker``.

They live as those of `crash_worker` do. The knife of the one that is killed is between the client
and the server: before every request, and before every wait for the answer.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from agentic_kernel_engine import Host, Store
from agentic_kernel_postgres import PostgresStore

from .crash_points import LEASE, CutStore, Knife
from .crash_worker import VICTIM, Order, Worker, serve


def schema_of(folder: Path) -> str:
    """The part of the database that belongs to a trial."""
    return f"trial_{folder.name.lower()}"


class PostgresWorker(Worker):
    """One process: a Host on the trial's schema, and the substrate that it runs."""

    def __init__(self, order: Order, store: PostgresStore, knife: Knife) -> None:
        self.name = order["name"]
        self.folder = Path(order["folder"])
        self.knife = knife
        self.store = cast("Any", store)
        cut = cast("Store", CutStore(store, knife)) if self.name == VICTIM else store
        self.host = Host(self, cut, claims=False, interval=0.02)


async def live(order: Order) -> None:
    """Be the process that is ordered; its kind says where the server is."""
    place, schema = order["kind"], schema_of(Path(order["folder"]))
    knife = Knife(order["point"], order["at"])
    if order["name"] == VICTIM:
        async with (
            AsyncConnectionPool(
                place, connection_class=_cut_by(knife), min_size=1, max_size=2, open=False
            ) as pool,
            PostgresStore(pool, schema=schema, lease=LEASE) as store,
        ):
            await PostgresWorker(order, store, knife).work()
        return
    expire(place, schema, order["dead"])
    async with PostgresStore(place, schema=schema, lease=LEASE) as store:
        await PostgresWorker(order, store, knife).go_on(order["dead"])


def expire(place: str, schema: str, host: str) -> None:
    """Let the lease of a dead host run out, instead of waiting for it."""
    with psycopg.connect(place) as connection:
        connection.execute(f"UPDATE {schema}.hosts SET until = now() WHERE name = %s", [host])


def _cut_by(knife: Knife) -> type[AsyncConnection[Any]]:
    class CutConnection(AsyncConnection[Any]):
        """A connection with a knife before every request, and every wait for its answer."""

        async def wait(self, gen: Any, *options: Any) -> Any:
            return await super().wait(_passing(gen, knife), *options)

    return CutConnection


def _passing(gen: Any, knife: Knife) -> Generator[Any, Any, Any]:
    knife.operation()
    try:
        asked = next(gen)
        while True:
            knife.operation()
            ready = yield asked
            asked = gen.send(ready)
    except StopIteration as end:
        return end.value


if __name__ == "__main__":
    serve(live)
