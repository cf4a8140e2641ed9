"""Vectors: what an embedder makes of texts, found fit to be kept and compared."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final

from agentic_kernel_engine.seams.memories import BadVector, Embedder
from agentic_kernel_engine.seams.memories.embedding import several, unit

_BATCH: Final = 64
"""How many texts an embedder is given at once."""
_ASKED: Final = 128
"""Vectors of queries that are kept: a run asks the same at most of its steps."""
_MOST: Final = 16_000
"""How many numbers a vector of pgvector can have."""


class Vectors:
    """Vectors of length 1, in the precision of the database; of length 0 for what has no direction.

    Args:
        embedder: Makes them.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._asked: dict[str, list[float]] = {}

    async def of(self, texts: Sequence[str]) -> list[list[float]]:
        """One for each text, all of one length.

        Raises:
            BadVector: What the embedder gave is none.
        """
        made: list[list[float]] = []
        for start in range(0, len(texts), _BATCH):
            some = texts[start : start + _BATCH]
            vectors = [_stored(vector) for vector in several(await self._embedder.embed(some))]
            if len(vectors) != len(some):
                raise BadVector(f"the embedder gave {len(vectors)} vectors for {len(some)} texts")
            made += vectors
        lengths = sorted({len(vector) for vector in made})
        if len(lengths) > 1:
            raise BadVector(f"the embedder gave vectors of differing length: {lengths}")
        return made

    async def asked(self, text: str) -> list[float]:
        """The one of a query.

        Raises:
            BadVector: What the embedder gave is none.
        """
        vector = self._asked.pop(text, None)
        if vector is None:
            (vector,) = await self.of([text])
            if len(self._asked) >= _ASKED:
                del self._asked[next(iter(self._asked))]
        self._asked[text] = vector
        return vector


def _stored(vector: Any) -> list[float]:
    """A vector of length 1, as the database keeps it."""
    numbers = unit(vector)
    if len(numbers) > _MOST:
        raise BadVector(f"the embedder gave {len(numbers):,} numbers for a text; {_MOST:,} fit")
    # The database refuses a number that is too small for its precision, and does not make it 0.
    return array("f", numbers).tolist()
