"""Queries: the statements that read; each reads from one snapshot, because it is one statement."""

from __future__ import annotations

from typing import Final

import msgspec

from agentic_kernel import InvalidValue, TaskStatus
from agentic_kernel_engine.cursor import Cursor
from agentic_kernel_engine.moments import EARLIEST, LATEST
from agentic_kernel_engine.search import Search

from .facets import AGENT, KIND, REALM, facet
from .rows import COLUMNS
from .session import Row

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
"""A Task without such events gives one row of nulls, an unknown Task gives no row."""

JOIN: Final = """
INSERT INTO {schema}.hosts (name, until, form) VALUES (%s, clock_timestamp() + %s::interval, 2)
ON CONFLICT DO NOTHING
"""
LEAVE: Final = """
INSERT INTO {schema}.hosts (name, until, form, gone) VALUES (%s, clock_timestamp(), 2, true)
ON CONFLICT (name) DO UPDATE SET gone = true
"""
"""The host is gone for good, even if it never joined."""
RENEW: Final = """
UPDATE {schema}.hosts SET until = clock_timestamp() + %s::interval
WHERE name = ANY (%s) AND NOT gone AND until > clock_timestamp() RETURNING name
"""
ALIVE: Final = """
SELECT NOT gone AND until > clock_timestamp(), gone FROM {schema}.hosts WHERE name = %s
"""
LAPSE: Final = """
WITH buried AS (
    UPDATE {schema}.hosts SET gone = true
    WHERE name = %s AND NOT gone AND until <= clock_timestamp() RETURNING name
) SELECT count(*) FROM buried
"""
"""Declare a host dead if its lease ran out. It waits for a renewal under way, which counts."""

ENDED: Final = f"""
SELECT {COLUMNS}, t.key FROM (
    SELECT * FROM {{schema}}.tasks WHERE ended < %s AND key <> ALL (%s) ORDER BY ended LIMIT %s
) AS t JOIN {{schema}}.heads AS h ON h.id = t.id
"""
"""Tasks that ended before a moment, oldest first, except the given keys."""
PRUNE: Final = "SELECT {schema}.prune_2(%s)"
BURY: Final = "SELECT {schema}.bury_2(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
LAST: Final = """
SELECT clock_timestamp(), coalesce(max(e.version), 0)
FROM {schema}.heads AS h JOIN {schema}.events AS e ON e.task = h.key WHERE h.id = %s
"""
"""The current time, and the last version of a Task that has events."""

_HOLDERS: Final = """
    WITH RECURSIVE holders AS (
        SELECT min(holder) AS name FROM {{schema}}.tasks WHERE holder IS NOT NULL
        UNION ALL
        SELECT (SELECT min(holder) FROM {{schema}}.tasks WHERE holder > holders.name)
        FROM holders WHERE holders.name IS NOT NULL
    ) SELECT t.* FROM holders CROSS JOIN LATERAL (
        SELECT * FROM {{schema}}.tasks AS t
        WHERE t.holder = holders.name AND t.status = 'running' AND {where}
        {inner} LIMIT %(limit)s
    ) AS t WHERE holders.name IS NOT NULL AND NOT EXISTS (
        SELECT FROM {{schema}}.hosts
        WHERE hosts.name = holders.name AND NOT gone AND until > clock_timestamp()
    ) ORDER BY {order} LIMIT %(limit)s
"""
"""Goes from one holder to the next in the index, so that it does not read the Tasks of living
holders. The inner limit keeps the query planner from reading all Tasks before their holders."""
_FACETS: Final = """
    SELECT t.* FROM unnest(%(facets)s::bigint[]) AS one (facet) CROSS JOIN LATERAL (
        SELECT t.* FROM {{schema}}.facets AS f CROSS JOIN LATERAL (
            SELECT * FROM {{schema}}.tasks AS t WHERE t.id = f.id OFFSET 0
        ) AS t WHERE f.facet = one.facet AND {where} ORDER BY {inner} LIMIT %(limit)s
    ) AS t ORDER BY {order} LIMIT %(limit)s
"""
"""One page of each facet, in the order of its index, then the first of all these rows. `OFFSET 0`
keeps the query planner from reading all Tasks and testing each one for the facet."""
_STATUSES: Final = """
    SELECT t.* FROM unnest(%(statuses)s::text[]) AS one (status) CROSS JOIN LATERAL (
        SELECT * FROM {{schema}}.tasks AS t
        WHERE t.status = one.status AND {where} ORDER BY {order} LIMIT %(limit)s
    ) AS t ORDER BY {order} LIMIT %(limit)s
"""
"""One page of each status, then the first of all these rows, because no index has all by age."""
_PAGE: Final = "SELECT * FROM {{schema}}.tasks AS t WHERE {where} ORDER BY {order} LIMIT %(limit)s"
_BY_ID: Final = "{t}.id"
_NEWEST: Final = "{t}.created DESC, {t}.id DESC"
_LIVE: Final = (TaskStatus.RUNNING, TaskStatus.PAUSED)
"""The statuses with few Tasks, even in a large store."""


