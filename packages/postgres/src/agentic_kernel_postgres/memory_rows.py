"""Rows of a memory: an item as the database's functions take it and as its queries return it."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from agentic_kernel_engine.seams import Hit, Item, Origin, Remembered, Scope

from .session import Row

_WORD: Final = re.compile(r"\w+")
_LONG: Final = 500
"""Characters of a word that count; the database takes at most 2,046 bytes of a word."""


def digest_of(scope: Scope) -> bytes:
    """The digest by which a scope is found; its parts together are too long for an index."""
    parts = [scope.tenant, scope.principal, scope.session]
    return hashlib.sha256(msgspec.json.encode(parts)).digest()


def words_of(text: str) -> list[str]:
    """The words of a text, normalised here, so that the database's locale has no influence."""
    found = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return sorted({word[:_LONG] for word in found})


def proposed(item: Item, predecessor: str = "") -> Remembered:
    """The entry of a new item."""
    return Remembered(item.id, item.text, item.key, item.origin, predecessor)


def row_of(place: int, entry: Remembered, vector: list[float] | None) -> dict[str, object]:
    """An item as a JSON object for the database's function."""
    return {
        "n": place,
        "id": entry.id,
        "text": entry.text,
        "key": entry.key,
        "task": entry.origin.task,
        "step": entry.origin.step,
        "predecessor": entry.predecessor,
        "successor": entry.successor,
        "forgotten": entry.forgotten,
        "words": words_of(entry.text) if entry.live else None,
        "vector": vector,
    }


def known_from(row: Row) -> Remembered:
    """The entry of an item, from its row."""
    id, text, key, task, step, predecessor, successor, forgotten = row
    return Remembered(id, text, key, Origin(task, step), predecessor, successor, forgotten)


def newest_from(scope: Scope, row: Row) -> Hit:
    """A hit of a query without words."""
    return Hit(_item(scope, row), 1.0, "among the newest")


def hit_from(scope: Scope, row: Row, asked: int) -> Hit:
    """A hit with its reasons, from a row; ``asked`` is the number of the query's words."""
    *live, score, share, cosine = row
    reasons = [] if cosine is None else [f"cosine {cosine:.3f}"]
    if share is not None:
        reasons.append(f"has {share * asked:.0f} of {asked} words")
    return Hit(_item(scope, live), score, ", ".join(reasons) or "has no vector")


def _item(scope: Scope, live: Sequence[Any]) -> Item:
    id, text, key, task, step = live
    return Item(id, scope, text, key, Origin(task, step))
