"""Queries: what is read, each in one statement and so from one moment."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from agentic_kernel import TaskStatus
from agentic_kernel_engine.store import EventId

from .rows import COLUMNS

_RECORDS: Final = (
    f"SELECT {COLUMNS} FROM {{schema}}.tasks AS t JOIN {{schema}}.heads AS h ON h.id = t.id"
)

LOAD: Final = f"{_RECORDS} WHERE t.id = %s"
LOAD_MANY: Final = f"{_RECORDS} WHERE t.id = ANY (%s)"
CHANGED: Final = """
SELECT k.id, coalesce(h.version, 0) FROM unnest(%s::text[], %s::bigint[]) AS k (id, version)
LEFT JOIN {schema}.heads AS h ON h.id = k.id WHERE coalesce(h.version, 0) <> k.version
"""
EVENTS: Final = """
SELECT e.version, e.place, e.text FROM {schema}.heads AS h LEFT JOIN LATERAL (
    SELECT version, place, text FROM {schema}.events
    WHERE task = h.key AND (version, place) > (%s::bigint, %s::bigint)
    ORDER BY version, place LIMIT %s
) AS e ON true WHERE h.id = %s ORDER BY e.version, e.place
"""
"""A Task without such events gives one row of nulls, an unknown one gives none."""

JOIN: Final = """
INSERT INTO {schema}.hosts (name, until) VALUES (%s, clock_timestamp() + %s::interval)
ON CONFLICT DO NOTHING
"""
LEAVE: Final = "UPDATE {schema}.hosts SET gone = true WHERE name = %s AND NOT gone"
RENEW: Final = """
UPDATE {schema}.hosts SET until = clock_timestamp() + %s::interval
WHERE name = ANY (%s) AND NOT gone AND until > clock_timestamp() RETURNING name
"""
ALIVE: Final = """
SELECT NOT gone AND until > clock_timestamp(), gone FROM {schema}.hosts WHERE name = %s
"""
BURY: Final = """
WITH buried AS (
    UPDATE {schema}.hosts SET gone = true
    WHERE name = %s AND NOT gone AND until <= clock_timestamp() RETURNING name
) SELECT count(*) FROM buried
"""
"""Declare a host dead whose lease ran out; a renewal under way is waited for, and counts."""

PRUNE: Final = """
WITH old AS (
    SELECT key, id FROM {schema}.tasks WHERE ended < %s ORDER BY ended LIMIT %s
    FOR UPDATE SKIP LOCKED
), e AS (DELETE FROM {schema}.events USING old WHERE task = old.key
), s AS (DELETE FROM {schema}.supplements USING old WHERE task = old.key
), h AS (DELETE FROM {schema}.heads AS h USING old WHERE h.id = old.id
), t AS (DELETE FROM {schema}.tasks AS t USING old WHERE t.key = old.key RETURNING t.key
) SELECT count(*) FROM t
"""

_ABANDONED: Final = """
    WITH RECURSIVE holders AS (
        SELECT min(holder) AS name FROM {{schema}}.tasks WHERE holder IS NOT NULL
        UNION ALL
        SELECT (SELECT min(holder) FROM {{schema}}.tasks WHERE holder > holders.name)
        FROM holders WHERE holders.name IS NOT NULL
    ) SELECT t.* FROM holders CROSS JOIN LATERAL (
        SELECT * FROM {{schema}}.tasks AS t
        WHERE t.holder = holders.name AND t.status = 'running' AND {where}
        ORDER BY t.holder, t.id LIMIT %s
    ) AS t WHERE holders.name IS NOT NULL AND NOT EXISTS (
        SELECT FROM {{schema}}.hosts
        WHERE hosts.name = holders.name AND NOT gone AND until > clock_timestamp()
    ) ORDER BY t.id LIMIT %s
"""
"""Goes from one holder to the next in the index, so that Tasks at work are not looked at: the limit
inside keeps the planner from taking all Tasks first and their holders after."""
_PAGE: Final = "SELECT * FROM {{schema}}.tasks AS t WHERE {where} ORDER BY t.id LIMIT %s"


def find(
    *,
    status: TaskStatus | None,
    kinds: Collection[str] | None,
    owner: str | None,
    claimable: bool,
    parent: str | None,
    due: datetime | None,
    after: str | None,
    limit: int,
) -> tuple[str, list[object]]:
    """The statement for a page of records, and its values."""
    asked: Mapping[str, object] = {
        "t.status = %s": None if status is None else status.value,
        "t.kind = ANY (%s)": None if kinds is None else list(kinds),
        "t.holder = %s": owner,
        "t.parent = %s": parent,
        "t.status = 'paused' AND t.due <= %s": due,
        "t.id > %s": after,
    }
    asked = {text: value for text, value in asked.items() if value is not None}
    where = " AND ".join(asked) or "true"
    # First the page, by whatever index serves it, and then what belongs to its rows.
    page = (_ABANDONED if claimable else _PAGE).format(where=where)
    text = f"""SELECT {COLUMNS} FROM ({page}) AS t
        JOIN {{schema}}.heads AS h ON h.id = t.id ORDER BY t.id"""
    limits = [max(limit, 0)] * (2 if claimable else 1)
    return text, [*asked.values(), *limits]


def beyond(after: EventId | None) -> EventId:
    """The place behind which events are asked for, within what the database can compare."""
    if after is None:
        return (0, -1)
    version, place = (max(-_BIG, min(number, _BIG)) for number in after)
    return version, place


_BIG: Final = (1 << 63) - 1