def find(search: Search) -> tuple[str, dict[str, object]]:
    """The statement for a page of rows, and its values.

    A row is that of `from_row`, followed by ``created`` if the newest come first. With one filter,
    the cost of a page grows with the page's rows only, in either order. With several filters, the
    statement reads at most the rows of the first of these kinds that it has: a holder or a due
    time, a parent, the status running or paused, labels, an Agent, realms, kinds.
    """
    values: dict[str, object] = {"limit": search.limit}
    facets = _driving(search)
    t = "f" if facets else "t"
    where = " AND ".join([*_filters(search, values), *_places(search, values, t)]) or "true"
    order = (_NEWEST if search.newest else _BY_ID).format(t="t")
    ranged = search.newest or search.created_from or search.created_before
    inner = (_NEWEST if search.newest else _BY_ID).format(t=t)
    if search.claimable:
        page, inner = _HOLDERS, "OFFSET 0" if search.newest else "ORDER BY t.holder, t.id"
        if search.newest:
            page = page.replace("{inner} LIMIT %(limit)s", "{inner}")
    elif facets:
        page, values["facets"] = _FACETS, facets
    elif ranged and search.parent is None and search.owner is None and search.due is None:
        page = _STATUSES
        chosen = [status for status in TaskStatus if search.status in (None, status)]
        values["statuses"] = [status.value for status in chosen]
    else:
        page = _PAGE
    # The inner query finds the page by an index, the outer one joins the heads of its rows.
    page = page.format(where=where, order=order, inner=inner)
    columns = f"{COLUMNS}, t.created" if search.newest else COLUMNS
    text = f"""SELECT {columns} FROM ({page}) AS t
        JOIN {{schema}}.heads AS h ON h.id = t.id ORDER BY {order}"""
    return text, values


def following(search: Search, row: Row, limit: int) -> Search:
    """The same search, continued after a row of its page, with a page of this size."""
    if search.newest:
        return msgspec.structs.replace(search, older_than=(row[-1], row[0]), limit=limit)
    return msgspec.structs.replace(search, after=row[0], limit=limit)


def asks_facets(search: Search) -> bool:
    """True if a search needs the columns ``created`` or ``facets``, which version 0.1 left null."""
    return bool(
        search.newest or search.agent is not None or search.labels or search.realms is not None
        or search.created_from or search.created_before or _driving(search)
    )  # fmt: skip


def impossible(search: Search) -> bool:
    """True if no Task can match: limit 0, an empty list of kinds or realms, or unstorable text."""
    texts = [text for text in (search.parent, search.owner) if text is not None]
    several = [texts for texts in (search.kinds, search.realms) if texts is not None]
    return not (search.limit and all(several) and all(map(storable, texts)))


def storable(text: object) -> bool:
    """True if a row can have this text: it is not empty, and the database can store it."""
    if not isinstance(text, str) or "\0" in text:
        return False
    try:
        return bool(text.encode())
    except UnicodeEncodeError:
        return False


