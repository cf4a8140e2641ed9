"""Head: the position up to which the log is durable, published for readers that take no lock."""

from __future__ import annotations

import os
import zlib
from struct import Struct
from typing import Final, NamedTuple

from .files import Directory, File

NAME: Final = "head"
_FORM: Final = Struct("<QQQI")
_BODY: Final = Struct("<QQQ")
_SLOT: Final = _FORM.size
_TRIES: Final = 100


class Published(NamedTuple):
    """The latest publication of a writer."""

    generation: int
    """The manifest's generation; if it differs from a reader's, the reader reads the manifest."""
    durable: int
    """The log before this position is durable, and acknowledged or about to be acknowledged."""
    turn: int = 0
    """The number of publications so far."""


NOTHING: Final = Published(0, 0)


class Head:
    """A file of two slots, overwritten in turn, so that a torn write damages only the older one.

    It is not synced. After a crash of the machine it may be older than the log, but never newer.
    The process that opens the folder next reads the log's end and publishes again.
    """

    def __init__(self, directory: Directory, *, writable: bool) -> None:
        flags = os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY
        self.file: File = directory.open(NAME, flags)
        """Locked during a publication, so that the position never falls, and while files change."""
        self._seen = (b"", NOTHING)

    def read(self) -> Published:
        """The latest publication; `NOTHING` if a crash left none."""
        for _ in range(_TRIES):
            data = self.file.read(2 * _SLOT, 0)
            seen, published = self._seen
            if data == seen:
                return published
            if len(data) == 2 * _SLOT:
                # The later slot is the answer, unless a writer is writing it just now.
                for turn, generation, durable, crc in sorted(_FORM.iter_unpack(data), reverse=True):
                    start = turn % 2 * _SLOT
                    if turn and crc == zlib.crc32(data[start : start + _SLOT - 4]):
                        published = Published(generation, durable, turn)
                        self._seen = (data, published)
                        return published
        return NOTHING  # a reader may meet a torn slot sometimes, but not _TRIES times in a row

    def write(self, generation: int, durable: int, before: Published) -> Published:
        """Publish a position. The caller holds the file's lock.

        Args:
            before: The result of `read` under the same lock.
        """
        turn = before.turn + 1
        body = _BODY.pack(turn, generation, durable)
        slot = body + zlib.crc32(body).to_bytes(4, "little")
        self.file.write(slot, turn % 2 * _SLOT)
        published = Published(generation, durable, turn)
        data, seen = self._seen
        if seen is before:
            data = data[:_SLOT] + slot if turn % 2 else slot + data[_SLOT:]
            self._seen = (data, published)
        return published
