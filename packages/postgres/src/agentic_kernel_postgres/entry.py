"""Entry: what this package offers to `agentic_kernel_engine.discovery`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from agentic_kernel_engine import Store
from agentic_kernel_engine.discovery import NoOptions, StoreEntry

SCHEMA: Final = "agentic_kernel"
"""The Postgres schema that a URL means."""
LEASE: Final = 10.0
"""In seconds; a process renews its lease while it lives."""


@asynccontextmanager
async def _opened(url: str, _: NoOptions) -> AsyncIterator[Store]:
    from .store import PostgresStore  # Imports psycopg.

    async with PostgresStore(url, schema=SCHEMA, lease=LEASE) as store:
        yield store


STORE: Final = StoreEntry(
    open=_opened,
    options=NoOptions,
    lease=LEASE,
    summary="a database for many machines; its URL is that of libpq",
)
"""The store ``postgresql``, which is also called ``postgres``."""
