"""Opens the store of a test in another process."""

from __future__ import annotations

from agentic_kernel_postgres import PostgresStore


def opened(place: str, schema: str, lease: float) -> PostgresStore:
    """A handle of this process's own."""
    return PostgresStore(place, schema=schema, lease=lease)
