"""TableWriter: a new table, written front to back in order of ids."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from typing import Any

from agentic_kernel_engine.store import EventId

from .files import Directory
from .frames import STATUS_CODES, STATUSES, Entry
from .table import (
    BLOCK,
    EVENT,
    MAGIC,
    NOT_ENDED,
    ORDINAL,
    PARENT,
    ROW,
    TRAILER,
    Row,
    digest,
    table_name,
)

_BUFFER = 1 << 18


class TableWriter:
    """Blocks first, then what finds them; the arrays wait in memory, 40 bytes a Task."""

    def __init__(self, directory: Directory, number: int) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
        self._file = directory.open(table_name(number), flags)
        self._parts: list[bytes] = [MAGIC]
        self._buffered = len(MAGIC)
        self._flushed = 0
        self._rows: list[bytes] = []
        self._ordinals: list[list[int]] = [[] for _ in STATUSES]
        self._parents: list[tuple[int, int]] = []
        self._held: list[Any] = []
        self._kinds: dict[str, int] = {}
        self._last = ""

    def add(self, entry: Entry, record: bytes, events: Iterable[tuple[EventId, bytes]]) -> None:
        """Append a Task from its parts."""
        name = entry.task_id.encode()
        directory, texts, offset, count = [], [], 0, 0
        for (version, index), text in events:
            directory.append(EVENT.pack(version, index, offset, len(text), zlib.crc32(text)))
            texts.append(text)
            offset += len(text)
            count += 1
        head = BLOCK.pack(0, entry.version, len(record), len(name), 0, count, offset)[4:]
        crc = zlib.crc32(record, zlib.crc32(name, zlib.crc32(head)))
        block = [crc.to_bytes(4, "little"), head, name, record, *directory, *texts]
        parent = None if entry.parent is None else digest(entry.parent)
        self.add_block(
            entry.task_id,
            b"".join(block),
            Row(
                0,
                NOT_ENDED if entry.ended is None else entry.ended,
                self.kind(entry.runtime_kind),
                STATUS_CODES[entry.status],
            ),
            parent,
        )
        self.hold(entry)

    def add_block(self, task_id: str, block: bytes, row: Row, parent: int | None) -> None:
        """Append a Task that is copied from an older table.

        Args:
            row: With the kind as `kind` numbers it; the offset is set here.
            parent: The digest of the parent's id.
        """
        ordinal = len(self._rows)
        offset = self._flushed + self._buffered
        self._rows.append(ROW.pack(offset, row.ended, row.kind, row.status))
        self._ordinals[row.status].append(ordinal)
        if parent is not None:
            self._parents.append((parent, ordinal))
        self._last = task_id
        self._append(block)

    def hold(self, entry: Entry) -> None:
        """Note a Task that the index shall keep in memory."""
        if not entry.status.terminal or entry.owner is not None:
            self._held.append([
                entry.task_id, entry.version, STATUS_CODES[entry.status], entry.owner, entry.due,
                entry.ended, entry.runtime_kind, entry.parent,
            ])  # fmt: skip

    def kind(self, name: str) -> int:
        """The number of a runtime kind in this table."""
        return self._kinds.setdefault(name, len(self._kinds))

    def finish(self) -> None:
        """Write what finds the blocks, and make the file durable."""
        rows = self._place(self._rows)
        statuses = {
            status.value: [self._place(map(ORDINAL.pack, ordinals)), len(ordinals)]
            for status, ordinals in zip(STATUSES, self._ordinals, strict=True)
        }
        parents = self._place(PARENT.pack(*pair) for pair in sorted(self._parents))
        held = json.dumps(self._held, separators=(",", ":")).encode()
        held_at = self._place([held])
        footer = json.dumps({
            "count": len(self._rows),
            "last": self._last,
            "kinds": list(self._kinds),
            "rows": rows,
            "statuses": statuses,
            "parents": [parents, len(self._parents)],
            "held": [held_at, len(held), zlib.crc32(held)],
        }).encode()  # fmt: skip
        footer_at = self._place([footer])
        self._append(TRAILER.pack(len(footer), zlib.crc32(footer), footer_at, MAGIC))
        self._flush()
        self._file.sync()

    def _place(self, parts: Iterable[bytes]) -> int:
        """Append a section; returns where it begins."""
        begin = self._flushed + self._buffered
        self._append(b"".join(parts))
        return begin

    def _append(self, data: bytes) -> None:
        self._parts.append(data)
        self._buffered += len(data)
        if self._buffered >= _BUFFER:
            self._flush()

    def _flush(self) -> None:
        data = b"".join(self._parts)
        self._file.write(data, self._flushed)
        self._flushed += len(data)
        self._parts, self._buffered = [], 0
