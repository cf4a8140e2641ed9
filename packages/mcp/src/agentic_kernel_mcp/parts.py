"""Parts: the objects, lists and items of a message, counted before it is parsed.

A parser makes an object of each part. So a message of few bytes can have so many parts that this
process does nothing else for minutes.
"""

from __future__ import annotations

import re
from typing import Final

MOST_CONTAINERS: Final = 100_000
"""The most objects and lists of one message."""
MOST_ITEMS: Final = 1_000_000
"""The most items of the objects and lists of one message."""
_STRING: Final = re.compile(rb'"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"')
_REST: Final = re.compile(rb'[^"\\\n]*(?:\\[^\n][^"\\\n]*)*')
_BLANK: Final = re.compile(rb"\r?\n\r?\n|\r\r")


class TooManyParts(Exception):
    """A message has more parts than are read."""

    def __init__(self) -> None:
        super().__init__(
            f"a message has over {MOST_CONTAINERS:,} objects and lists, or {MOST_ITEMS:,} items"
        )


class Parts:
    """Counts the parts of a message that comes in pieces. What stands in texts does not count.

    Args:
        events: True for a stream of events; the counting then begins anew after each event.
    """

    def __init__(self, *, events: bool = False) -> None:
        self._events = events
        self._inside = self._escaped = False
        self._containers = self._items = 0

    def feed(self, piece: bytes) -> None:
        """Count a piece.

        Raises:
            TooManyParts: The message has too many.
        """
        ends = [found.span() for found in _BLANK.finditer(piece)] if self._events else []
        if not ends:
            self._count(piece)
            return
        start, end = ends[-1]
        self._count(piece[:start])
        self._inside = self._escaped = False
        self._containers = self._items = 0
        self._count(piece[end:])

    def _count(self, piece: bytes) -> None:
        if self._inside:
            piece = self._after_text(piece)
        piece = _STRING.sub(b"", piece)
        # The quotes of whole texts are gone; one that is left on the last line begins a text.
        quote = piece.find(b'"', piece.rfind(b"\n") + 1)
        if quote >= 0:
            begun = piece[quote + 1 :]
            self._inside = True
            self._escaped = (len(begun) - len(begun.rstrip(b"\\"))) % 2 == 1
            piece = piece[:quote]
        self._containers += piece.count(b"{") + piece.count(b"[")
        self._items += piece.count(b",")
        if self._containers > MOST_CONTAINERS or self._items > MOST_ITEMS:
            raise TooManyParts

    def _after_text(self, piece: bytes) -> bytes:
        """The piece without the rest of the text that an earlier one has begun."""
        found = _REST.match(piece, int(self._escaped))
        end = len(piece) if found is None else found.end()
        if not piece or piece[end:] == b"\\":
            self._escaped = self._escaped if not piece else True
            return b""
        self._escaped = False
        self._inside = end >= len(piece)
        return piece[end + 1 :]
