"""Frames: the bytes of the log.

    batch   length u32 · crc u32 · frame …           one append, atomic
    frame   head (30 bytes) · id · facts · body · length u32 of each event · event … · rest
    rest    origin, with a whole record · crc u32 of head without link, id, facts and body · crc u32
            of the events and the origin

A batch's checksum is seeded with the checksum of the batch before it. So bytes that an earlier
writer left after the end of the log are never read as its continuation. A frame links to the
previous frame of the same Task, so a reader follows the links back through a Task's history. A
frame's head and facts hold everything that the index needs, so following the log decodes no record.

Version 0.1 wrote frames without a rest, and skips it when it reads. If a disk has damaged a batch,
the checksums in each frame show which frames and which events are intact.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Any, Final, NamedTuple

import msgspec

from agentic_kernel import InvalidValue, TaskStatus
from agentic_kernel_engine.moments import EARLIEST, LATEST
from agentic_kernel_engine.record import Record
from agentic_kernel_engine.search import labels_of
from agentic_kernel_engine.stored import encode_change, encode_record

from .states import StateFile

INSERT: Final = 1
"""The body is a whole record, the first of its Task."""
CHANGE: Final = 2
"""The body is the difference that a commit made."""
PRUNE: Final = 3
"""The body is a list of the ids of removed Tasks."""
BURIAL: Final = 4
"""The body is a whole record that replaces an unreadable one."""

BATCH: Final = Struct("<II")
_HEAD: Final = Struct("<IBBHIQIHI")
_UNLINKED: Final = Struct("<IBBHIIHI")
"""The head without its link."""
HEAD_SIZE: Final = _HEAD.size
_LINK_AT: Final = 12
"""The offset of the link in the head."""
_LINK: Final = Struct("<Q")
_LENGTH: Final = Struct("<I")
_CRCS: Final = Struct("<II")

_BEGINNING: Final = re.compile(rb'\{"v":(\d+),"i":\{"schema":\d+,"id":("(?:[^"\\]|\\.)*")')
"""The beginning of a whole record's body: its version and the Task's id."""

STATUSES: Final = tuple(TaskStatus)
STATUS_CODES: Final = {status: code for code, status in enumerate(STATUSES)}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Head(NamedTuple):
    """The fixed part of a frame, in the order in which it is stored."""

    length: int
    """The length of the whole frame."""
    kind: int
    status: int
    id_length: int
    version: int
    link: int
    """The place of the Task's previous frame; 0 if it is in the table, or if there is none."""
    body_length: int
    facts_length: int
    """0 if the facts are those of the previous frame."""
    events: int
    """The number of events."""


class Origin(NamedTuple):
    """The facts that filters compare and no commit changes; the insert wrote them."""

    created: int
    """Microseconds since 1970."""
    agent: str
    realm: str
    labels: dict[str, str]


class Entry(msgspec.Struct, eq=False):
    """The index's entry of a Task: its latest frame, and the facts that filters compare.

    Each commit makes an entry. It is a Struct, because a plain class with ``__init__`` takes three
    times as long to make (benchmarks/file.py).
    """

    task_id: str
    version: int
    status: TaskStatus
    at: int
    """The place of its latest frame in the log; 0 if its latest record is in the table."""
    owner: str | None
    due: int | None
    ended: int | None
    runtime_kind: str
    parent: str | None
    state: StateFile | None = None
    """The file of its state, if the state has a file of its own."""
    origin: Origin | None = None
    """None if only the record holds it, because version 0.1 wrote the frame."""
    record: Record | None = None
    """The latest decoded record; it may be older than the entry until a caller loads the Task."""
    loaded: StateFile | None = None
    """The file that the state of `record` was read from, or written to."""
    damaged: bool = False
    """True if the latest frame is damaged."""
    readable: bool = False
    """True if this version of the record was read once without a fault."""


def entry_of(record: Record, at: int, origin: Origin | None = None) -> Entry:
    """The index's entry for a record whose frame is at ``at``."""
    task = record.task
    due, ended = record.due_at, task.ended_at
    return Entry(
        task.id, record.version, task.status, at, record.owner,
        None if due is None else moment(due), None if ended is None else moment(ended),
        task.runtime_kind, record.parent, None, origin, record,
    )  # fmt: skip


