"""Table: the compacted, immutable part of the store; Tasks in order of their ids.

    block …     one Task: head, id, record, a directory of its events, the events
    rows        by ordinal: place of the block, end of the Task, its kind, its status
    facts       by ordinal: creation of the Task, its agent, its realm, its version, its id
    ids         the ids, for `facts`
    statuses    per status: the ordinals, in order
    parents     (digest of the parent's id, ordinal), sorted
    labels      (digest of a label and its text, ordinal), sorted
    created     (creation of the Task, ordinal), sorted
    held        entries that the index keeps in memory: Tasks not ended, or with an owner
    footer      JSON: the places of all sections; then its length, checksum and place

A search is a binary search over fixed-size rows. So the number of small reads for a page, or for
one Task, grows with the logarithm of the number of Tasks.

Version 0.1 wrote tables without facts, ids, labels and created, and ignores them when it reads.
In such a table these facts are read from the records, once while the table is open.
"""

from __future__ import annotations

import json
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from struct import Struct
from typing import Any, Final, NamedTuple

from agentic_kernel import InvalidValue, TaskStatus
from agentic_kernel_engine.cursor import Cursor
from agentic_kernel_engine.errors import Unreadable
from agentic_kernel_engine.record import Record
from agentic_kernel_engine.search import Search

from .errors import Damaged
from .files import File
from .frames import STATUS_CODES, STATUSES, Entry, Origin, moment, origin_of
from .states import StateFile
from .stored import Stored, decode_stored

MAGIC: Final = b"AKtable\x01"
BLOCK: Final = Struct("<IQIHHII")
EVENT: Final = Struct("<QiIII")
ROW: Final = Struct("<QqIB3x")
FACTS: Final = Struct("<qIIQQII")
ORDINAL: Final = Struct("<I")
PAIR: Final = Struct("<QI")
CREATED: Final = Struct("<qI")
TRAILER: Final = Struct("<IIQ8s")
NOT_ENDED: Final = -(1 << 63)
FLAT: Final = 0
"""The record's bytes are one whole record."""
STORED: Final = 1
"""The record's bytes are the output of `Stored.encode`."""
_GUESS: Final = 1024
_CHECKED: Final = 1 << 16
"""Version 0.1 has one checksum for a block's id and record; a longer block's id is not checked."""
_WHOLE: Final = (1 << 31) - 1
"""The place of the entry that stands for all lost events up to a version."""
_RUN: Final = 4096
"""Rows that a scan reads at once."""


class Row(NamedTuple):
    """The facts of a Task that can be read without its block."""

    ordinal: int
    offset: int
    ended: int
    kind: int
    status: int


class Facts(NamedTuple):
    """The facts that filters compare and that are not in the row."""

    created: int
    agent: int
    realm: int
    version: int
    id_at: int
    id_length: int
    id_crc: int


class Block(NamedTuple):
    """The head of a Task's block."""

    crc: int
    version: int
    record_length: int
    id_length: int
    form: int
    events: int
    events_length: int

    @property
    def events_at(self) -> int:
        """The offset of the directory of events in the block."""
        return BLOCK.size + self.id_length + self.record_length