def _driving(search: Search) -> list[int]:
    """The facets whose index serves a search; empty if an index of the Tasks serves it."""
    if (
        search.claimable or search.owner is not None or search.due or search.parent is not None
        or search.status in _LIVE
    ):  # fmt: skip
        return []
    if search.labels:
        return [facet(*min(search.labels.items()))]
    if search.agent is not None:
        return [facet(AGENT, search.agent)]
    if search.realms and "" not in search.realms:
        return [facet(REALM, realm) for realm in search.realms]
    return [facet(KIND, kind) for kind in search.kinds or ()]


def _filters(search: Search, values: dict[str, object]) -> list[str]:
    """The SQL conditions on a Task, independent of its place in the page; adds their values."""
    found = []

    def asked(text: str, name: str, value: object) -> None:
        found.append(text.format(f"%({name})s"))
        values[name] = value

    if search.status is not None:
        asked("t.status = {}", "status", search.status.value)
    if search.kinds is not None:
        asked("t.kind = ANY ({})", "kinds", list(filter(storable, search.kinds)))
    if search.owner is not None:
        asked("t.holder = {}", "owner", search.owner)
    if search.parent is not None:
        text = "hashtextextended(t.parent, 0) = hashtextextended({0}, 0) AND t.parent = {0}"
        asked(text, "parent", search.parent)
    if search.due is not None:
        asked("t.status = 'paused' AND t.due <= {}", "due", search.due)
    every = [facet(*label) for label in search.labels.items()]
    if search.agent is not None:
        every.append(facet(AGENT, search.agent))
    if every:
        asked("t.facets @> {}::bigint[]", "every", every)
    if search.realms is not None:
        realms = [facet(REALM, realm) for realm in search.realms]
        asked("t.facets && {}::bigint[]", "realms", realms)
    return found


def _places(search: Search, values: dict[str, object], t: str) -> list[str]:
    """The SQL conditions on a Task's place in the page; adds their values.

    Args:
        t: The table whose order the page has.
    """
    found = []

    def asked(text: str, name: str, value: object) -> None:
        found.append(text.format(f"%({name})s"))
        values[name] = value

    if search.newest or search.created_from:
        # Only Tasks with ``created`` set match, and only with a time that `datetime` can hold.
        asked(f"{t}.created >= {{}}", "since", search.created_from or EARLIEST)
        asked(f"{t}.created <= {{}}", "latest", LATEST)
    if search.created_before:
        asked(f"{t}.created < {{}}", "until", search.created_before)
        if not search.created_from:
            asked(f"{t}.created >= {{}}", "earliest", EARLIEST)
    if search.after is not None:
        bound = _bound(search.after)
        asked(f"{t}.id {'>' if bound == search.after else '>='} {{}}", "after", bound)
    if search.older_than is not None:
        values["moment"], values["id"] = search.older_than[0], _bound(search.older_than[1])
        found.append(f"({t}.created, {t}.id) < (%(moment)s, %(id)s)")
    return found


def _bound(text: str) -> str:
    """A text that the database can store, with the same ids before it as before ``text``."""
    for place, character in enumerate(text):
        if character == "\0":
            return f"{text[:place]}\1"
        if "\ud800" <= character <= "\udfff":
            return f"{text[:place]}\ue000"
    return text


def beyond(after: Cursor | None) -> Cursor:
    """The event id after which a page begins, within the range that the database can compare.

    Raises:
        InvalidValue: It is not the id of an event.
    """
    if after is None:
        return (0, -1)
    if (
        not isinstance(after, tuple)
        or len(after) != 2
        or not all(isinstance(number, int) for number in after)
    ):
        raise InvalidValue("after", "must be the id of an event, a tuple of two whole numbers")
    version, place = (max(-_BIG, min(number, _BIG)) for number in after)
    return version, place


_BIG: Final = (1 << 63) - 1
