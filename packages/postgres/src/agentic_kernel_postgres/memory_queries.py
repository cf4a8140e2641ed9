"""What a memory asks the database; each is one statement, and so of one moment."""

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
"""What the share of words counts where there is a meaning as well, which counts the rest."""

# The inner query is kept from being merged with the outer one, or each row would be compared as
# often as its score is named.
_BEST: Final = f"""
WITH asked AS MATERIALIZED (SELECT array_to_tsvector(%s::text[]) AS words, <asked> AS vector)
SELECT {_LIVE}, score, share, cosine FROM (
    SELECT *, <score> AS score FROM (
        SELECT i.*, <cosine> AS cosine,
            1 - length(ts_delete(asked.words, tsvector_to_array(i.words)))
                / nullif(length(asked.words), 0)::float8 AS share
        FROM asked, {{schema}}.items AS i WHERE i.scope = {_SCOPE} AND i.live OFFSET 0
    ) AS compared
) AS scored WHERE score >= %s ORDER BY score DESC, place DESC LIMIT %s
"""

BY_WORDS: Final = (
    _BEST.replace("<asked>", "NULL").replace("<cosine>", "NULL").replace("<score>", "share")
)


def by_meaning(extension: str) -> str:
    """What finds by vectors and words; an item without a vector has no more than its words.

    Args:
        extension: The schema that pgvector is in, quoted if need be.
    """
    name = extension.replace("{", "{{").replace("}", "}}").replace("%", "%%")
    score = f"coalesce({1 - WORDS} * coalesce(cosine, 0) + {WORDS} * share, cosine, 0)"
    return (
        _BEST.replace("<asked>", f"%s::real[]::{name}.vector")
        # Of vectors of length 1 it is the cosine, and of those without a direction 0.
        .replace("<cosine>", f"-(i.vector::{name}.vector OPERATOR({name}.<#>) asked.vector)")
        .replace("<score>", f"least(1, greatest(-1, {score}))")
    )