class Section:
    """Fixed-size items in order, in a part of a file or in memory."""

    __slots__ = ("_base", "_form", "_read", "count")

    def __init__(
        self, form: Struct, count: int, read: Callable[[int, int], bytes], base: int = 0
    ) -> None:
        self._form = form
        self._read = read
        self._base = base
        self.count = count

    @classmethod
    def of(cls, form: Struct, items: Iterable[Sequence[Any]]) -> Section:
        """A section in memory."""
        data = b"".join(form.pack(*item) for item in items)
        return cls(form, len(data) // form.size, lambda size, at: data[at : at + size])

    def item(self, index: int) -> tuple[Any, ...]:
        size = self._form.size
        return self._form.unpack(self._read(size, self._base + index * size))

    def run(self, first: int, count: int) -> list[tuple[Any, ...]]:
        """Consecutive items."""
        size = self._form.size
        data = self._read(count * size, self._base + first * size)
        return list(self._form.iter_unpack(data))

    def up(self, first: int) -> Iterator[tuple[Any, ...]]:
        """Items from ``first`` to the end."""
        run = 64
        while first < self.count:
            run = min(run, self.count - first)
            yield from self.run(first, run)
            first, run = first + run, _RUN

    def down(self, end: int) -> Iterator[tuple[Any, ...]]:
        """Items before ``end``, backwards."""
        run = 64
        while end > 0:
            run = min(run, end)
            yield from reversed(self.run(end - run, run))
            end, run = end - run, _RUN

    def first_at(self, wanted: tuple[Any, ...]) -> int:
        """The index of the first item that is not less than ``wanted``."""
        return bisect_left(range(self.count), wanted, key=self.item)


def table_name(number: int) -> str:
    """The name of a table's file."""
    return f"table-{number:06d}"


def digest(task_id: str) -> int:
    """The digest of an id, 64 bits as an integer."""
    return int.from_bytes(blake2b(task_id.encode(), digest_size=8).digest(), "little")


def label_digest(label: str, text: str) -> int:
    """The digest of a label and its text, 64 bits as an integer."""
    return digest(f"{label}\0{text}")


class Table:
    """One table, open for reading.

    Args:
        states: Returns the content of a state's file.
    """

    def __init__(self, file: File, states: Callable[[StateFile], bytes]) -> None:
        self.file = file
        self._states = states
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
        self._rows = self._section(ROW, "rows", self.count)
        self._facts: Section | None = None
        if "facts" in self._footer:
            self._facts = self._section(FACTS, "facts", self.count)
            self._created = self._section(CREATED, "created", self.count)
            self._labels = self._section(PAIR, *self._footer["labels"])
            self._agents: list[str] = self._footer["agents"]
            self._realms: list[str] = self._footer["realms"]
        self._names: list[bytes] | None = None
        """The ids in the order of `facts`, if both are in memory."""
        self.states: frozenset[str] = frozenset(self._json("states", []))
        """Names of the states' files that the table refers to."""
        self.faults: dict[int, Unreadable] = {}
        """The faults of the unreadable records that were checked, by ordinal."""
        self.looked = 0
        """All ordinals below this one were checked."""

    def held(self) -> Iterator[Entry]:
        """Entries of the Tasks that have not ended, or that have an owner."""
        more = self._json("held_more", None)
        for place, (task_id, version, status, *facts) in enumerate(self._json("held", [])):
            state, origin = (None, None) if more is None else more[place]
            owner, due, ended, kind, parent = facts
            yield Entry(
                task_id, version, STATUSES[status], 0, owner, due, ended, kind, parent,
                None if state is None else StateFile(*state),
                None if origin is None else Origin(*origin),
            )  # fmt: skip

    def find(self, task_id: str) -> Row | None:
        """The row of a Task, or None."""
        if not self.count or task_id > self._last:
            return None
        place = bisect_left(range(self.count), task_id, key=self._sort_id)
        if place == self.count:
            return None
        row = self.row(place)
        return row if self.id_of(row) == task_id else None

    def entry(self, task_id: str) -> Entry | None:
        """The index's entry for a Task at rest, or None."""
        row = self.find(task_id)
        if row is None:
            return None
        state = self.stored(row).state if self.states else None
        return Entry(
            task_id, self.version_of(row), STATUSES[row.status], 0, None, None, row.ended,
            self.kinds[row.kind], None, state,
        )  # fmt: skip

    def row(self, ordinal: int) -> Row:
        offset, ended, kind, status = self._rows.item(ordinal)
        return Row(ordinal, offset, ended, kind, status)

    def id_of(self, row: Row) -> str | None:
        """A Task's id; None if the id is damaged."""
        if self._facts is None:
            return self._block_id(row, None)
        facts = Facts(*self._facts.item(row.ordinal))
        if self._names is not None:
            name = self._names[row.ordinal]
        else:
            name = self.file.read(facts.id_length, self._footer["ids"] + facts.id_at)
        if zlib.crc32(name) == facts.id_crc:
            return name.decode(errors="replace")
        return self._block_id(row, facts.id_crc)

    def record(self, row: Row) -> Record:
        """The record of one Task, after its checksum was compared.

        Raises:
            Unreadable: The record is damaged, or has a form that this version cannot read.
            FileNotFoundError: Its state's file is gone.
        """
        stored = self.stored(row)
        try:
            return stored.record(self._states)
        except InvalidValue as error:
            known = self._some_id(row)
            raise stored.fault(known, self.version_of(row), error) from error

    def stored(self, row: Row) -> Stored:
        """A record's bytes; ``damage`` says if they do not match their checksum."""
        try:
            block, data = self._block(row)
            if len(data) < block.events_at <= self._room(row):
                data = self.file.read(block.events_at, row.offset)
            text = data[BLOCK.size + block.id_length : block.events_at]
            if zlib.crc32(data[4 : block.events_at]) != block.crc or len(data) < block.events_at:
                return Stored(text, damage=f"is damaged in {self.file.name} at {row.offset}")
            return Stored(text) if block.form == FLAT else decode_stored(text)
        except (ValueError, TypeError, struct.error, Damaged) as error:
            return Stored(b"", damage=f"is damaged in {self.file.name} at {row.offset}: {error}")

    def fault(self, row: Row) -> Unreadable | None:
        """The fault of a record that cannot be read, or None; each record is checked only once."""
        if row.ordinal >= self.looked:
            try:
                self.record(row)
            except Unreadable as error:
                self.faults[row.ordinal] = error
            except FileNotFoundError as error:
                stored = self.stored(row)
                self.faults[row.ordinal] = stored.fault(
                    self.id_of(row) or "", self.version_of(row), state_gone(error)
                )
            if row.ordinal == self.looked:
                self.looked += 1
        return self.faults.get(row.ordinal)

    def copied(self, row: Row, extras: Extras) -> tuple[bytes, Item, str | None]:
        """A Task's block, its `Item` and its state's file name, to copy it to another table."""
        data = self.file.read(self._room(row), row.offset)
        facts = Facts(*extras.facts.item(row.ordinal))
        item = Item(
            self.id_of(row), facts.version, row.status, row.ended, self.kinds[row.kind],
            facts.created, extras.agents[facts.agent], extras.realms[facts.realm],
            extras.labels.get(row.ordinal, ()), extras.parents.get(row.ordinal),
        )  # fmt: skip
        state = self.stored(row).state if self.states else None
        return data, item, None if state is None else state.name

    def events(self, row: Row, after: Cursor | None, limit: int) -> list[tuple[Cursor, bytes]]:
        """A page of a Task's events."""
        block, _ = self._block(row)
        directory = Section(EVENT, block.events, self.file.read, row.offset + block.events_at)
        texts = row.offset + block.events_at + block.events * EVENT.size
        if texts + block.events_length != row.offset + self._room(row):
            raise self._events_damaged(row, "the list of the events")

        def key(index: int) -> Cursor:
            version, place, *_ = directory.item(index)
            return version, place

        first = 0 if after is None else bisect_right(range(block.events), after, key=key)
        count = max(min(limit, block.events - first), 0)
        if not count:
            return []
        entries = directory.run(first, count)
        if not _in_row(entries):
            raise self._events_damaged(row, "the list of the events")
        begin = entries[0][2]
        data = self.file.read(max(entries[-1][2] + entries[-1][3] - begin, 0), texts + begin)
        found = []
        for version, place, offset, length, crc in entries:
            text = data[offset - begin : offset - begin + length]
            if zlib.crc32(text) != crc:
                if place == _WHOLE:
                    raise self._events_damaged(row, f"the events up to version {version}")
                raise self._events_damaged(row, f"event ({version}, {place})")
            found.append(((version, place), text))
        return found

    def raw_events(self, row: Row) -> list[RawEvent]:
        """All events of a Task as stored, damaged or not, with a placeholder for lost events."""
        try:
            block, _ = self._block(row)
            texts = row.offset + block.events_at + block.events * EVENT.size
            if texts + block.events_length != row.offset + self._room(row):
                return [RawEvent.lost(self.version_of(row))]
            directory = Section(EVENT, block.events, self.file.read, row.offset + block.events_at)
            entries = directory.run(0, block.events)
            data = self.file.read(block.events_length, texts)
        except (struct.error, Damaged):
            return [RawEvent.lost(self.version_of(row))]
        if not _in_row(entries):
            return [RawEvent.lost(self.version_of(row))]
        found = []
        for version, place, offset, length, crc in entries:
            text = data[offset : offset + length]
            found.append(RawEvent((version, place), text, sound=zlib.crc32(text) == crc))
        return found

    def after(self, task_id: str | None) -> Iterator[Row]:
        """Rows of the Tasks with a greater id than ``task_id``, in order."""
        first = 0 if task_id is None else self._after(task_id)
        for ordinal, row in enumerate(self._rows.up(first), first):
            yield Row(ordinal, *row)

    def matching(self, search: Search) -> Iterator[Row]:
        """Rows that may match, in the order of the search. The caller checks their records."""
        test = self._test(search)
        if test is None:
            return
        rows = self._newest(search) if search.newest else self._ascending(search)
        for row in rows:
            if test(row):
                yield row

    def created_of(self, row: Row) -> int:
        """The creation time of the Task, in microseconds since 1970."""
        return self._created_at(row.ordinal)

    def extras(self) -> Extras:
        """The data that a copy of this table needs beyond its rows and blocks."""
        facts = self._all_facts()
        labels: dict[int, list[int]] = {}
        for wanted, ordinal in self._labels.up(0):
            labels.setdefault(ordinal, []).append(wanted)
        parents: dict[int, int] = {}
        for wanted, ordinal in self._parents().up(0):
            parents[ordinal] = wanted
        return Extras(facts, self._agents, self._realms, labels, parents)

    def _ascending(self, search: Search) -> Iterator[Row]:
        pairs = self._rarest(search)
        if pairs is not None:
            section, wanted = pairs
            first = 0 if search.after is None else self._after(search.after)
            return map(self.row, self._ordinals(section, wanted, first))
        if search.status is not None:
            return self._after_with(search.status, search.after)
        return self.after(search.after)

    def _newest(self, search: Search) -> Iterator[Row]:
        self._all_facts()
        pairs = self._rarest(search)
        created = self._created
        end = (1 << 62, 0)
        if search.created_before is not None:
            end = min(end, (moment(search.created_before), 0))
        if search.older_than is not None:
            at, task_id = search.older_than
            end = min(end, (moment(at), self._from(task_id)))
        places: Iterable[tuple[Any, ...]]
        if pairs is None:
            places = created.down(created.first_at(end))
        else:
            found = ((self._created_at(place), place) for place in self._ordinals(*pairs, 0))
            places = sorted((one for one in found if one < end), reverse=True)
        since = None if search.created_from is None else moment(search.created_from)
        for at, ordinal in places:
            if since is not None and at < since:
                return
            yield self.row(ordinal)

    def _created_at(self, ordinal: int) -> int:
        return Facts(*self._all_facts().item(ordinal)).created

    def _rarest(self, search: Search) -> tuple[Section, int] | None:
        """The parent or label of the search that has the fewest Tasks; None if it has neither."""
        asked: list[tuple[Section, int]] = []
        if search.parent is not None:
            asked.append((self._parents(), digest(search.parent)))
        if search.labels:
            self._all_facts()
            asked += [(self._labels, label_digest(*label)) for label in search.labels.items()]
        if not asked:
            return None
        return min(asked, key=lambda one: one[0].first_at((one[1] + 1, 0)) - one[0].first_at(
            (one[1], 0)
        ))  # fmt: skip

    def _ordinals(self, section: Section, wanted: int, first: int) -> Iterator[int]:
        for found, ordinal in section.up(section.first_at((wanted, first))):
            if found != wanted:
                return
            yield ordinal

    def _test(self, search: Search) -> Callable[[Row], bool] | None:
        """A filter for rows and their facts; None if no row can match."""
        status = None if search.status is None else STATUS_CODES[search.status]
        kinds = None if search.kinds is None else _codes(self.kinds, search.kinds)
        deep = (
            search.agent is not None
            or search.realms is not None
            or search.created_from is not None
            or search.created_before is not None
        )
        if not deep:
            return lambda row: (
                (status is None or row.status == status) and (kinds is None or row.kind in kinds)
            )
        facts = self._all_facts()
        agents = None if search.agent is None else _codes(self._agents, (search.agent,))
        realms = None if search.realms is None else _codes(self._realms, search.realms)
        if (agents is not None and not agents) or (realms is not None and not realms):
            return None
        since = -(1 << 62) if search.created_from is None else moment(search.created_from)
        before = 1 << 62 if search.created_before is None else moment(search.created_before)

        def test(row: Row) -> bool:
            if (status is not None and row.status != status) or (
                kinds is not None and row.kind not in kinds
            ):
                return False
            created, agent, realm, *_ = facts.item(row.ordinal)
            return (
                since <= created < before
                and (agents is None or agent in agents)
                and (realms is None or realm in realms)
            )

        return test

    def _after_with(self, status: TaskStatus, task_id: str | None) -> Iterator[Row]:
        """Like `after`, but only Tasks with one status."""
        start, count = self._footer["statuses"].get(status.value, (0, 0))
        ordinals = Section(ORDINAL, count, self.file.read, start)
        first = 0 if task_id is None else ordinals.first_at((self._after(task_id),))
        for (ordinal,) in ordinals.up(first):
            yield self.row(ordinal)

    def _after(self, task_id: str) -> int:
        """The ordinal of the first Task with a greater id."""
        return bisect_right(range(self.count), task_id, key=self._sort_id)

    def _from(self, task_id: str) -> int:
        """The ordinal of the first Task with that id or a greater one."""
        return bisect_left(range(self.count), task_id, key=self._sort_id)

    def _sort_id(self, ordinal: int) -> str:
        """The id of an ordinal; if it is damaged, the id of the nearest Task before it."""
        for place in range(ordinal, -1, -1):
            found = self.id_of(self.row(place))
            if found is not None:
                return found
        return ""

    def _some_id(self, row: Row) -> str:
        return self.id_of(row) or self._doubtful_id(row)

    def _doubtful_id(self, row: Row) -> str:
        block, data = self._block(row, BLOCK.size + 64)
        return data[BLOCK.size : BLOCK.size + min(block.id_length, 64)].decode(errors="replace")

    def _block_id(self, row: Row, crc: int | None) -> str | None:
        """The id in the block, if it matches its checksum, else None."""
        try:
            block, data = self._block(row, BLOCK.size + 64 if crc is not None else _GUESS)
            end = BLOCK.size + block.id_length
            if crc is None and block.events_at <= _CHECKED:
                end = block.events_at  # version 0.1 has no checksum of the id alone
            if len(data) < end <= self._room(row):
                data = self.file.read(end, row.offset)
            name = data[BLOCK.size : BLOCK.size + block.id_length]
            if crc is not None:
                return name.decode() if zlib.crc32(name) == crc else None
            sound = end < block.events_at or zlib.crc32(data[4:end]) == block.crc
            return name.decode() if sound else None
        except (ValueError, Damaged):
            return None

    def version_of(self, row: Row) -> int:
        """The version of a Task's record."""
        if self._facts is not None:
            return Facts(*self._facts.item(row.ordinal)).version
        return self._block(row)[0].version

    def _parents(self) -> Section:
        return self._section(PAIR, *self._footer["parents"])

    def _all_facts(self) -> Section:
        """The facts; for a table of version 0.1, they are read from all its records first."""
        if self._facts is None:
            self._learn()
        assert self._facts is not None
        return self._facts

    def _learn(self) -> None:
        facts, created, labels = [], [], []
        agents: dict[str, int] = {}
        realms: dict[str, int] = {}
        names: list[bytes] = []
        for row in self.after(None):
            task_id, version = self.id_of(row), self.version_of(row)
            try:
                origin = origin_of(self.record(row))
            except (Unreadable, FileNotFoundError):
                origin = Origin(0, "", "", {})
            name = (task_id or "").encode()
            names.append(name)
            facts.append(Facts(
                origin.created, agents.setdefault(origin.agent, len(agents)),
                realms.setdefault(origin.realm, len(realms)), version, 0, len(name),
                zlib.crc32(name) ^ (task_id is None),
            ))  # fmt: skip
            created.append((origin.created, row.ordinal))
            labels += [(label_digest(*label), row.ordinal) for label in origin.labels.items()]
        self._created = Section.of(CREATED, sorted(created))
        self._labels = Section.of(PAIR, sorted(labels))
        self._agents, self._realms, self._names = list(agents), list(realms), names
        self._facts = Section.of(FACTS, facts)

    def _section(self, form: Struct, place: str | int, count: int) -> Section:
        base = self._footer[place] if isinstance(place, str) else place
        return Section(form, count, self.file.read, base)

    def _json(self, name: str, nothing: Any) -> Any:
        """A list that the footer refers to and that is stored outside it."""
        if name not in self._footer:
            return nothing
        offset, length, crc = self._footer[name]
        data = self.file.read(length, offset)
        if zlib.crc32(data) != crc:
            raise self._damaged(f"has a damaged list: {name}")
        return json.loads(data)

    def _room(self, row: Row) -> int:
        """The block's length: blocks follow each other, and the rows follow the last block."""
        last = row.ordinal + 1 == self.count
        end: int = self._footer["rows"] if last else self._rows.item(row.ordinal + 1)[0]
        return max(end - row.offset, 0)

    def _block(self, row: Row, size: int = _GUESS) -> tuple[Block, bytes]:
        data = self.file.read(size, row.offset)
        if len(data) < BLOCK.size:
            raise self._damaged(f"ends within the task at {row.offset}")
        return Block(*BLOCK.unpack_from(data)), data

    def _events_damaged(self, row: Row, which: str) -> Damaged:
        return events_damaged(self._some_id(row), which, self.file.path)

    def _damaged(self, what: str) -> Damaged:
        return Damaged(f"{self.file.path} {what}; restore the folder from a copy")


class RawEvent(NamedTuple):
    """An event as stored, damaged or not."""

    id: Cursor
    text: bytes
    sound: bool = True
    """False if the event is damaged, so that reading it raises."""

    @classmethod
    def lost(cls, version: int) -> RawEvent:
        """The placeholder for all events up to a version, if they cannot be found."""
        return cls((max(version, 0), _WHOLE), b"", sound=False)

    @property
    def crc(self) -> int:
        """The checksum to store in a table: a wrong one if the event is damaged."""
        return zlib.crc32(self.text) ^ (0 if self.sound else 0xFFFFFFFF)


def events_damaged(task_id: str, which: str, path: str) -> Damaged:
    """Error for damaged events of a Task.

    Args:
        path: The folder or the file that has them.
    """
    return Damaged(
        f"{which} of task {ascii(task_id)[:80]} cannot be read from {path}, because the disk "
        "damaged it; restore the folder from a copy, or kill the Task"
    )


def _in_row(entries: Sequence[tuple[Any, ...]]) -> bool:
    """True if consecutive entries of a directory of events are in order and without a gap."""
    return all(
        one[:2] < other[:2] and one[2] + one[3] == other[2] for one, other in pairwise(entries)
    )


class Item(NamedTuple):
    """The facts that a table keeps of a Task outside its block."""

    task_id: str | None
    """None if the id is damaged."""
    version: int
    status: int
    ended: int
    kind: str
    created: int
    agent: str
    realm: str
    labels: Sequence[int] = ()
    """The digests of its labels."""
    parent: int | None = None
    """The digest of the parent's id."""


class Extras(NamedTuple):
    """The data of a table beyond its rows and blocks, in the form that its successor needs."""

    facts: Section
    agents: list[str]
    realms: list[str]
    labels: dict[int, list[int]]
    """The digests of a Task's labels, by ordinal."""
    parents: dict[int, int]
    """The digest of a Task's parent, by ordinal."""


def state_gone(error: FileNotFoundError) -> InvalidValue:
    """Error for a record whose state's file is gone."""
    return InvalidValue("record.state", f"is gone: {error.filename or error}")


def _codes(names: Sequence[str], wanted: Iterable[str]) -> frozenset[int]:
    asked = frozenset(wanted)
    return frozenset(code for code, name in enumerate(names) if name in asked)
