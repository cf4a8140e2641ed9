"""InMemoryMemory: a memory in the process; its items are lost with the process if not exported."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from agentic_kernel import InvalidValue

from ..memory import Hit, Item, Query, Remembered, Scope, check_id, check_scope
from .item_ledger import ItemLedger, read_export

_WORD: Final = re.compile(r"\w+")


class InMemoryMemory:
    """Finds items by the words that they share with the query.

    The score is the share of the query's words that the item has; letter case and Unicode form do
    not count. With the default minimal score, a query also finds items that share no word, after
    all that do, up to its limit.
    """

    def __init__(self) -> None:
        self._ledger: ItemLedger[frozenset[str]] = ItemLedger()

    async def propose(self, item: Item) -> bool:
        return not self._ledger.knows(item) and self._ledger.add(item, _words(item.text))

    async def supersede(self, predecessor: str, item: Item) -> bool:
        check_id(predecessor)
        if self._ledger.knows(item):
            return False
        return self._ledger.add(item, _words(item.text), predecessor)

    async def tombstone(self, scope: Scope, id: str, reason: str) -> bool:
        return self._ledger.tombstone(scope, id, reason)

    async def recall(self, query: Query) -> Sequence[Hit]:
        check_query(query)
        asked = _words(query.text)
        if not asked:
            return newest(self._ledger, query)
        scored = [
            (len(asked & words) / len(asked), item)
            for item, words in self._ledger.live(query.scope)
        ]
        return [
            Hit(item, score, f"has {score * len(asked):.0f} of {len(asked)} words")
            for score, item in best(scored, query)
        ]

    async def explain(self, scope: Scope, id: str) -> Remembered:
        return self._ledger.explain(scope, id)

    async def export(self, scope: Scope) -> dict[str, Any]:
        return self._ledger.export(scope)

    async def restore(self, scope: Scope, exported: Mapping[str, Any]) -> int:
        check_scope(scope)
        entries = read_export(exported)
        marks = {entry.id: _words(entry.text) for entry in entries if entry.live}
        return self._ledger.restore(scope, entries, marks)


def check_query(query: object) -> None:
    """Refuse a value that is not a `Query`.

    Raises:
        InvalidValue: It is not a `Query`.
    """
    if not isinstance(query, Query):
        raise InvalidValue("query", f"must be a Query, not {type(query).__name__}")


def newest(ledger: ItemLedger[Any], query: Query) -> list[Hit]:
    """The hits of a query without a text: the newest items."""
    return [
        Hit(item, 1.0, "among the newest")
        for item, _ in itertools.islice(ledger.live(query.scope), query.limit)
    ]


def best(scored: list[tuple[float, Item]], query: Query) -> list[tuple[float, Item]]:
    """The hits of a query, from scored items that come newest first."""
    fits = [each for each in scored if each[0] >= query.min_score]
    fits.sort(key=itemgetter(0), reverse=True)  # Stable: of equal scores, the newer stays first.
    return fits[: query.limit]


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))
