"""Emitted: text in progress that observers know and the store does not yet."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from .. import edges, values
from ..events import RUN_DELTA, Event
from ..texts import FURTHEST, is_place

PIECE: Final = 1024 * 1024
"""The most bytes of one stored event of text in progress; longer text continues in the next."""
_encode: Final = msgspec.json.Encoder().encode
_HEAD: Final = b'{"type":"%b","at":%%d,"data":{"text":"' % RUN_DELTA.encode()
_FRAME: Final = len(_HEAD % 10**15) + 4


class Piece:
    """One delta, checked: its text, its channel and its place."""

    __slots__ = ("at", "channel", "encoded", "rest", "size", "text")

    def __init__(
        self, text: str, channel: str | None, at: int | None, rest: bytes, encoded: bytes
    ) -> None:
        self.text = text
        self.channel = channel
        """None if it is not text; the piece then has no place."""
        self.at = at
        """The place that was given; None for the end of the text."""
        self.rest = rest
        """The other items of the data as JSON text, without the braces."""
        self.encoded = encoded
        """The text as JSON text, without the quotes."""
        self.size = _FRAME + len(rest) + len(encoded)
        """The length of its stored form without its place, in bytes."""


def plain(event: Any) -> Piece | None:
    """The delta that this event is, if it has only the items that the Host knows.

    Most deltas are plain, and there is one for each token of each stream (benchmarks/streaming.py).
    """
    kind = type(event)
    if kind is dict:
        named = event.get("type")
        if type(named) is not str or named != RUN_DELTA:
            return None
        data, others = event, len(event) - 1
    elif kind is Event and type(event.data) is dict and type(event.type) is str:
        if event.type != RUN_DELTA:
            return None
        data, others = event.data, len(event.data)
        if event.at is not None or "type" in data:
            return None
    else:
        return None
    text, rest, channel, at = data.get("text"), b"", "", None
    if type(text) is not str or "\0" in text:
        return None
    others -= 1
    try:
        if others:
            if "channel" in data:
                channel = data["channel"]
                if type(channel) is not str or "\0" in channel:
                    return None
                rest = b'"channel":' + _encode(channel)
                others -= 1
            if "at" in data:
                at = data["at"]
                if not is_place(at):
                    return None
                others -= 1
            if others:
                return None
        encoded = _encode(text)
    except UnicodeEncodeError:
        return None
    if len(encoded) > PIECE:
        return None
    return Piece(text, channel, at, rest, encoded[1:-1])


def checked(event: Event) -> Piece | None:
    """The delta that a checked event is; None if it has no text.

    Raises:
        InvalidValue: Its place is not a place.
    """
    data = dict(event.data)
    text, channel = data.pop("text", None), data.get("channel", "")
    if not isinstance(text, str):
        return None
    at = None
    if isinstance(channel, str):
        if "at" in data:
            at = edges.whole(data.pop("at"), "event.data.at", 0, FURTHEST)
    else:
        channel = None
    return Piece(text, channel, at, values.encode(data)[1:-1], values.encode(text)[1:-1])


class Emitted:
    """Text in progress that is not stored yet; neighbouring deltas are merged into one event.

    It keeps the stored form of what `emit` checked, because the substrate may change the event
    afterwards. So reading it never raises, and one event stays far below the limit of a value. The
    merged event stands at the place of its first delta.

    Args:
        piece: The first delta.
        place: Its place in the turn's text; None if it has none.
        stamp: Its moment, in microseconds since 1970.
    """

    __slots__ = ("_end", "_pieces", "_place", "_rest", "_size", "_stamp", "taken")

    def __init__(self, piece: Piece, place: int | None, stamp: int) -> None:
        self._stamp = stamp
        self._place = place
        self._end = None if place is None else place + len(piece.text)
        """The place after the text; None if the deltas have no place."""
        self._rest = piece.rest
        self._pieces = [piece.encoded]
        self._size = self.taken = piece.size + 20
        """`taken` is the number of bytes that were emitted for it, before any merging."""

    def extend(self, piece: Piece, place: int | None) -> bool:
        """Append a delta that continues this one; False if it does not, or is too long."""
        if place != self._end or piece.rest != self._rest:
            return False
        longer = self._size + len(piece.encoded)
        if longer > PIECE:
            return False
        self._size = longer
        self.taken += piece.size
        self._pieces.append(piece.encoded)
        if place is not None:
            self._end = place + len(piece.text)
        return True

    def stored(self) -> bytes:
        """The stored form of the merged event."""
        parts = [_HEAD % self._stamp, *self._pieces, b'"']
        if self._rest:
            parts += (b",", self._rest)
        if self._place is not None:
            parts.append(b',"at":%d' % self._place)
        return b"".join((*parts, b"}}"))
