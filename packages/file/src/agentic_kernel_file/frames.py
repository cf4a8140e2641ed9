"""Frames: the bytes that the log is made of.

    batch   length u32 · crc u32 · frame …           one append; whole or not there
    frame   head (30 bytes) · id · facts · body · length u32 of each event · event … · rest
    rest    origin, with a whole record · crc u32 of head without link, id, facts and body · crc u32
            of the events and the origin

A batch's checksum is seeded with that of the batch before it, so what an earlier writer left
behind the end of the log is never taken for a continuation. A frame names the previous frame of
the same Task, so a Task's history is found by walking back. Its head and its facts say what the
index has to know, so that following the log decodes no record.

Version 0.1 wrote frames without a rest, and skips it when it reads. A frame's own checksums tell,
in a batch that a disk has damaged, the frames and the events that are as they were written.
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
from agentic_kernel_engine.codec import encode_change, encode_record
from agentic_kernel_engine.moments import EARLIEST, LATEST
from agentic_kernel_engine.record import Record
from agentic_kernel_engine.search import labels_of

from .states import StateFile

INSERT: Final = 1
"""The body is a whole record, the Task's first."""
CHANGE: Final = 2
"""The body is what a commit changed."""
PRUNE: Final = 3
"""The body is a list of the ids that are gone."""
BURIAL: Final = 4
"""The body is a whole record in the place of one that could not be read."""

BATCH: Final = Struct("<II")
_HEAD: Final = Struct("<IBBHIQIHI")
_UNLINKED: Final = Struct("<IBBHIIHI")
"""The head without its link."""
HEAD_SIZE: Final = _HEAD.size
_LINK_AT: Final = 12
"""Where the link is in the head."""
_LINK: Final = Struct("<Q")
_LENGTH: Final = Struct("<I")
_CRCS: Final = Struct("<II")

_BEGINNING: Final = re.compile(rb'\{"v":(\d+),"i":\{"schema":\d+,"id":("(?:[^"\\]|\\.)*")')
"""How the body of a whole record begins: with its version and the Task's id."""

STATUSES: Final = tuple(TaskStatus)
STATUS_CODES: Final = {status: code for code, status in enumerate(STATUSES)}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Head(NamedTuple):
    """The fixed part of a frame, in the order in which it is stored."""

    length: int
    """Of the whole frame."""
    kind: int
    status: int
    id_length: int
    version: int
    link: int
    """Where the Task's previous frame is, or 0: in the table, or there is none."""
    body_length: int
    facts_length: int
    """0: as in the previous frame."""
    events: int
    """How many."""


class Origin(NamedTuple):
    """What filters ask for and no commit changes: it came in with the Task."""

    created: int
    """Microseconds since 1970."""
    agent: str
    realm: str
    labels: dict[str, str]


class Entry(msgspec.Struct, eq=False):
    """The index's entry of a Task: its latest frame, and the facts that filters ask for.

    Each commit makes one, which takes a third of the time as a Struct (benchmarks/file.py).
    """

    task_id: str
    version: int
    status: TaskStatus
    at: int
    """Where its latest frame is in the log; 0: its latest record is in the table."""
    owner: str | None
    due: int | None
    ended: int | None
    runtime_kind: str
    parent: str | None
    state: StateFile | None = None
    """The file of its state, if that is kept apart."""
    origin: Origin | None = None
    """None if only the record says it: version 0.1 wrote the frame."""
    record: Record | None = None
    """The latest record that was decoded; an older one until the newer is asked for."""
    loaded: StateFile | None = None
    """The file that the state of `record` was read from, or written to."""
    damaged: bool = False
    """True if the latest frame is not as it was written."""
    readable: bool = False
    """True if this version of the record was read well once."""


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
    """The part of a record that no commit changes, as filters ask for it."""
    task = record.task
    created = min(max(task.created_at, EARLIEST), LATEST)
    return Origin(moment(created), task.agent_name or "", record.realm, labels_of(task))


