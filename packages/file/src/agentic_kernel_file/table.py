"""Table: the compacted, immutable part of the store; Tasks in order of their ids.

    block …     one Task: head, id, record, a directory of its events, the events
    rows        by ordinal: where the block is, when the Task ended, its kind, its status
    statuses    per status: the ordinals, in order
    parents     (digest of the parent's id, ordinal), sorted
    held        what the index keeps in memory: Tasks that are not at rest for good
    footer      JSON: where all that is; then its length, checksum and place

Everything is found by binary search over fixed-size rows, so a page or one Task out of any number
costs a logarithm of small reads.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from struct import Struct
from typing import Any, Final, NamedTuple

from agentic_kernel import InvalidValue, TaskStatus
from agentic_kernel_engine.codec import decode_record
from agentic_kernel_engine.record import Record
from agentic_kernel_engine.store import EventId

from .errors import Damaged
from .files import File
from .frames import STATUSES, Entry

MAGIC: Final = b"AKtable\x01"
BLOCK: Final = Struct("<IQIHHII")
EVENT: Final = Struct("<QiIII")
ROW: Final = Struct("<QqIB3x")
ORDINAL: Final = Struct("<I")
PARENT: Final = Struct("<QI")
TRAILER: Final = Struct("<IIQ8s")
NOT_ENDED: Final = -(1 << 63)
_GUESS: Final = 1024
_RUN: Final = 4096
"""How many rows a scan reads at once."""


class Row(NamedTuple):
    """What can be known of a Task without its block."""

    offset: int
    ended: int
    kind: int
    status: int


class Block(NamedTuple):
    """The head of a Task's block."""

    crc: int
    version: int
    record_length: int
    id_length: int
    reserved: int
    events: int
    events_length: int

    @property
    def events_at(self) -> int:
        """Where the directory of events begins in the block."""
        return BLOCK.size + self.id_length + self.record_length

    @property
    def length(self) -> int:
        return self.events_at + self.events * EVENT.size + self.events_length


def table_name(number: int) -> str:
    """The file of a table."""
    return f"table-{number:06d}"


def digest(task_id: str) -> int:
    """A stable number for an id."""
    return int.from_bytes(blake2b(task_id.encode(), digest_size=8).digest(), "little")