def origin_of(record: Record) -> Origin:
    """The facts of a record that filters compare and no commit changes."""
    task = record.task
    created = min(max(task.created_at, EARLIEST), LATEST)
    return Origin(moment(created), task.agent_name or "", record.realm, labels_of(task))


def moment(at: datetime) -> int:
    """The time in microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND


def _moment(at: datetime | None) -> int | None:
    return None if at is None else moment(at)


class Draft:
    """A frame without its link; the caller prepares it before the writer locks the log."""

    __slots__ = ("_rest", "_unlinked")

    def __init__(
        self, kind: int, status: int, name: bytes, version: int, facts: bytes, body: bytes,
        events: Sequence[bytes], origin: bytes = b"",
    ) -> None:  # fmt: skip
        if len(events) == 1:  # the most common case
            rest = _LENGTH.pack(len(events[0])) + events[0] + origin
        else:
            rest = b"".join([*map(_LENGTH.pack, map(len, events)), *events, origin])
        told = name + facts + body
        unlinked = _UNLINKED.pack(
            HEAD_SIZE + len(told) + len(rest) + _CRCS.size, kind, status, len(name), version,
            len(body), len(facts), len(events),
        ) + told  # fmt: skip
        self._unlinked = unlinked
        self._rest = rest + _CRCS.pack(zlib.crc32(unlinked), zlib.crc32(rest))

    def frame(self, link: int) -> bytes:
        """The bytes to append."""
        head = self._unlinked
        return head[:_LINK_AT] + _LINK.pack(link) + head[_LINK_AT:] + self._rest


def insertion(record: Record, events: Sequence[bytes], state: StateFile | None = None) -> Draft:
    """The frame of a new record; ``state`` is its state's file, if the state has its own file."""
    return _whole(INSERT, record, origin_of(record), events, state)


def burial(record: Record, events: Sequence[bytes]) -> Draft:
    """The frame of a record that replaces an unreadable one."""
    return _whole(BURIAL, record, origin_of(record), events, None)


def _whole(
    kind: int, record: Record, origin: Origin, events: Sequence[bytes], state: StateFile | None
) -> Draft:
    task = record.task
    facts: list[Any] = [
        record.owner, _moment(record.due_at), _moment(task.ended_at), task.runtime_kind,
        record.parent,
    ]  # fmt: skip
    if state is not None:
        facts.append(state)
        record = record.changed(state=None)
    try:
        return Draft(
            kind, STATUS_CODES[task.status], task.id.encode(), record.version, _json(facts),
            encode_record(record), events, _json(origin),
        )  # fmt: skip
    except _UNFIT as error:
        raise _unfit(error) from None


def change(
    before: Record, after: Record, events: Sequence[bytes], state: StateFile | None = None,
    known: StateFile | None = None,
) -> Draft:  # fmt: skip
    """The frame of one commit.

    Args:
        state: The file of the state of ``after``, if that state has a file of its own.
        known: The file of the state of ``before``, if that state has a file of its own.
    """
    old, new = before.task, after.task
    facts = b""
    if (
        after.owner != before.owner
        or after.due_at != before.due_at
        or new.ended_at is not old.ended_at
        or state != known
    ):
        listed = [after.owner, _moment(after.due_at), _moment(new.ended_at)]
        facts = _json(listed if state == known else [*listed, state])
    if state is not None:
        after = after.changed(state=before.state)
    try:
        return Draft(
            CHANGE, STATUS_CODES[new.status], new.id.encode(), after.version, facts,
            encode_change(before, after), events,
        )  # fmt: skip
    except _UNFIT as error:
        raise _unfit(error) from None


def removal(task_ids: Sequence[str]) -> Draft:
    """The frame that removes some Tasks."""
    return Draft(PRUNE, 0, b"", 0, b"", json.dumps(task_ids).encode(), ())


_UNFIT: Final = (struct.error, TypeError, ValueError, OverflowError)


def _unfit(error: Exception) -> InvalidValue:
    """Error for a record that cannot be encoded."""
    if isinstance(error, InvalidValue):
        return error
    return InvalidValue("record", f"does not fit into the log: {error}")


def _json(facts: Any) -> bytes:
    return json.dumps(facts, separators=(",", ":")).encode()


