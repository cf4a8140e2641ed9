"""EmbeddingMemory: finds items by their meaning, as far as an embedder can tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import mul
from typing import Any

from ..memory import Hit, Item, Query, Remembered, Scope, check_scope
from .in_memory import best, check_query, newest
from .item_ledger import ItemLedger, read_export
from .vectors import Embedder, Vectors, check_lengths


class EmbeddingMemory:
    """Finds items by the cosine similarity of their vector and the query's.

    A text is embedded when it is proposed. If that fails, nothing is stored, and the embedder's own
    error is raised. A query compares every live item of a scope, in plain Python: it is meant for
    thousands of items, not for millions.

    Args:
        embedder: Makes the vectors; the same one for the life of the memory.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._vectors = Vectors(embedder)
        self._ledger: ItemLedger[list[float]] = ItemLedger()
        self._dimensions: int | None = None

    async def propose(self, item: Item) -> bool:
        if self._ledger.knows(item):
            return False
        (vector,) = await self._of([item.text])
        return self._ledger.add(item, vector)

    async def supersede(self, predecessor: str, item: Item) -> bool:
        if self._ledger.knows(item):
            return False
        self._ledger.current(item.scope, predecessor)
        (vector,) = await self._of([item.text])
        return self._ledger.add(item, vector, predecessor)

    async def tombstone(self, scope: Scope, id: str, reason: str) -> bool:
        return self._ledger.tombstone(scope, id, reason)

    async def recall(self, query: Query) -> Sequence[Hit]:
        check_query(query)
        if not query.text:
            return newest(self._ledger, query)
        asked = await self._vectors.asked(query.text)
        self._compare([asked])
        scored = [(_cosine(asked, vector), item) for item, vector in self._ledger.live(query.scope)]
        return [Hit(item, score, f"cosine {score:.3f}") for score, item in best(scored, query)]

    async def explain(self, scope: Scope, id: str) -> Remembered:
        return self._ledger.explain(scope, id)

    async def export(self, scope: Scope) -> dict[str, Any]:
        return self._ledger.export(scope)

    async def restore(self, scope: Scope, exported: Mapping[str, Any]) -> int:
        check_scope(scope)
        entries = read_export(exported)
        live = [entry for entry in entries if entry.live]
        vectors = await self._of([entry.text for entry in live])
        marks = {entry.id: vector for entry, vector in zip(live, vectors, strict=True)}
        return self._ledger.restore(scope, entries, marks)

    async def _of(self, texts: Sequence[str]) -> list[list[float]]:
        made = await self._vectors.of(texts)
        self._compare(made)
        return made

    def _compare(self, vectors: Sequence[list[float]]) -> None:
        """Refuse vectors of another length than the first ones of this memory."""
        lengths = {len(vector) for vector in vectors}
        check_lengths(lengths if self._dimensions is None else lengths | {self._dimensions})
        if lengths:
            (self._dimensions,) = lengths


def _cosine(one: list[float], other: list[float]) -> float:
    product: float = sum(map(mul, one, other))
    return max(-1.0, min(1.0, product))
