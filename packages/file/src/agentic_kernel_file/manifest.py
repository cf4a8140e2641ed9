"""Manifest: the list of the store's files; it also marks the folder as a store."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from .errors import Damaged, ForeignFolder, SchemaTooNew

NAME: Final = "agentic-kernel.json"
FORMAT: Final = "agentic-kernel-file"
"""The format of a store's folder."""
MEMORY: Final = "agentic-kernel-file-memory"
"""The format of a memory's folder."""
_OWNERS: Final = {FORMAT: "a FileStore", MEMORY: "a FileMemory"}
SCHEMA: Final = 2
"""The newest version of the layout that this code reads; see also `frames` and `table`.

A folder begins with 1. The first write that older code must not touch raises it to 2: a record
with a field that older code lacks, a state in a file of its own, or a burial.
"""

Migration = Callable[[dict[str, Any]], dict[str, Any]]
MIGRATIONS: Final[Mapping[int, Migration]] = {1: dict}
"""For each schema, the function that turns its manifest into one of the next schema."""


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """One file of the log."""

    number: int
    start: int
    """The position of its first batch in the log."""
    end: int | None = None
    """The position where it was sealed; later bytes are never read. None: still being written."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The store's files at one generation.

    Positions in the log always grow and are never used twice.
    """

    generation: int
    """Increased by one with every replacement."""
    next_number: int
    """The number of the next new file; numbers are never used twice."""
    segments: tuple[SegmentEntry, ...]
    """The segments that the table does not contain yet, oldest first; the last one is active."""
    table: int | None = None
    """The number of the compacted table, if there is one."""
    dead: tuple[tuple[int, int], ...] = ()
    """Ranges of the log that were written and then given up, because their sync failed."""
    schema: int = 1
    """The oldest version of the layout that can hold everything in the store."""
    format: str = FORMAT

    @property
    def active(self) -> SegmentEntry:
        return self.segments[-1]

    @property
    def start(self) -> int:
        """The position where the log begins; earlier commits are in the table."""
        return self.segments[0].start

    def given_up(self, end: int) -> bool:
        """True if the batch that ends at ``end`` was given up and will never be read."""
        return any(low < end <= high for low, high in self.dead)

    def rotated(self, end: int, start: int) -> Manifest:
        """The next manifest: the active segment ends at ``end``, a new one begins at ``start``."""
        sealed = replace(self.active, end=end)
        return replace(
            self,
            generation=self.generation + 1,
            next_number=self.next_number + 1,
            segments=(*self.segments[:-1], sealed, SegmentEntry(self.next_number, start)),
            # Old ranges are dropped: no batch waits for its fsync longer than 64 failures.
            dead=self.dead if start == end else (*self.dead, (end, start))[-64:],
        )

    def reserved(self) -> Manifest:
        """The next manifest: one more file number is reserved."""
        return replace(self, generation=self.generation + 1, next_number=self.next_number + 1)

    def raised(self, schema: int) -> Manifest:
        """The next manifest: it has a newer schema, so that older code refuses the folder."""
        return replace(self, generation=self.generation + 1, schema=schema)

    def compacted(self, table: int, sealed: tuple[SegmentEntry, ...]) -> Manifest:
        """The next manifest: a table replaces the oldest segments."""
        return replace(
            self,
            generation=self.generation + 1,
            segments=self.segments[len(sealed) :],
            table=table,
        )

    def encode(self) -> bytes:
        """The manifest as the bytes of its file."""
        document = {"format": self.format, **asdict(self)}
        document["crc"] = _checksum(document)
        return json.dumps(document, indent=1).encode() + b"\n"


def decode(
    text: bytes,
    path: str,
    migrations: Mapping[int, Migration] = MIGRATIONS,
    schema: int = SCHEMA,
    format: str = FORMAT,
) -> Manifest:
    """The manifest from the bytes of its file.

    Args:
        format: The format that the manifest must have.

    Raises:
        ForeignFolder: The file is not a store's manifest.
        SchemaTooNew: A newer version wrote it.
        Damaged: It is a store's manifest, but it is damaged.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    there = document.get("format") if isinstance(document, dict) else None
    if not isinstance(document, dict) or there != format:
        owner = _OWNERS.get(there) if isinstance(there, str) else None
        said = "is not a store's manifest" if owner is None else f"belongs to {owner}"
        raise ForeignFolder(f"{path} {said}; choose another folder")
    found = document.get("schema")
    if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found <= schema:
        raise SchemaTooNew(
            f"{path} has schema {ascii(found)} and this version reads up to {schema}; "
            "upgrade agentic-kernel-file"
        )
    if document.pop("crc", None) != _checksum(document):
        raise Damaged(f"{path} does not match its checksum; restore the folder from a copy")
    written = found
    while found < schema:
        document = migrations[found](document)
        found += 1
    try:
        return Manifest(
            generation=document["generation"],
            next_number=document["next_number"],
            segments=tuple(SegmentEntry(**entry) for entry in document["segments"]),
            table=document["table"],
            dead=tuple((low, high) for low, high in document["dead"]),
            schema=written,
            format=format,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{path} is incomplete: {error}; restore the folder from a copy") from error


def _checksum(document: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(document, sort_keys=True).encode())
