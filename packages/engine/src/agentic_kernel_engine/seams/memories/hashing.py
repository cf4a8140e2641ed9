"""HashingEmbedder: an embedder without a model, for which texts with common pieces are close."""

from __future__ import annotations

import unicodedata
import zlib
from collections.abc import Sequence
from typing import Final

from agentic_kernel import InvalidValue

from ...edges import came
from .vectors import unit

_PIECE: Final = 3
"""Characters in a piece."""


class HashingEmbedder:
    """Counts the three-character pieces of a text in hash buckets, one bucket for each dimension.

    The same text gives the same vector, of length 1, in every process and on every machine. It
    knows spelling but not meaning: forms of one word are close, synonyms are not.

    Args:
        dimensions: Number of dimensions; with fewer, unlike texts look more alike.

    Raises:
        InvalidValue: It is not a whole number from 1 to 4,096.
    """

    def __init__(self, dimensions: int = 256) -> None:
        if type(dimensions) is not int or not 1 <= dimensions <= 4_096:
            raise InvalidValue("dimensions", f"is {came(dimensions)}; use a number from 1 to 4,096")
        self._dimensions = dimensions

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        words = unicodedata.normalize("NFKC", text).casefold().split()
        vector = [0.0] * self._dimensions
        for word in words:
            framed = f" {word} "
            for start in range(len(framed) - _PIECE + 1):
                hashed = zlib.crc32(framed[start : start + _PIECE].encode("utf-8", "replace"))
                # A sign from the hash lets collisions cancel out instead of adding up.
                sign = 1.0 if hashed >> 31 else -1.0
                vector[hashed % self._dimensions] += sign
        return unit(vector)
