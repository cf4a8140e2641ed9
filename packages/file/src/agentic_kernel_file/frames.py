"""Frames: the bytes that the log is made of.

    batch   length u32 · crc u32 · frame …           one append; whole or not there
    frame   head (30 bytes) · id · facts · body · length u32 of each event · event …

A batch's checksum is seeded with that of the batch before it, so what an earlier writer left
behind the end of the log is never taken for a continuation. A frame names the previous frame of
the same Task, so a Task's history is found by walking back. Its head and its facts say what the
index has to know, so that following the log decodes no record.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Any, Final, NamedTuple

from agentic_kernel import TaskStatus
from agentic_kernel_engine.codec import encode_change, encode_record
from agentic_kernel_engine.record import Record

INSERT: Final = 1
"""The body is a whole record."""
CHANGE: Final = 2
"""The body is what a commit changed."""
PRUNE: Final = 3
"""The body is a list of the ids that are gone."""

BATCH: Final = Struct("<II")
_HEAD: Final = Struct("<IBBHIQIHI")
HEAD_SIZE: Final = _HEAD.size
_LINK_AT: Final = 12
"""Where the link is in the head."""
_LINK: Final = Struct("<Q")
_LENGTH: Final = Struct("<I")

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


class Entry:
    """What the index knows about a Task: its latest frame, and the facts that filters ask for."""

    __slots__ = (
        "at", "due", "ended", "owner", "parent", "record", "runtime_kind", "status", "task_id",
        "version",
    )  # fmt: skip

    def __init__(
        self,
        task_id: str,
        version: int,
        status: TaskStatus,
        at: int,
        owner: str | None,
        due: int | None,
        ended: int | None,
        runtime_kind: str,
        parent: str | None,
        record: Record | None = None,
    ) -> None:
        self.task_id = task_id
        self.version = version
        self.status = status
        self.at = at
        """Where its latest frame is in the log; 0: its latest record is in the table."""
        self.owner = owner
        self.due = due
        self.ended = ended
        self.runtime_kind = runtime_kind
        self.parent = parent
        self.record = record
        """The latest record that was decoded; an older one until the newer is asked for."""


def entry_of(record: Record, at: int) -> Entry:
    """The index's entry for a record whose frame is at ``at``."""
    task = record.task
    return Entry(
        task.id, record.version, task.status, at, record.owner, _moment(record.due_at),
        _moment(task.ended_at), task.runtime_kind, record.parent, record,
    )  # fmt: skip


def moment(at: datetime) -> int:
    """Microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND


def _moment(at: datetime | None) -> int | None:
    return None if at is None else moment(at)


class Draft:
    """A frame without its link: everything that can be prepared before the log is at hand."""

    __slots__ = ("_after_link", "_before_link")

    def __init__(
        self, kind: int, status: int, name: bytes, version: int, facts: bytes, body: bytes,
        events: Sequence[bytes],
    ) -> None:  # fmt: skip
        rest = b"".join([name, facts, body, *map(_LENGTH.pack, map(len, events)), *events])
        head = _HEAD.pack(
            HEAD_SIZE + len(rest), kind, status, len(name), version, 0, len(body), len(facts),
            len(events),
        )  # fmt: skip
        self._before_link = head[:_LINK_AT]
        self._after_link = head[_LINK_AT + _LINK.size :] + rest

    def frame(self, link: int) -> bytes:
        """The bytes to append."""
        return self._before_link + _LINK.pack(link) + self._after_link


def insertion(record: Record, events: Sequence[bytes]) -> Draft:
    """The frame of a new record."""
    task = record.task
    facts = _facts(
        record.owner,
        _moment(record.due_at),
        _moment(task.ended_at),
        task.runtime_kind,
        record.parent,
    )
    return _draft(INSERT, task.id, record, facts, encode_record(record), events)


def change(before: Record, after: Record, events: Sequence[bytes]) -> Draft:
    """The frame of one commit."""
    old, new = before.task, after.task
    facts = b""
    if (
        after.owner != before.owner
        or after.due_at != before.due_at
        or new.ended_at is not old.ended_at
    ):
        facts = _facts(after.owner, _moment(after.due_at), _moment(new.ended_at))
    return _draft(CHANGE, new.id, after, facts, encode_change(before, after), events)


def removal(task_ids: Sequence[str]) -> Draft:
    """The frame that says that some Tasks are gone."""
    return Draft(PRUNE, 0, b"", 0, b"", json.dumps(task_ids).encode(), ())


def _draft(
    kind: int, task_id: str, after: Record, facts: bytes, body: bytes, events: Sequence[bytes]
) -> Draft:
    status = STATUS_CODES[after.task.status]
    return Draft(kind, status, task_id.encode(), after.version, facts, body, events)


def _facts(*facts: Any) -> bytes:
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

    def texts(self) -> list[bytes]:
        """The events' texts, in order."""
        head = self.head
        begin = self.start + HEAD_SIZE + head.id_length + head.facts_length + head.body_length
        lengths = [length for (length,) in _LENGTH.iter_unpack(
            self.data[begin : begin + 4 * head.events]
        )]  # fmt: skip
        begin += 4 * head.events
        texts = []
        for length in lengths:
            texts.append(self.data[begin : begin + length])
            begin += length
        return texts

    def entry(self, before: Entry | None) -> Entry:
        """The Task's new entry in the index; ``before`` is the one it replaces."""
        head, facts = self.head, self.facts
        status = STATUSES[head.status]
        if facts is None:
            if before is None:
                raise ValueError(f"the frame at {self.at} continues a Task that is not stored")
            return Entry(
                before.task_id, head.version, status, self.at, before.owner, before.due,
                before.ended, before.runtime_kind, before.parent,
            )  # fmt: skip
        if len(facts) == 3:
            if before is None:
                raise ValueError(f"the frame at {self.at} continues a Task that is not stored")
            facts += [before.runtime_kind, before.parent]
        return Entry(self.task_id, head.version, status, self.at, *facts)


def read_head(data: bytes, start: int = 0) -> Head:
    """The head of the frame that begins at ``start``."""
    return Head(*_HEAD.unpack_from(data, start))


def frames_in(batch: bytes, at: int) -> Iterator[Frame]:
    """The frames of one batch, without its head; ``at`` is where the first one is in the log."""
    start = 0
    while start < len(batch):
        head = read_head(batch, start)
        if head.length < HEAD_SIZE:
            raise ValueError(f"the frame at {at + start} is shorter than its head")
        yield Frame(at + start, head, batch, start)
        start += head.length
