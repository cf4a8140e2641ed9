"""Vectors: an embedder's vectors of texts, checked so that they can be kept and compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from agentic_kernel import KernelError

_BATCH: Final = 64
"""The most texts that an embedder is given at once."""
_ASKED: Final = 128
"""The most query vectors that are cached, because a run asks the same at most of its steps."""


class Embedder(Protocol):
    """Turns texts into vectors that are close if the texts are about the same."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text, in order, all of the same length and of finite numbers."""
        ...


class BadVector(KernelError, ValueError):
    """An embedder gave no valid vector, or one that does not fit the others; nothing was stored.

    Attributes:
        reason: The fault of the vector.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return f"{self.reason}; use one embedder, and a new memory for another embedder"


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


class Vectors:
    """Makes the vectors of texts, and caches those of queries.

    Args:
        embedder: Makes the vectors.
        form: Returns the form of a vector that is kept: by default, of length 1.
    """

    def __init__(self, embedder: Embedder, form: Callable[[Any], list[float]] = unit) -> None:
        self._embedder = embedder
        self._form = form
        self._asked: dict[str, list[float]] = {}

    async def of(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text, all of the same length.

        Raises:
            BadVector: The embedder gave no valid vectors.
        """
        made: list[list[float]] = []
        for start in range(0, len(texts), _BATCH):
            some = texts[start : start + _BATCH]
            vectors = [self._form(vector) for vector in _several(await self._embedder.embed(some))]
            if len(vectors) != len(some):
                raise BadVector(f"the embedder gave {len(vectors)} vectors for {len(some)} texts")
            made += vectors
        check_lengths({len(vector) for vector in made})
        return made

    async def asked(self, text: str) -> list[float]:
        """The vector of a query.

        Raises:
            BadVector: The embedder gave no valid vector.
        """
        vector = self._asked.pop(text, None)
        if vector is None:
            (vector,) = await self.of([text])
            if len(self._asked) >= _ASKED:
                del self._asked[next(iter(self._asked))]
        self._asked[text] = vector
        return vector


def check_lengths(lengths: set[int]) -> None:
    """Refuse vectors that cannot be compared.

    Raises:
        BadVector: They have different lengths.
    """
    if len(lengths) > 1:
        raise BadVector(f"the embedder gave vectors of differing length: {sorted(lengths)}")


def _several(given: Any) -> list[Any]:
    """The vectors that an embedder gave.

    Raises:
        BadVector: It did not give a collection of vectors.
    """
    try:
        return list(given)
    except TypeError as error:
        raise BadVector(f"the embedder gave a {type(given).__name__}, not vectors") from error
