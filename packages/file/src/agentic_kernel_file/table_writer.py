"""TableWriter: writes a new table from front to back, in order of ids."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from typing import Any

from .files import Directory
from .frames import STATUS_CODES, STATUSES, Entry, Origin
from .stored import Stored
from .table import (
    BLOCK,
    CREATED,
    EVENT,
    FACTS,
    FLAT,
    MAGIC,
    NOT_ENDED,
    ORDINAL,
    PAIR,
    ROW,
    STORED,
    TRAILER,
    Item,
    RawEvent,
    digest,
    label_digest,
    table_name,
)

_BUFFER = 1 << 18


class TableWriter:
    """Writes the blocks first, then the sections that find them.

    The sections wait in memory until then, about 100 bytes per Task.
    """

    def __init__(self, directory: Directory, number: int) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
        self._file = directory.open(table_name(number), flags)
        self._parts: list[bytes] = [MAGIC]
        self._buffered = len(MAGIC)
        self._flushed = 0
        self._rows: list[bytes] = []
        self._facts: list[bytes] = []
        self._names: list[bytes] = []
        self._named = 0
        self._ordinals: list[list[int]] = [[] for _ in STATUSES]
        self._parents: list[tuple[int, int]] = []
        self._labels: list[tuple[int, int]] = []
        self._created: list[tuple[int, int]] = []
        self._held: list[Any] = []
        self._held_more: list[Any] = []
        self._states: list[str] = []
        self._kinds: dict[str, int] = {}
        self._agents: dict[str, int] = {}
        self._realms: dict[str, int] = {}
        self._last = ""

    def add(
        self,
        entry: Entry,
        stored: Stored,
        origin: Origin,
        events: Iterable[RawEvent],
    ) -> None:
        """Append a Task from its parts."""
        name = entry.task_id.encode()
        directory, texts, offset, count = [], [], 0, 0
        for event in events:
            text = event.text
            directory.append(EVENT.pack(*event.id, offset, len(text), event.crc))
            texts.append(text)
            offset += len(text)
            count += 1
        flat = stored.flat()
        record, form = (stored.encode(), STORED) if flat is None else (flat, FLAT)
        head = BLOCK.pack(0, entry.version, len(record), len(name), form, count, offset)[4:]
        crc = zlib.crc32(record, zlib.crc32(name, zlib.crc32(head)))
        block = [crc.to_bytes(4, "little"), head, name, record, *directory, *texts]
        item = Item(
            entry.task_id,
            entry.version,
            STATUS_CODES[entry.status],
            NOT_ENDED if entry.ended is None else entry.ended,
            entry.runtime_kind,
            origin.created,
            origin.agent,
            origin.realm,
            [label_digest(*label) for label in origin.labels.items()],
            None if entry.parent is None else digest(entry.parent),
        )
        self.add_block(b"".join(block), item, None if stored.state is None else stored.state.name)
        self.hold(entry, origin)

    def add_block(self, block: bytes, item: Item, state: str | None) -> None:
        """Append a Task whose block is complete.

        Args:
            state: The name of its state's file, if the state has a file of its own.
        """
        ordinal = len(self._rows)
        offset = self._flushed + self._buffered
        kind = self._kinds.setdefault(item.kind, len(self._kinds))
        self._rows.append(ROW.pack(offset, item.ended, kind, item.status))
        name = (item.task_id or "").encode()
        self._facts.append(FACTS.pack(
            item.created, self._agents.setdefault(item.agent, len(self._agents)),
            self._realms.setdefault(item.realm, len(self._realms)), item.version, self._named,
            len(name), zlib.crc32(name) ^ (item.task_id is None),
        ))  # fmt: skip
        self._names.append(name)
        self._named += len(name)
        self._created.append((item.created, ordinal))
        self._labels += [(label, ordinal) for label in item.labels]
        self._ordinals[item.status].append(ordinal)
        if item.parent is not None:
            self._parents.append((item.parent, ordinal))
        if state is not None:
            self._states.append(state)
        if item.task_id is not None:
            self._last = item.task_id
        self._append(block)

    def hold(self, entry: Entry, origin: Origin | None) -> None:
        """Add a Task to the section `held`, if it has not ended or has an owner."""
        if not entry.status.terminal or entry.owner is not None:
            self._held.append([
                entry.task_id, entry.version, STATUS_CODES[entry.status], entry.owner, entry.due,
                entry.ended, entry.runtime_kind, entry.parent,
            ])  # fmt: skip
            self._held_more.append([entry.state, origin])

    def finish(self) -> None:
        """Write the sections that find the blocks, and make the file durable."""
        rows = self._place(self._rows)
        facts = self._place(self._facts)
        ids = self._place(self._names)
        statuses = {
            status.value: [self._place(map(ORDINAL.pack, ordinals)), len(ordinals)]
            for status, ordinals in zip(STATUSES, self._ordinals, strict=True)
        }
        parents = self._place(PAIR.pack(*pair) for pair in sorted(self._parents))
        labels = self._place(PAIR.pack(*pair) for pair in sorted(self._labels))
        created = self._place(CREATED.pack(*pair) for pair in sorted(self._created))
        footer = json.dumps({
            "count": len(self._rows),
            "last": self._last,
            "kinds": list(self._kinds),
            "rows": rows,
            "statuses": statuses,
            "parents": [parents, len(self._parents)],
            "held": self._list(self._held),
            "facts": facts,
            "ids": ids,
            "labels": [labels, len(self._labels)],
            "created": created,
            "agents": list(self._agents),
            "realms": list(self._realms),
            "held_more": self._list(self._held_more),
            "states": self._list(self._states),
        }).encode()  # fmt: skip
        footer_at = self._place([footer])
        self._append(TRAILER.pack(len(footer), zlib.crc32(footer), footer_at, MAGIC))
        self._flush()
        self._file.sync()

    def _list(self, items: list[Any]) -> list[int]:
        text = json.dumps(items, separators=(",", ":")).encode()
        return [self._place([text]), len(text), zlib.crc32(text)]

    def _place(self, parts: Iterable[bytes]) -> int:
        """Append a section and return its offset."""
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
