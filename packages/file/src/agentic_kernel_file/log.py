"""Log: numbered segments of checksummed batches, read by position and written at the end.

A position is a place in the whole log, independent of the segment that holds it. A segment's file
has a header of 32 bytes, the batches, and zeros that are allocated in advance, so that an append
does not change the file's metadata.
"""

from __future__ import annotations

import os
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple

from .errors import Damaged
from .files import Directory, File
from .frames import BATCH, HEAD_SIZE, Frame, frames_in, read_head
from .manifest import Manifest, SegmentEntry

_HEADER: Final = Struct("<8sIQ8sI")
_MAGIC: Final = b"AKlog\r\n\x01"
_CHUNK_FIRST, _CHUNK = 1 << 14, 1 << 18
_GUESS: Final = 512
_LARGE: Final = 1 << 20
"""The length of a longer frame is compared with its file's before memory is allocated for it."""
_ALLOCATE_FIRST, _ALLOCATE_MOST = 1 << 18, 1 << 22


class Position(NamedTuple):
    """The end of a batch, where the next one begins."""

    at: int
    crc: int
    """The seed of the next batch's checksum."""


class Batch(NamedTuple):
    """One batch that was read back whole."""

    at: int
    """The place of its first frame in the log."""
    frames: bytes
    end: Position
    damaged: bool = False
    """True if a durable batch does not match its checksum, but its frames' lengths add up."""


def segment_name(number: int) -> str:
    """The name of a segment's file."""
    return f"log-{number:06d}"


