"""Manifest: which files make up the store, and the mark that the folder is one."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from .errors import Damaged, ForeignFolder, SchemaTooNew

NAME: Final = "agentic-kernel.json"
FORMAT: Final = "agentic-kernel-file"
SCHEMA: Final = 2
"""The newest version that this code reads of the layout described here, in `frames` and in `table`.

A folder begins with 1 and is raised to 2 by the first write that older code must not touch: a
record with a field that older code lacks, a state in a file of its own, or a burial.
"""

Migration = Callable[[dict[str, Any]], dict[str, Any]]
MIGRATIONS: Final[Mapping[int, Migration]] = {1: dict}
"""From a schema to the next one: what a manifest of the older schema looks like in the newer."""


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """One file of the log."""

    number: int
    start: int
    """The position in the log of its first batch."""
    end: int | None = None
    """Where it was sealed; what the file holds behind that is never read. None: still written."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The store's files at one generation.

    Positions in the log grow for ever and are never used twice.
    """

    generation: int
    """One more with every replacement."""
    next_number: int
    """The number of the next new file; numbers are never used twice."""
    segments: tuple[SegmentEntry, ...]
    """What the table does not hold yet, oldest first; the last one is being written."""
    table: int | None = None
    """The number of the compacted table."""
    dead: tuple[tuple[int, int], ...] = ()
    """Ranges of the log that were written and given up, because they could not be made durable."""
    schema: int = 1
    """The oldest version of the layout that holds all that the store holds."""

    @property
    def active(self) -> SegmentEntry:
        return self.segments[-1]

    @property
    def start(self) -> int:
        """Where the log begins; what came before is in the table."""
        return self.segments[0].start

    def given_up(self, end: int) -> bool:
        """Whether the batch that ends there will never be read."""
        return any(low < end <= high for low, high in self.dead)

    def rotated(self, end: int, start: int) -> Manifest:
        """The next manifest: the active segment sealed at ``end``, a new one from ``start``."""
        sealed = replace(self.active, end=end)
        return replace(
            self,
            generation=self.generation + 1,
            next_number=self.next_number + 1,
            segments=(*self.segments[:-1], sealed, SegmentEntry(self.next_number, start)),
            # Old ranges are dropped: a batch waits for its fsync, not for sixty-four failures.
            dead=self.dead if start == end else (*self.dead, (end, start))[-64:],
        )

    def reserved(self) -> Manifest:
        """The next manifest: the number of one more file is taken."""
        return replace(self, generation=self.generation + 1, next_number=self.next_number + 1)

    def raised(self, schema: int) -> Manifest:
        """The next manifest: of a newer schema, so that older code refuses the folder."""
        return replace(self, generation=self.generation + 1, schema=schema)

    def compacted(self, table: int, sealed: tuple[SegmentEntry, ...]) -> Manifest:
        """The next manifest: a table in the place of the oldest segments."""
        return replace(
            self,
            generation=self.generation + 1,
            segments=self.segments[len(sealed) :],
            table=table,
        )

    def encode(self) -> bytes:
        """The file's content."""
        document = {"format": FORMAT, **asdict(self)}
        document["crc"] = _checksum(document)
        return json.dumps(document, indent=1).encode() + b"\n"


def decode(
    text: bytes, path: str, migrations: Mapping[int, Migration] = MIGRATIONS, schema: int = SCHEMA
) -> Manifest:
    """The manifest behind the file's content.

    Raises:
        ForeignFolder: It is somebody else's file.
        SchemaTooNew: A newer version wrote it.
        Damaged: It is ours, but not as written.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ForeignFolder(f"{path} is not a store's manifest; choose another folder")
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
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{path} lacks a part: {error}; restore the folder from a copy") from error


def _checksum(document: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(document, sort_keys=True).encode())
