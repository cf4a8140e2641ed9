"""A memory that finds items by what they mean, as far as an embedder can tell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import mul
from typing import Any, Final, Protocol

from agentic_kernel import KernelError

from ..memory import Hit, Item, Query, Remembered, Scope, check_scope
from .in_memory import best, check_query, newest
from .ledger import Ledger, read_export

_BATCH: Final = 64
"""How many texts an embedder is given at once."""
_ASKED: Final = 128
"""Vectors of queries that are kept: a run asks the same at most of its steps."""


class Embedder(Protocol):
    """Turns texts into vectors that are close when the texts are about the same."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text, in their order, all of one length and of finite numbers."""
        ...


class BadVector(KernelError, ValueError):
    """An embedder gave what is no vector, or none that fits the others; nothing was stored.

    Attributes:
        reason: What is wrong with it.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return f"{self.reason}; use one embedder, and a new memory for another one"


class EmbeddingMemory:
    """Finds items by the cosine of the angle between their vector and the query's.

    A text is embedded when it is proposed; where that fails, nothing is stored and the embedder's
    own error is raised. Every live item of a scope is compared, in plain Python: meant for
    thousands of items, not for millions.

    Args:
        embedder: Makes the vectors; one for the life of the memory.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._ledger: Ledger[list[float]] = Ledger()
        self._asked: dict[str, list[float]] = {}
        self._dimensions: int | None = None

    async def propose(self, item: Item) -> bool:
        if self._ledger.knows(item):
            return False
        (vector,) = await self._vectors([item.text])
        return self._ledger.add(item, vector)

    async def supersede(self, predecessor: str, item: Item) -> bool:
        if self._ledger.knows(item):
            return False
        self._ledger.current(item.scope, predecessor)
        (vector,) = await self._vectors([item.text])
        return self._ledger.add(item, vector, predecessor)

    async def tombstone(self, scope: Scope, id: str, reason: str) -> bool:
        return self._ledger.tombstone(scope, id, reason)

    async def recall(self, query: Query) -> Sequence[Hit]:
        check_query(query)
        if not query.text:
            return newest(self._ledger, query)
        asked = await self._asked_vector(query.text)
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
        vectors = await self._vectors([entry.text for entry in live])
        marks = {entry.id: vector for entry, vector in zip(live, vectors, strict=True)}
        return self._ledger.restore(scope, entries, marks)

    async def _asked_vector(self, text: str) -> list[float]:
        vector = self._asked.pop(text, None)
        if vector is None:
            (vector,) = await self._vectors([text])
            if len(self._asked) >= _ASKED:
                del self._asked[next(iter(self._asked))]
        self._asked[text] = vector
        return vector

    async def _vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """Vectors of length 1, or 0 where a text has no direction at all.

        Raises:
            BadVector: What the embedder gave is none.
        """
        made: list[list[float]] = []
        for start in range(0, len(texts), _BATCH):
            some = texts[start : start + _BATCH]
            vectors = [unit(vector) for vector in several(await self._embedder.embed(some))]
            if len(vectors) != len(some):
                raise BadVector(f"the embedder gave {len(vectors)} vectors for {len(some)} texts")
            made += vectors
        lengths = {len(vector) for vector in made}
        if self._dimensions is not None:
            lengths.add(self._dimensions)
        if len(lengths) > 1:
            raise BadVector(f"the embedder gave vectors of differing length: {sorted(lengths)}")
        if lengths:
            (self._dimensions,) = lengths
        return made


def several(given: Any) -> list[Any]:
    """The vectors that an embedder gave.

    Raises:
        BadVector: They are none.
    """
    try:
        return list(given)
    except TypeError as error:
        raise BadVector(f"the embedder gave a {type(given).__name__} and no vectors") from error


def unit(vector: Any) -> list[float]:
    """A vector of length 1, or of zeros.

    Raises:
        BadVector: It is empty, or not made of finite numbers.
    """
    try:
        numbers = [float(each) for each in vector]
    except (TypeError, ValueError, OverflowError) as error:
        raise BadVector("the embedder gave a vector that is not made of numbers") from error
    length = math.hypot(*numbers)
    if not numbers or not math.isfinite(length):
        raise BadVector("the embedder gave a vector that is empty or not finite")
    return [each / length for each in numbers] if length else numbers


def _cosine(one: list[float], other: list[float]) -> float:
    product: float = sum(map(mul, one, other))
    return max(-1.0, min(1.0, product))