def create_segment(directory: Directory, number: int, start: int) -> None:
    """Write an empty segment that begins at ``start``; the caller must sync the folder's entry."""
    body = _HEADER.pack(_MAGIC, number, start, os.urandom(8), 0)[:-4]
    file = directory.open(segment_name(number), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    file.write(body + zlib.crc32(body).to_bytes(4, "little"), 0)
    file.allocate(_HEADER.size, _ALLOCATE_FIRST - _HEADER.size)
    file.sync()


def is_empty(file: File) -> bool:
    """True if a segment's file holds no batch."""
    return not any(file.read(BATCH.size, _HEADER.size))


class Segment:
    """One file of the log, open for reading."""

    __slots__ = ("end", "file", "seed", "start")

    def __init__(self, file: File, entry: SegmentEntry) -> None:
        header = file.read(_HEADER.size, 0)
        if len(header) < _HEADER.size:
            raise Damaged(f"{file.path} is shorter than its header; restore the folder from a copy")
        magic, number, start, _, crc = _HEADER.unpack(header)
        if (magic, number, start) != (_MAGIC, entry.number, entry.start) or crc != zlib.crc32(
            header[:-4]
        ):
            raise Damaged(
                f"{file.path} has a damaged header, or that of another segment; restore the "
                "folder from a copy"
            )
        self.file = file
        self.start = entry.start
        self.end = entry.end
        self.seed: int = crc

    def read(self, at: int, size: int) -> bytes:
        return self.file.read(size, at - self.start + _HEADER.size)


class Log:
    """The segments that a manifest names, open for reading."""

    def __init__(self, directory: Directory, manifest: Manifest, known: Log | None = None) -> None:
        self.folder = directory.path
        """The path of the folder, for messages."""
        reuse = {} if known is None else known._by_number
        self._by_number: dict[int, Segment] = {}
        for entry in manifest.segments:
            segment = reuse.get(entry.number)
            if segment is None or segment.end != entry.end:
                file = directory.open(segment_name(entry.number)) if segment is None else None
                segment = Segment(file or reuse[entry.number].file, entry)
            self._by_number[entry.number] = segment
        self._segments = list(self._by_number.values())
        self._starts = [segment.start for segment in self._segments]

    @property
    def start(self) -> int:
        return self._starts[0]

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    def files(self) -> dict[str, File]:
        """The open files, by name."""
        return {segment.file.name: segment.file for segment in self._segments}

    def normal(self, position: Position) -> Position:
        """The position; at a segment's end, the start of the next segment instead."""
        at = position.at
        index = max(bisect_right(self._starts, at) - 1, 0)
        segment = self._segments[index]
        if segment.end is not None and at >= segment.end and index + 1 < len(self._segments):
            segment = self._segments[index + 1]
            at = segment.start
        return Position(at, segment.seed) if at == segment.start else position

    def frame(self, at: int) -> Frame:
        """The frame at a position that the index or another frame gives.

        Raises:
            Damaged: There is no whole frame at that position.
        """
        segment = self._segments[bisect_right(self._starts, at) - 1]
        data = segment.read(at, _GUESS)
        if len(data) >= HEAD_SIZE:
            head = read_head(data)
            if head.length > _LARGE and head.length > segment.file.size():
                raise self._lost(at, segment)
            if head.length > len(data):
                data += segment.read(at + len(data), head.length - len(data))
            if HEAD_SIZE <= head.length <= len(data):
                return Frame(at, head, data, 0)
        raise self._lost(at, segment)

    @staticmethod
    def _lost(at: int, segment: Segment) -> Damaged:
        path = segment.file.path
        return Damaged(f"{path} has no frame at {at} of the log; restore the folder from a copy")

    def scan(self, position: Position, until: int) -> Iterator[Batch]:
        """The batches up to a published position, including damaged ones.

        Raises:
            Damaged: The next batch cannot be found, because lengths in the log are damaged.
        """
        while position.at < until:
            position = self.normal(position)
            segment = self._segments[bisect_right(self._starts, position.at) - 1]
            stop = until if segment.end is None else min(until, segment.end)
            if position.at >= stop:
                return
            for batch in _batches(segment, position, stop):
                position = batch.end
                yield batch
            if position.at < stop:
                raise Damaged(
                    f"{segment.file.path} does not match its checksum at {position.at}, although "
                    f"it was durable up to {stop}; restore the folder from a copy"
                )

    def tail(self, position: Position) -> tuple[list[Batch], bool]:
        """The batches after the published end, and True if a torn write follows them.

        The caller holds the folder's lock, so no other process writes there.
        """
        segment = self.active
        mark = segment.read(position.at, BATCH.size)
        if not any(mark):
            return [], False
        batches = list(_batches(segment, position, None))
        end = batches[-1].end.at if batches else position.at
        return batches, any(segment.read(end, BATCH.size))


def _batches(segment: Segment, position: Position, stop: int | None) -> Iterator[Batch]:
    """Consecutive whole batches; ends at ``stop`` or at the first batch that is not whole."""
    at, crc = position
    buffer, begin, chunk = b"", at, _CHUNK_FIRST
    while stop is None or at < stop:
        offset = at - begin
        if len(buffer) - offset < BATCH.size:
            size = chunk if stop is None else min(chunk, stop - at)
            buffer, begin, offset = segment.read(at, size), at, 0
            chunk = min(2 * chunk, _CHUNK)
            if len(buffer) < BATCH.size:
                return
        length, expected = BATCH.unpack_from(buffer, offset)
        if length == 0 or (stop is not None and at + BATCH.size + length > stop):
            return
        if len(buffer) - offset < BATCH.size + length:
            if stop is None and length > segment.file.size():
                return
            buffer, begin, offset = segment.read(at, BATCH.size + length), at, 0
            if len(buffer) < BATCH.size + length:
                return
        first = offset + BATCH.size
        frames = buffer[first : first + length]
        crc = zlib.crc32(frames, crc)
        damaged = crc != expected
        if damaged and (stop is None or not _leads_through(frames)):
            return
        at += BATCH.size + length
        crc = expected  # the seed that the writer of the next batch used
        yield Batch(at - length, frames, Position(at, crc), damaged)


def _leads_through(frames: bytes) -> bool:
    """True if the lengths of a batch's frames add up to the batch's length."""
    try:
        return sum(frame.head.length for frame in frames_in(frames, 0)) == len(frames)
    except ValueError:
        return False


class Appender:
    """The active segment, open for writing. The caller of `append` and `cut` holds the lock."""

    def __init__(self, directory: Directory, entry: SegmentEntry) -> None:
        self.number = entry.number
        self._start = entry.start
        self._file = directory.open(segment_name(entry.number), os.O_RDWR)
        self._allocated = self._file.size()

    def append(self, at: int, data: bytes) -> None:
        """Write a batch at the end of the log.

        If that fails, the incomplete batch is cut off, or does not match its checksum.
        """
        offset = at - self._start + _HEADER.size
        try:
            if offset + len(data) > self._allocated:
                self._reserve(offset + len(data))
            self._file.write(data, offset)
        except OSError:
            # An incomplete batch does not match its checksum, so the cut is optional: without it
            # the next writer cuts.
            with suppress(OSError):
                self.cut(at)
            raise

    def cut(self, at: int) -> None:
        """Remove the bytes after the end of the log."""
        offset = at - self._start + _HEADER.size
        self._file.truncate(offset)
        self._allocated = offset

    @property
    def lost(self) -> bool:
        """True if the file has no name any more, so that no process can ever open it."""
        return self._file.identity().links == 0

    def length(self, at: int) -> int:
        """The segment's length if the log ends at ``at``."""
        return at - self._start

    @property
    def reach(self) -> int:
        """A position after everything in the file."""
        return self._start + self._file.size()

    def sync(self) -> None:
        """Make all appended batches durable, including those of other processes."""
        self._file.sync_data()

    def _reserve(self, needed: int) -> None:
        self._allocated = self._file.size()
        if needed > self._allocated:
            step = min(max(self._allocated, _ALLOCATE_FIRST), _ALLOCATE_MOST)
            size = max(step, needed - self._allocated)
            self._file.allocate(self._allocated, size)
            self._allocated += size