def moment(at: datetime) -> int:
    """Microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND


def _moment(at: datetime | None) -> int | None:
    return None if at is None else moment(at)


class Draft:
    """A frame without its link: everything that can be prepared before the log is at hand."""

    __slots__ = ("_rest", "_unlinked")

    def __init__(
        self, kind: int, status: int, name: bytes, version: int, facts: bytes, body: bytes,
        events: Sequence[bytes], origin: bytes = b"",
    ) -> None:  # fmt: skip
        if len(events) == 1:  # the most common by far
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
    """The frame of a new record; ``state`` is the file that holds its state, if one does."""
    return _whole(INSERT, record, origin_of(record), events, state)


def burial(record: Record, events: Sequence[bytes]) -> Draft:
    """The frame of a record in the place of one that cannot be read."""
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
        state: The file that holds the state of ``after``, if one does.
        known: The file that holds the state of ``before``, if one does.
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
    """The frame that says that some Tasks are gone."""
    return Draft(PRUNE, 0, b"", 0, b"", json.dumps(task_ids).encode(), ())


_UNFIT: Final = (struct.error, TypeError, ValueError, OverflowError)


def _unfit(error: Exception) -> InvalidValue:
    """The error for a record that cannot be encoded."""
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
    """Where the frame begins in ``data``."""

    @property
    def task_id(self) -> str:
        begin = self.start + HEAD_SIZE
        return self.data[begin : begin + self.head.id_length].decode()

    @property
    def doubtful_id(self) -> str:
        """The id as far as it is legible, of a frame that is not as it was written."""
        begin = self.start + HEAD_SIZE
        return self.data[begin : begin + self.head.id_length].decode(errors="replace")

    def told(self) -> tuple[str, int] | None:
        """The id and the version that the body of a whole record says, if it is legible."""
        begin = self.start + HEAD_SIZE
        found = _BEGINNING.search(self.data, begin, self.start + self.head.length)
        try:
            return None if found is None else (json.loads(found[2]), int(found[1]))
        except ValueError:
            return None

    def holds(self, task_id: str) -> bool:
        """Whether the id stands in its place, whatever the head says about its length."""
        return self.data.startswith(task_id.encode(), self.start + HEAD_SIZE)

    def sound_as(self, task_id: str) -> bool:
        """Whether all but the events is as it was written, once this id stands in its place."""
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
        """Whether the body is a whole record."""
        return self.head.kind in (INSERT, BURIAL)

    @property
    def first(self) -> bool:
        """Whether the Task begins here."""
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
        """The places and the texts of events that are damaged, at least one."""
        try:
            return list(enumerate(self.texts())) or [(0, b"")]
        except struct.error:
            return [(0, b"")]

    def origin(self) -> Origin | None:
        """What the frame of a whole record says for filters; None if version 0.1 wrote it."""
        begin, end = self._rest()
        return Origin(*json.loads(self.data[begin : end - _CRCS.size])) if begin < end else None

    def sound(self) -> bool | None:
        """Whether all but the events is as it was written; None if version 0.1 wrote it."""
        link = self.start + _LINK_AT
        crc = zlib.crc32(self.data[self.start : link])
        return self._matches(0, zlib.crc32(self.data[link + _LINK.size : self._events_at], crc))

    def events_sound(self) -> bool | None:
        """Whether the events are as they were written; None if version 0.1 wrote them."""
        end = self.start + self.head.length - _CRCS.size
        return self._matches(1, zlib.crc32(self.data[self._events_at : end]))

    def events_fit(self) -> bool:
        """Whether there are as many events as the head says, if the head itself is in doubt."""
        try:
            begin, end = self._rest()
            if self.whole:
                return self.origin() is not None
            return begin == end - _CRCS.size
        except (ValueError, TypeError, struct.error):
            return False

    def state(self, before: Entry | None) -> StateFile | None:
        """The file of the Task's state, if that is kept apart."""
        facts = self.facts
        if facts is not None and len(facts) in (4, 6):
            return None if facts[-1] is None else StateFile(*facts[-1])
        return None if self.whole or before is None else before.state

    def entry(self, before: Entry | None, *, doubtful: bool = False) -> Entry:
        """The Task's new entry in the index.

        Args:
            before: The entry that it replaces.
            doubtful: The frame's origin is not as it was written; the record says it too.
        """
        head, facts = self.head, self.facts
        status = STATUSES[head.status]
        if self.whole and facts is not None:
            owner, due, ended, kind, parent = facts[:5]
            return Entry(
                self.task_id, head.version, status, self.at, owner, due, ended, kind, parent,
                self.state(None), None if doubtful else self.origin(),
            )  # fmt: skip
        # A reader in another thread may have taken in this frame, and later ones, meanwhile.
        if before is None or head.version > before.version + 1:
            raise ValueError(f"the frame at {self.at} continues a commit that is not there")
        if facts is None:
            owner, due, ended = before.owner, before.due, before.ended
        else:
            owner, due, ended = facts[:3]
        return Entry(
            before.task_id, head.version, status, self.at, owner, due, ended, before.runtime_kind,
            before.parent, self.state(before), before.origin,
        )  # fmt: skip

    def damaged_entry(self, task_id: str, before: Entry | None) -> Entry:
        """The entry of a Task whose frame is not as it was written: what else is known of it."""
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
        """Where the lengths of the events begin."""
        head = self.head
        return self.start + HEAD_SIZE + head.id_length + head.facts_length + head.body_length

    def _events(self) -> tuple[int, list[int]]:
        """Where the first event begins, and how long each one is."""
        begin = self._events_at
        end = begin + 4 * self.head.events
        return end, [length for (length,) in _LENGTH.iter_unpack(self.data[begin:end])]

    def _rest(self) -> tuple[int, int]:
        """Where the events end, and where the frame does."""
        begin, lengths = self._events()
        return begin + sum(lengths), self.start + self.head.length

    def _matches(self, place: int, crc: int) -> bool | None:
        """Whether one of the frame's checksums is this one; None if the frame has none."""
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
    """The frames of one batch, without its head; ``at`` is where the first one is in the log.

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
