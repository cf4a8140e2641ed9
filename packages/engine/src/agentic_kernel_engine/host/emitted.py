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
    afterwards. So reading it never raises, and one event stays far below the limit of a value.
    """

    __slots__ = ("_event", "_frame", "_pieces", "_size", "_text")

    def __init__(self, event: Event, text: bytes) -> None:
        self._event = event
        self._text = text
        self._size = len(text)
        self._frame = -1
        """The bytes of a delta's stored form that are not its text; -1 until `extend` needs it."""
        self._pieces: list[str] = []

    def extend(self, event: Event, size: int) -> bool:
        """Append a delta that continues this one; False if it does not, or is too long.

        Args:
            size: The length of its stored form, in bytes.
        """
        mine = self._event
        if mine.type != event.type or not _same_but_text(mine.data, event.data):
            return False
        if self._frame < 0:
            self._frame = size - len(values.encode(event.data["text"]))
        longer = self._size + size - self._frame
        if longer > PIECE:
            return False
        self._size = longer
        self._pieces.append(event.data["text"])
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


def _same_but_text(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if one.keys() != other.keys() or not isinstance(one.get("text"), str):
        return False
    return isinstance(other["text"], str) and all(
        one[key] == other[key] for key in one if key != "text"
    )