def seal_batch(frames: bytes, seed: int) -> tuple[bytes, int]:
    """A batch to append, and the checksum that seeds the next one."""
    crc = zlib.crc32(frames, seed)
    return BATCH.pack(len(frames), crc) + frames, crc


class Frame(NamedTuple):
    """One frame as read back: its head, and all of its bytes."""

    at: int
    head: Head
    data: bytes
    start: int
    """The offset of the frame in ``data``."""

    @property
    def task_id(self) -> str:
        begin = self.start + HEAD_SIZE
        return self.data[begin : begin + self.head.id_length].decode()

    @property
    def doubtful_id(self) -> str:
        """The id of a frame that may be damaged; bytes that are not UTF-8 are replaced."""
        begin = self.start + HEAD_SIZE
        return self.data[begin : begin + self.head.id_length].decode(errors="replace")

    def told(self) -> tuple[str, int] | None:
        """The id and the version in the body of a whole record; None if it cannot be read."""
        begin = self.start + HEAD_SIZE
        found = _BEGINNING.search(self.data, begin, self.start + self.head.length)
        try:
            return None if found is None else (json.loads(found[2]), int(found[1]))
        except ValueError:
            return None

    def holds(self, task_id: str) -> bool:
        """True if the id follows the head; the id length in the head does not count."""
        return self.data.startswith(task_id.encode(), self.start + HEAD_SIZE)

    def sound_as(self, task_id: str) -> bool:
        """True if the frame matches its checksum when its id is this one; events do not count."""
        name, head, end = task_id.encode(), self.head, self.start + self.head.length
        known = _HEAD.pack(*head._replace(id_length=len(name)))
        begin = self.start + HEAD_SIZE + len(name)
        crc = zlib.crc32(known[_LINK_AT + _LINK.size :], zlib.crc32(known[:_LINK_AT]))
        rest = self.data[begin : begin + head.facts_length + head.body_length]
        crc = zlib.crc32(rest, zlib.crc32(name, crc))
        at = end - _CRCS.size
        return begin <= at and bool(_CRCS.unpack_from(self.data, at)[0] == crc)

    @property
    def facts(self) -> list[Any] | None:
        if not self.head.facts_length:
            return None
        begin = self.start + HEAD_SIZE + self.head.id_length
        facts: list[Any] = json.loads(self.data[begin : begin + self.head.facts_length])
        return facts

    @property
    def body(self) -> bytes:
        begin = self.start + HEAD_SIZE + self.head.id_length + self.head.facts_length
        return self.data[begin : begin + self.head.body_length]

    @property
    def removed(self) -> list[str]:
        ids: list[str] = json.loads(self.body)
        return ids

    @property
    def whole(self) -> bool:
        """True if the body is a whole record."""
        return self.head.kind in (INSERT, BURIAL)

    @property
    def first(self) -> bool:
        """True if this is the first frame of its Task."""
        return self.head.kind == INSERT

    def texts(self) -> list[bytes]:
        """The events' texts, in order."""
        begin, lengths = self._events()
        texts = []
        for length in lengths:
            texts.append(self.data[begin : begin + length])
            begin += length
        return texts

    def pieces(self) -> list[tuple[int, bytes]]:
        """The places and the texts of damaged events, at least one."""
        try:
            return list(enumerate(self.texts())) or [(0, b"")]
        except struct.error:
            return [(0, b"")]

    def origin(self) -> Origin | None:
        """The facts for filters in a whole record's frame; None if version 0.1 wrote the frame."""
        begin, end = self._rest()
        return Origin(*json.loads(self.data[begin : end - _CRCS.size])) if begin < end else None

    def sound(self) -> bool | None:
        """True if the frame, except link, events and origin, matches its checksum.

        None if version 0.1 wrote the frame.
        """
        link = self.start + _LINK_AT
        crc = zlib.crc32(self.data[self.start : link])
        return self._matches(0, zlib.crc32(self.data[link + _LINK.size : self._events_at], crc))

    def events_sound(self) -> bool | None:
        """True if events and origin match their checksum; None if version 0.1 wrote the frame."""
        end = self.start + self.head.length - _CRCS.size
        return self._matches(1, zlib.crc32(self.data[self._events_at : end]))

    def events_fit(self) -> bool:
        """True if the events fill the frame; it tests the count in a head that may be damaged."""
        try:
            begin, end = self._rest()
            if self.whole:
                return self.origin() is not None
            return begin == end - _CRCS.size
        except (ValueError, TypeError, struct.error):
            return False

    def state(self, before: Entry | None) -> StateFile | None:
        """The file of the Task's state, if the state has a file of its own."""
        facts = self.facts
        if facts is not None and len(facts) in (4, 6):
            return None if facts[-1] is None else StateFile(*facts[-1])
        return None if self.whole or before is None else before.state

    def entry(self, before: Entry | None, *, doubtful: bool = False) -> Entry:
        """The Task's new entry in the index.

        Args:
            before: The entry that the new one replaces.
            doubtful: True if the frame's origin is damaged; the record holds the origin too.
        """
        head, facts = self.head, self.facts
        status = STATUSES[head.status]
        if self.whole and facts is not None:
            owner, due, ended, kind, parent = facts[:5]
            return Entry(
                self.task_id, head.version, status, self.at, owner, due, ended, kind, parent,
                self.state(None), None if doubtful else self.origin(),
            )  # fmt: skip
        # A reader in another thread may have applied this frame, and later ones, meanwhile.
        if before is None or head.version > before.version + 1:
            raise ValueError(f"the frame at {self.at} follows a commit that is missing")
        if facts is None:
            owner, due, ended = before.owner, before.due, before.ended
        else:
            owner, due, ended = facts[:3]
        return Entry(
            before.task_id, head.version, status, self.at, owner, due, ended, before.runtime_kind,
            before.parent, self.state(before), before.origin,
        )  # fmt: skip

    def damaged_entry(self, task_id: str, before: Entry | None) -> Entry:
        """The entry of a Task whose frame is damaged, from the other facts that are known of it."""
        task_id = task_id if before is None else before.task_id
        status = STATUSES[self.head.status] if self.head.status < len(STATUSES) else None
        if before is None:
            told = self.told()
            version = self.head.version if told is None else min(self.head.version, told[1])
            return Entry(
                task_id, max(version, 1), status or TaskStatus.RUNNING, self.at,
                None, None, None, "", None, damaged=True,
            )  # fmt: skip
        return Entry(
            task_id, before.version + 1, status or before.status, self.at, before.owner,
            before.due, before.ended, before.runtime_kind, before.parent, before.state,
            before.origin, damaged=True,
        )  # fmt: skip

    @property
    def _events_at(self) -> int:
        """The offset of the lengths of the events."""
        head = self.head
        return self.start + HEAD_SIZE + head.id_length + head.facts_length + head.body_length

    def _events(self) -> tuple[int, list[int]]:
        """The offset of the first event, and the length of each event."""
        begin = self._events_at
        end = begin + 4 * self.head.events
        return end, [length for (length,) in _LENGTH.iter_unpack(self.data[begin:end])]

    def _rest(self) -> tuple[int, int]:
        """The offset of the end of the events, and of the end of the frame."""
        begin, lengths = self._events()
        return begin + sum(lengths), self.start + self.head.length

    def _matches(self, place: int, crc: int) -> bool | None:
        """True if one of the frame's checksums equals ``crc``; None if the frame has none."""
        try:
            begin, end = self._rest()
        except struct.error:
            return False
        if begin == end:
            return None
        if not self._events_at <= end - _CRCS.size <= len(self.data) - _CRCS.size:
            return False
        return bool(_CRCS.unpack_from(self.data, end - _CRCS.size)[place] == crc)


def read_head(data: bytes, start: int = 0) -> Head:
    """The head of the frame that begins at ``start``."""
    return Head(*_HEAD.unpack_from(data, start))


def frames_in(batch: bytes, at: int) -> Iterator[Frame]:
    """The frames of one batch.

    Args:
        batch: The batch without its head.
        at: The place of the first frame in the log.

    Raises:
        ValueError: The lengths of the frames do not lead to the end of the batch.
    """
    start = 0
    while start < len(batch):
        if len(batch) - start < HEAD_SIZE:
            raise ValueError(f"the frame at {at + start} is shorter than its head")
        head = read_head(batch, start)
        if not HEAD_SIZE <= head.length <= len(batch) - start:
            raise ValueError(f"the frame at {at + start} does not end within its batch")
        yield Frame(at + start, head, batch, start)
        start += head.length