class Table:
    """One table, open for reading."""

    def __init__(self, file: File) -> None:
        self._file = file
        size = file.size()
        trailer = file.read(TRAILER.size, max(size - TRAILER.size, 0))
        if len(trailer) < TRAILER.size:
            raise self._damaged("is too short")
        length, crc, offset, magic = TRAILER.unpack(trailer)
        footer = file.read(length, offset)
        if magic != MAGIC or zlib.crc32(footer) != crc:
            raise self._damaged("has a damaged footer")
        self._footer: dict[str, Any] = json.loads(footer)
        self.size = size
        self.count: int = self._footer["count"]
        self._last: str = self._footer["last"]
        self.kinds: list[str] = self._footer["kinds"]
        self._codes = {kind: code for code, kind in enumerate(self.kinds)}

    def held(self) -> Iterator[Entry]:
        """Entries of the Tasks that may still move, or that somebody owns."""
        offset, length, crc = self._footer["held"]
        data = self._file.read(length, offset)
        if zlib.crc32(data) != crc:
            raise self._damaged("has a damaged list of held Tasks")
        for task_id, version, status, *facts in json.loads(data):
            yield Entry(task_id, version, STATUSES[status], 0, *facts)

    def find(self, task_id: str) -> Row | None:
        """The row of a Task, or None."""
        if not self.count or task_id > self._last:
            return None
        place = bisect_left(range(self.count), task_id, key=self.id_at)
        if place == self.count:
            return None
        row = self.row(place)
        return row if self.id_of(row) == task_id else None

    def entry(self, task_id: str) -> Entry | None:
        """The index's entry for a Task at rest, or None."""
        row = self.find(task_id)
        if row is None:
            return None
        return Entry(
            task_id, self._block(row)[0].version, STATUSES[row.status], 0, None, None,
            row.ended, self.kinds[row.kind], None,
        )  # fmt: skip

    def row(self, ordinal: int) -> Row:
        return Row(*ROW.unpack(self._file.read(ROW.size, self._rows + ordinal * ROW.size)))

    def id_at(self, ordinal: int) -> str:
        return self.id_of(self.row(ordinal))

    def id_of(self, row: Row) -> str:
        block, data = self._block(row, BLOCK.size + 64)
        end = BLOCK.size + block.id_length
        if len(data) < end:
            data = self._file.read(end, row.offset)
        return data[BLOCK.size : end].decode()

    def record(self, row: Row) -> Record:
        """The record of one Task, checked."""
        block, data = self._block(row)
        if len(data) < block.events_at:
            data = self._file.read(block.events_at, row.offset)
        if zlib.crc32(data[4 : block.events_at]) != block.crc:
            raise self._damaged(f"has a damaged record at {row.offset}")
        try:
            return decode_record(data[BLOCK.size + block.id_length : block.events_at])
        except InvalidValue as error:
            raise self._damaged(f"has a record that does not read: {error}") from error

    def block_bytes(self, row: Row) -> bytes:
        """A Task's whole block, to be copied."""
        block, data = self._block(row)
        if len(data) < block.length:
            data = self._file.read(block.length, row.offset)
        return data[: block.length]

    def events(self, row: Row, after: EventId | None, limit: int) -> list[tuple[EventId, bytes]]:
        """A page of a Task's events."""
        block, _ = self._block(row)
        base = row.offset + block.events_at

        def key(index: int) -> EventId:
            version, place, *_ = EVENT.unpack(
                self._file.read(EVENT.size, base + index * EVENT.size)
            )
            return version, place

        first = 0 if after is None else bisect_right(range(block.events), after, key=key)
        count = max(min(limit, block.events - first), 0)
        if not count:
            return []
        entries = list(
            EVENT.iter_unpack(self._file.read(count * EVENT.size, base + first * EVENT.size))
        )
        texts = base + block.events * EVENT.size
        begin = entries[0][2]
        data = self._file.read(entries[-1][2] + entries[-1][3] - begin, texts + begin)
        found = []
        for version, place, offset, length, crc in entries:
            text = data[offset - begin : offset - begin + length]
            if zlib.crc32(text) != crc:
                raise self._damaged(f"has a damaged event of the task at {row.offset}")
            found.append(((version, place), text))
        return found

    def after(self, task_id: str | None) -> Iterator[tuple[int, Row]]:
        """Ordinals and rows of the Tasks with a greater id, in order."""
        first = 0
        if task_id is not None:
            first = bisect_right(range(self.count), task_id, key=self.id_at)
        run = 64
        while first < self.count:
            run = min(run, self.count - first)
            data = self._file.read(run * ROW.size, self._rows + first * ROW.size)
            for index, row in enumerate(ROW.iter_unpack(data)):
                yield first + index, Row(*row)
            first, run = first + run, _RUN

    def after_with(self, status: TaskStatus, task_id: str | None) -> Iterator[tuple[int, Row]]:
        """Like `after`, but only Tasks of one status."""
        start, count = self._footer["statuses"].get(status.value, (0, 0))

        def place(index: int) -> int:
            at = start + index * ORDINAL.size
            return int(ORDINAL.unpack(self._file.read(ORDINAL.size, at))[0])

        first = 0
        if task_id is not None:
            first = bisect_right(range(count), task_id, key=lambda i: self.id_at(place(i)))
        run = 64
        while first < count:
            run = min(run, count - first)
            data = self._file.read(run * ORDINAL.size, start + first * ORDINAL.size)
            for (ordinal,) in ORDINAL.iter_unpack(data):
                yield ordinal, self.row(ordinal)
            first, run = first + run, _RUN

    def children(self, parent: str) -> Iterator[int]:
        """Ordinals of the Tasks whose parent has the same digest, in order."""
        start, count = self._footer["parents"]
        wanted = digest(parent)

        def pair(index: int) -> tuple[int, int]:
            at = start + index * PARENT.size
            first, second = PARENT.unpack(self._file.read(PARENT.size, at))
            return first, second

        index = bisect_left(range(count), (wanted, 0), key=pair)
        while index < count and pair(index)[0] == wanted:
            yield pair(index)[1]
            index += 1

    def parents(self) -> Sequence[tuple[int, int]]:
        """All pairs of a parent's digest and an ordinal."""
        start, count = self._footer["parents"]
        return list(PARENT.iter_unpack(self._file.read(count * PARENT.size, start)))

    def code(self, kind: str) -> int | None:
        """How rows name a runtime kind; None if no Task here has it."""
        return self._codes.get(kind)

    @property
    def _rows(self) -> int:
        rows: int = self._footer["rows"]
        return rows

    def _block(self, row: Row, size: int = _GUESS) -> tuple[Block, bytes]:
        data = self._file.read(size, row.offset)
        if len(data) < BLOCK.size:
            raise self._damaged(f"ends within the task at {row.offset}")
        return Block(*BLOCK.unpack_from(data)), data

    def _damaged(self, what: str) -> Damaged:
        return Damaged(f"{self._file.name} {what}; restore the folder from a copy")
