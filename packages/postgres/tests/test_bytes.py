"""The bytes of a step in the database: few, and as many after many steps as after few."""

from __future__ import annotations

import asyncio

import psycopg

from agentic_kernel_engine import Record
from agentic_kernel_postgres import PostgresStore

from .records import running, step

RUNS = 32
EVENT = b'{"type":"run.delta","at":1893553445678901,"data":{"text":"%b"}}' % (b"x" * 200)
BOUND = 450
"""Bytes of a step with such an event, in all tables and indexes."""


async def test_a_step_leaves_few_bytes_and_no_more_of_them_as_runs_grow(
    server: str, schema: str
) -> None:
    async with PostgresStore(server, schema=schema, lease=30.0) as store:
        await store.join("host")
        records = [running(owner="host:1") for _ in range(RUNS)]
        for record in records:
            await store.insert(record)
        sizes = []
        for steps in (10, 50, 100, 50):
            records = await asyncio.gather(*(_run(store, record, steps) for record in records))
            sizes.append(_stored(server, schema))
    before, early, middle, late = sizes
    assert early - before <= BOUND * RUNS * 50
    assert late - middle <= 1.1 * (early - before)


async def _run(store: PostgresStore, record: Record, steps: int) -> Record:
    for _ in range(steps):
        await store.commit(record, step(record), [EVENT])
        record = step(record)
    return record


def _stored(server: str, schema: str) -> int:
    """Bytes in all tables and indexes of the schema."""
    with psycopg.connect(server) as connection:
        found = connection.execute(
            """SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class AS c
            JOIN pg_namespace AS n ON n.oid = c.relnamespace
            WHERE n.nspname = %s AND c.relkind = 'r'""",
            [schema],
        ).fetchone()
    assert found is not None
    return int(found[0])
