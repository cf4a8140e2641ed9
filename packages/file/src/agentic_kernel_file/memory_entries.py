"""Entries: the changes of a memory, one JSON text each, and the items that they lead to."""

from __future__ import annotations

import re
import sys
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter, mul
from typing import Final, NamedTuple

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine.seams import (
    Export,
    Hit,
    Item,
    Query,
    Remembered,
    Scope,
    UnknownItem,
)
from agentic_kernel_engine.seams.memories import BadVector, ItemLedger

WORDS: Final = 0.25
"""The weight of the share of words if an item has a vector too; the cosine has the rest."""
_WORD: Final = re.compile(r"\w+")
_MOST: Final = 1 << 30
"""The most bytes of one entry."""
_CHUNK: Final = 1 << 20
"""About the most bytes of one batch of a compacted log."""
_FRAME: Final = 200
"""About the bytes of an entry beside its text and its vector."""


class Mark(NamedTuple):
    """The data by which a live item is found."""

    words: frozenset[str]
    vector: array[float] | None
    """Of length 1, or of zeros; None if the item was proposed without an embedder."""


class Added(msgspec.Struct, frozen=True, omit_defaults=True, tag="add", tag_field="op"):
    """A new item, in the place of another one if that is named."""

    item: Item
    predecessor: str | None = None
    vector: bytes = b""
    """Its vector as `packed` made it; empty if there is no embedder."""


class Forgotten(msgspec.Struct, frozen=True, omit_defaults=True, tag="forget", tag_field="op"):
    """An item that is tombstoned."""

    scope: Scope
    id: str
    reason: str


class Restored(msgspec.Struct, frozen=True, omit_defaults=True, tag="restore", tag_field="op"):
    """The items of an export, and the vectors of those that are live."""

    scope: Scope
    items: list[Remembered]
    vectors: dict[str, bytes] = {}


Entry = Added | Forgotten | Restored
_encoder: Final = msgspec.json.Encoder()
_decoder: Final[msgspec.json.Decoder[Entry]] = msgspec.json.Decoder(Entry)


def encode(entry: Entry) -> bytes:
    """An entry as one line of JSON.

    Raises:
        InvalidValue: It is too large.
    """
    line = _encoder.encode(entry)
    if len(line) > _MOST:
        raise InvalidValue(
            "exported", f"has {len(line):,} bytes with its vectors; use at most {_MOST:,} at once"
        )
    return line


def decode(line: bytes) -> Entry:
    """The entry of a line.

    Raises:
        ValueError: It is not an entry that this version knows.
    """
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, InvalidValue) as error:
        raise ValueError(f"an entry cannot be read: {error}") from error


