"""Queries of a memory; each reads from one snapshot, because it is one statement."""

from __future__ import annotations

from typing import Final

_SCOPE: Final = "(SELECT key FROM {schema}.scopes WHERE digest = %s)"
_KNOWN: Final = "id, text, key, task, step, predecessor, successor, forgotten"
_LIVE: Final = "id, text, key, task, step"

KEEP: Final = "SELECT * FROM {schema}.remember_1(%s, %s, %s, %s, %s, %s::json, %s, %s)"
FORGET: Final = "SELECT {schema}.forget_1(%s, %s, %s, %s)"
LOOK: Final = f"SELECT {_KNOWN} FROM {{schema}}.items WHERE scope = {_SCOPE} AND id = ANY (%s)"
EXPORT: Final = f"SELECT {_KNOWN} FROM {{schema}}.items WHERE scope = {_SCOPE} ORDER BY place"
NEWEST: Final = f"""
SELECT {_LIVE} FROM {{schema}}.items
WHERE scope = {_SCOPE} AND live ORDER BY place DESC LIMIT %s
"""

WORDS: Final = 0.25
"""The weight of the share of words if an item has a vector too; the cosine has the rest."""

# OFFSET 0 keeps the planner from merging the inner query with the outer one. Merged, it would
# compare each row as often as the outer query names its score.
_BEST: Final = f"""
WITH asked AS MATERIALIZED (SELECT array_to_tsvector(%s::text[]) AS words, <asked> AS vector)<near>
SELECT {_LIVE}, score, share, cosine FROM (
    SELECT *, <score> AS score FROM (
        SELECT i.*, <cosine> AS cosine,
            1 - length(ts_delete(asked.words, tsvector_to_array(i.words)))
                / nullif(length(asked.words), 0)::float8 AS share
        FROM asked, <items> OFFSET 0
    ) AS compared
) AS scored WHERE score >= %s ORDER BY score DESC, place DESC LIMIT %s
"""

BY_WORDS: Final = (
    _BEST.replace("<near>", "")
    .replace("<items>", f"{{schema}}.items AS i WHERE i.scope = {_SCOPE} AND i.live")
    .replace("<asked>", "NULL")
    .replace("<cosine>", "NULL")
    .replace("<score>", "share")
)

# Of the two halves, the planner skips the one that the subquery excludes.
_NEAR_ITEMS: Final = f"""(
    SELECT each.* FROM {{schema}}.items AS each
    WHERE each.scope = {_SCOPE} AND each.live AND (SELECT places FROM near) IS NULL
    UNION ALL
    SELECT each.* FROM unnest((SELECT places FROM near)) AS found (place)
    JOIN {{schema}}.items AS each ON each.scope = {_SCOPE} AND each.place = found.place
    WHERE each.live
) AS i"""


def by_meaning(extension: str) -> str:
    """The statement that finds by vectors and words; without a vector, only an item's words count.

    Args:
        extension: The schema of pgvector, quoted if necessary.
    """
    name = extension.replace("{", "{{").replace("}", "}}").replace("%", "%%")
    score = f"coalesce({1 - WORDS} * coalesce(cosine, 0) + {WORDS} * share, cosine, 0)"
    near = """, near AS MATERIALIZED (
    SELECT {schema}.near_1(%s, %s, %s::text[], %s::real[], %s) AS places)"""
    return (
        _BEST.replace("<near>", near)
        .replace("<items>", _NEAR_ITEMS)
        .replace("<asked>", f"%s::real[]::{name}.vector")
        # For vectors of length 1 the inner product is the cosine; for vectors of zeros it is 0.
        .replace("<cosine>", f"-(i.vector::{name}.vector OPERATOR({name}.<#>) asked.vector)")
        .replace("<score>", f"least(1, greatest(-1, {score}))")
    )
