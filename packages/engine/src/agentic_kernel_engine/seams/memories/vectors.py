"""Vectors: what an embedder makes of texts, found fit to be kept and compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from agentic_kernel import KernelError

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
    """The vectors of texts, those of queries kept for a while.

    Args:
        embedder: Makes them.
        form: What is kept of one: of length 1 by default.
    """

    def __init__(self, embedder: Embedder, form: Callable[[Any], list[float]] = unit) -> None:
        self._embedder = embedder
        self._form = form
        self._asked: dict[str, list[float]] = {}

    async def of(self, texts: Sequence[str]) -> list[list[float]]:
        """One for each text, all of one length.

        Raises:
            BadVector: What the embedder gave is none.
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


def check_lengths(lengths: set[int]) -> None:
    """Refuse vectors that cannot be compared.

    Raises:
        BadVector: They are of several lengths.
    """
    if len(lengths) > 1:
        raise BadVector(f"the embedder gave vectors of differing length: {sorted(lengths)}")


def _several(given: Any) -> list[Any]:
    """The vectors that an embedder gave.

    Raises:
        BadVector: They are none.
    """
    try:
        return list(given)
    except TypeError as error:
        raise BadVector(f"the embedder gave a {type(given).__name__} and no vectors") from error
