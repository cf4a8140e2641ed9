"""Emitted: text in progress that observers know and the store does not yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .. import events as vocabulary
from .. import values
from ..events import Event

PIECE: Final = 1024 * 1024
"""The most bytes of one stored event of text in progress; longer text continues in the next."""


class Emitted:
    """Text in progress that is not stored yet; neighbouring deltas are merged into one event.

    It keeps the stored form that `emit` checked, because the substrate may change the event
    afterwards. So reading it never raises, and one event stays far below the limit of a value. The
    merged event stands at the place of its first delta.

    Args:
        event: The first delta.
        text: Its stored form.
        size: The length of its stored form without its place, in bytes.
        place: Its place in the turn's text; None if it has none.
    """

    __slots__ = ("_end", "_event", "_frame", "_pieces", "_size", "_text", "taken")

    def __init__(self, event: Event, text: bytes, size: int, place: int | None) -> None:
        self._event = event
        self._text = text
        self._size = len(text)
        self.taken = size
        """The number of bytes that were emitted for it, before any merging."""
        self._frame = -1
        """The bytes of a delta's stored form that are not its text; -1 until `extend` needs it."""
        self._pieces: list[str] = []
        self._end = None if place is None else place + len(event.data["text"])
        """The place after the text; None if the deltas have no place."""

    def extend(self, event: Event, size: int, place: int | None) -> bool:
        """Append a delta that continues this one; False if it does not, or is too long.

        Args:
            size: The length of its stored form without its place, in bytes.
        """
        mine, data = self._event.data, event.data
        if place != self._end or not _same_but_place(mine, data, placed=place is not None):
            return False
        text = data["text"]
        if self._frame < 0:
            self._frame = size - len(values.encode(text))
        longer = self._size + size - self._frame
        if longer > PIECE:
            return False
        self._size = longer
        self.taken += size
        self._pieces.append(text)
        if self._end is not None:
            self._end += len(text)
        return True

    def stored(self) -> bytes:
        if self._pieces:
            event = vocabulary.from_stored(None, self._text)
            text = "".join([event.data["text"], *self._pieces])
            assert event.at is not None
            whole = Event(event.type, {**event.data, "text": text}, event.at)
            _, self._text = vocabulary.make(whole, event.at)
            self._pieces = []
        return self._text


def _same_but_place(
    one: Mapping[str, Any], other: Mapping[str, Any], *, placed: bool
) -> bool:
    """True if two deltas differ only in their texts, and in their places if they have places."""
    if one.keys() != other.keys():
        return False
    if placed:
        return len(one) == 2 or all(
            one[key] == other[key] for key in one if key != "text" and key != "at"
        )
    return (
        isinstance(one.get("text"), str)
        and isinstance(other["text"], str)
        and all(one[key] == other[key] for key in one if key != "text")
    )
