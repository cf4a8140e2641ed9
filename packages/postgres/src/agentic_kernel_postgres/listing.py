"""Listing: fills the search columns of Tasks that a process of version 0.1 has inserted."""

from __future__ import annotations

from typing import Final

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine.stored import decode_record

from .facets import facets_of, listed_of
from .session import Session

_SOME: Final = 200
"""Tasks that are listed in one statement."""
_UNLISTED: Final = f"""
SELECT {{schema}}.raised_2(), t.key, t.input FROM (VALUES (1)) AS one LEFT JOIN LATERAL (
    SELECT key, input FROM {{schema}}.tasks WHERE created IS NULL ORDER BY key LIMIT {_SOME}
) AS t ON true
"""
"""True if version 0.1 can write no more, and some Tasks whose search columns are not filled yet."""
_LIST: Final = "SELECT {schema}.list_2(%s::json)"


async def list_all(session: Session) -> bool:
    """Fill the search columns of every Task that lacks them, in bounded statements.

    Returns:
        True if no such Task can appear again, because version 0.1 can write no more.
    """
    while True:
        rows = await session.query(_UNLISTED)
        items = [_listing(key, given) for _, key, given in rows if key is not None]
        if items:
            await session.query(_LIST, [msgspec.json.encode(items).decode()])
        if len(items) < _SOME:
            return bool(rows[0][0])


def _listing(key: int, given: bytes) -> dict[str, object]:
    try:
        record = decode_record(given)
    except InvalidValue:  # it cannot be read, so no search finds it
        return {"key": key, "created": "-infinity", "facets": [], "listed": []}
    created, facets, listed = record.task.created_at, facets_of(record), listed_of(record)
    return {"key": key, "created": created, "facets": facets, "listed": listed}