def packed(vector: Sequence[float]) -> bytes:
    """A vector of length 1 as little-endian numbers of four bytes."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def words_of(text: str) -> frozenset[str]:
    """The words of a text; letter case and Unicode form do not count."""
    return frozenset(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


class Known:
    """All items of a memory, and how they are found.

    The methods that change it return what the caller is told. They change nothing if they raise.
    """

    def __init__(self) -> None:
        self.ledger: ItemLedger[Mark] = ItemLedger()
        self.garbage = 0
        """About the bytes of the entries so far that no item needs."""
        self._scopes: dict[Scope, None] = {}
        self._dimensions: int | None = None

    def __bool__(self) -> bool:
        return bool(self._scopes)

    def apply(self, entry: Entry) -> tuple[bool | int, Entry | None]:
        """Apply an entry.

        Returns:
            The result of the call, and the part of the entry that changed something; None if it
            changed nothing.

        Raises:
            UnknownItem, NotCurrent: As in `Memory.supersede` and `Memory.tombstone`.
            BadVector: A vector has another length than the others.
        """
        if isinstance(entry, Added):
            new = self._add(entry)
            return new, entry if new else None
        if isinstance(entry, Forgotten):
            first = self._forget(entry)
            return first, entry if first else None
        return self._restore(entry)

    def found(self, query: Query, asked: Sequence[float] | None) -> list[Hit]:
        """The hits of a query; ``asked`` is its vector, None without an embedder."""
        words = words_of(query.text)
        live = self.ledger.live(query.scope)
        if not query.text or (asked is None and not words):
            return [Hit(item, 1.0, "among the newest") for item, _ in islice(live, query.limit)]
        if asked is not None:
            self._check_length(len(asked))
        hits: list[tuple[float, Item, str]] = []
        for item, mark in live:
            score, reason = _score(words, asked, mark)
            if score >= query.min_score:
                hits.append((score, item, reason))
        hits.sort(key=itemgetter(0), reverse=True)  # stable: of equal scores, the newer is first
        return [Hit(item, score, reason) for score, item, reason in hits[: query.limit]]

    def snapshot(self) -> Iterator[list[bytes]]:
        """The lines of a log that leads to the same items, in batches of about 1 MiB."""
        lines: list[bytes] = []
        size = 0
        for scope in self._scopes:
            items = msgspec.convert(self.ledger.export(scope), Export).items
            vectors = {
                item.id: mark.vector
                for item, mark in self.ledger.live(scope)
                if mark.vector is not None
            }
            for each in items:
                vector = vectors.get(each.id)
                line = encode(
                    Restored(scope, [each], {} if vector is None else {each.id: packed(vector)})
                )
                lines.append(line)
                size += len(line)
                if size > _CHUNK:
                    yield lines
                    lines, size = [], 0
        if lines:
            yield lines

    def _add(self, entry: Added) -> bool:
        item, predecessor = entry.item, entry.predecessor
        if self.ledger.knows(item):
            return False
        if predecessor is not None:
            self.ledger.current(item.scope, predecessor)
        mark = self._mark(item.text, entry.vector)
        self._scopes[item.scope] = None
        new = self.ledger.add(item, mark, predecessor)
        if predecessor is not None:
            self.garbage += _vector_size(mark)
        return new

    def _forget(self, entry: Forgotten) -> bool:
        known = self.ledger.explain(entry.scope, entry.id)
        first = self.ledger.tombstone(entry.scope, entry.id, entry.reason)
        if first:
            self.garbage += len(known.text) + _FRAME + (self._dimensions or 0) * 6 * known.live
        return first

    def _restore(self, entry: Restored) -> tuple[int, Entry | None]:
        changed = [each for each in entry.items if self._ends_or_brings(entry.scope, each)]
        if not changed:
            return 0, None
        marks = {
            each.id: self._mark(each.text, entry.vectors.get(each.id, b""))
            for each in changed
            if each.live
        }
        self._scopes[entry.scope] = None
        new = self.ledger.restore(entry.scope, changed, marks)
        self.garbage += (len(changed) - new) * _FRAME
        vectors = {id: vector for id, vector in entry.vectors.items() if id in marks}
        return new, Restored(entry.scope, changed, vectors)

    def _ends_or_brings(self, scope: Scope, entry: Remembered) -> bool:
        """True if a restored item is new, or ends the item that is known."""
        try:
            here = self.ledger.explain(scope, entry.id)
        except UnknownItem:
            return True
        return bool(
            (entry.successor and not here.successor) or (entry.forgotten and not here.forgotten)
        )

    def _mark(self, text: str, vector: bytes) -> Mark:
        if not vector:
            return Mark(words_of(text), None)
        numbers = array("f")
        numbers.frombytes(vector)
        if sys.byteorder == "big":
            numbers.byteswap()
        self._check_length(len(numbers))
        self._dimensions = len(numbers)
        return Mark(words_of(text), numbers)

    def _check_length(self, length: int) -> None:
        if self._dimensions is not None and length != self._dimensions:
            raise BadVector(
                f"the embedder's vector has {length:,} numbers and those of this memory have "
                f"{self._dimensions:,}"
            )


def _vector_size(mark: Mark) -> int:
    """About the bytes of a vector in an entry."""
    return 0 if mark.vector is None else len(mark.vector) * 6


def _score(words: frozenset[str], asked: Sequence[float] | None, mark: Mark) -> tuple[float, str]:
    """The score of an item, and the reason for people."""
    reasons = []
    cosine = share = None
    if asked is not None and mark.vector is not None:
        cosine = max(-1.0, min(1.0, sum(map(mul, asked, mark.vector))))
        reasons.append(f"cosine {cosine:.3f}")
    if words:
        share = len(words & mark.words) / len(words)
        reasons.append(f"has {len(words & mark.words)} of {len(words)} words")
    if asked is None:
        score = share or 0.0
    elif share is None:
        score = cosine or 0.0
    else:
        score = (1 - WORDS) * (cosine or 0.0) + WORDS * share
    return max(-1.0, min(1.0, score)), ", ".join(reasons) or "has no vector"
