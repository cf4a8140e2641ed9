"""Catalog: the store's durable content up to one position: table, log, and the index over both."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from agentic_kernel import InvalidValue, TaskStatus
from agentic_kernel_engine.cursor import Cursor
from agentic_kernel_engine.errors import Unreadable
from agentic_kernel_engine.record import Record, host_of
from agentic_kernel_engine.search import Search
from agentic_kernel_engine.stored import owner_in

from .errors import Damaged
from .frames import PRUNE, Entry, Frame, Origin, frames_in, moment, origin_of
from .index import Index
from .log import Batch, Log, Position
from .states import StateFile
from .stored import Stored, grown, with_state
from .table import NOT_ENDED, RawEvent, Row, Table, events_damaged, state_gone

Change = Entry | list[str]
"""The effect of one frame on the index: a Task's new entry, or the ids of removed Tasks."""
ALL: Final = 1 << 62
"""A limit that is greater than any page."""
_LOOK: Final = 256
"""Records that one call of `Catalog.unreadable` checks."""


class _Hit(NamedTuple):
    """A match: its sort keys, and the place of its record."""

    created: int
    task_id: str
    source: Entry | Row


class _History(NamedTuple):
    """The places of a Task's events."""

    places: list[tuple[int, int]]
    """The version and the place of each frame that may have events, latest first."""
    row: Row | None
    """The Task's row in the table, if the table has earlier events."""
    gap: int | None = None
    """If set, the events of this version and of earlier versions cannot be found."""


class Catalog:
    """The content that readers see. It has no lock; its owner lets one thread in at a time.

    Args:
        states: Returns the content of a state's file.
    """

    def __init__(self, log: Log, table: Table | None, states: Callable[[StateFile], bytes]) -> None:
        self.log = log
        self.table = table
        self.index = Index()
        self.position = Position(log.start, 0)
        self.missed = False
        """Set if a state's file was gone; a later version of the record may not need that file."""
        self._states = states
        self._damaged: dict[int, str] = {}
        """The places of damaged frames, and the id of the Task of each."""
        if table is not None:
            for entry in table.held():
                self.index.put(entry)

    def advance(self, until: int) -> None:
        """Apply the batches that were published since the last call."""
        for batch in self.log.scan(self.position, until):
            self.apply(changes_of(batch, self.index.entries.get, self.log.folder, self), batch.end)

    def apply(self, changes: Iterable[Change], end: Position) -> None:
        """Apply the changes up to a position."""
        for change in changes:
            if isinstance(change, Entry):
                if change.damaged:
                    self._damaged[change.at] = change.task_id
                self.index.put(change)
            else:
                self.index.drop(change)
        self.position = end

    def keep_records(self, known: Catalog) -> None:
        """Take over the records that another catalog has already decoded."""
        for task_id, entry in self.index.entries.items():
            before = known.index.entries.get(task_id)
            if before is not None and before.version == entry.version:
                entry.record, entry.loaded = before.record, before.loaded

    def latest(self, task_id: str) -> Entry | None:
        """A Task's entry, or None if no such Task is stored."""
        entry = self.index.entries.get(task_id)
        if entry is None and self.table is not None and task_id not in self.index.removed:
            return self.table.entry(task_id)
        return entry

    def record(self, entry: Entry) -> Record:
        """The record of an entry.

        Raises:
            Unreadable: It is damaged, or has a form that this version cannot read.
        """
        known = entry.record
        if known is not None and known.version == entry.version:
            return known
        try:
            record = self._grown(entry, known)
            if record is None:
                record = self.stored(entry).record(self._states)
        except (InvalidValue, Damaged) as error:
            stored = self.stored(entry)
            why = error if isinstance(error, InvalidValue) else InvalidValue("record", str(error))
            raise stored.fault(entry.task_id, entry.version, why) from error
        except FileNotFoundError as error:
            self.missed = True
            stored, fault = self.stored(entry), state_gone(error)
            raise stored.fault(entry.task_id, entry.version, fault) from error
        entry.readable = True
        if not entry.status.terminal:
            entry.record, entry.loaded = record, entry.state
        return record

    def stored(self, entry: Entry) -> Stored:
        """A record's bytes: the last whole record, and the changes since."""
        changes: list[bytes] = []
        damage = ""
        whole: Stored | None = None
        version = entry.version
        try:
            for frame in self._back(entry):
                if frame.at in self._damaged or (frame.at == entry.at and entry.damaged):
                    damage = f"is damaged at version {version}, in the log at {frame.at}"
                elif frame.head.version != version:
                    damage = f"lacks version {version} in the log"
                version -= 1
                if frame.whole:
                    whole = Stored(frame.body)
                    break
                changes.append(frame.body)
        except Damaged as error:
            whole = Stored(b"", damage=str(error))
        if whole is None:
            row = None if self.table is None else self.table.find(entry.task_id)
            if row is None or self.table is None:
                whole = Stored(b"", damage="lacks its beginning")
            else:
                whole = self.table.stored(row)
        return Stored(
            whole.whole,
            (*whole.changes, *reversed(changes)),
            entry.state if changes or entry.state is not None else whole.state,
            damage or whole.damage,
        )

    def origin(self, entry: Entry) -> Origin | None:
        """The facts of a Task that no commit changes; None if its record cannot be read."""
        if entry.origin is None:
            with suppress(Unreadable):
                entry.origin = origin_of(self.record(entry))
        return entry.origin

    def owner(self, entry: Entry) -> str | None:
        """The owner of a Task, if that can be read."""
        if entry.damaged or not entry.runtime_kind:
            stored = self.stored(entry)
            return owner_in(stored.whole, *stored.changes)
        return entry.owner

    def events(self, entry: Entry, after: Cursor | None, limit: int) -> list[tuple[Cursor, bytes]]:
        """A page of a Task's events.

        Raises:
            Damaged: An event of the page is damaged, so the page would lack it.
        """
        places, row, gap = self._history(entry, after)
        if gap is not None:
            raise events_damaged(entry.task_id, f"the events up to version {gap}", self.log.folder)
        found: list[tuple[Cursor, bytes]] = []
        if row is not None and self.table is not None:
            found = self.table.events(row, after, limit)
        while places and len(found) < limit:
            version, at = places.pop()
            frame = self.log.frame(at)
            if not self._tells(frame):
                seen = after is not None and (version, frame.head.events) <= (
                    after[0],
                    after[1] + 1,
                )
                if seen and at not in self._damaged:
                    continue  # the caller already has all events of this frame
                raise events_damaged(entry.task_id, _events_of(version, frame), self.log.folder)
            found.extend(
                ((version, index), text)
                for index, text in enumerate(frame.texts())
                if after is None or (version, index) > after
            )
        return found[: max(limit, 0)]

    def raw_events(self, entry: Entry) -> list[RawEvent]:
        """All events of a Task as stored, damaged or not, with a placeholder for lost events."""
        places, row, gap = self._history(entry, None)
        found: list[RawEvent] = []
        if row is not None and self.table is not None:
            found = self.table.raw_events(row)
        if gap is not None:
            found.append(RawEvent.lost(gap))
        for version, at in reversed(places):
            frame = self.log.frame(at)
            if self._tells(frame):
                found += [RawEvent((version, n), text) for n, text in enumerate(frame.texts())]
            else:
                found += [RawEvent((version, n), text, sound=False) for n, text in frame.pieces()]
        return found

    def _history(self, entry: Entry, after: Cursor | None) -> _History:
        places: list[tuple[int, int]] = []
        version = entry.version
        try:
            for frame in self._back(entry):
                if after is not None and version < after[0]:
                    return _History(places, None)
                damaged = frame.at in self._damaged
                if frame.head.version != version and not damaged:
                    return _History(places, None, version)
                if frame.head.events or damaged:
                    places.append((version, frame.at))
                version -= 1
                if frame.first and (version == 0 or not damaged):
                    return _History(places, None)
        except Damaged:
            return _History(places, None, version)
        if after is not None and version < after[0]:
            return _History(places, None)
        row = None if self.table is None else self.table.find(entry.task_id)
        lost = row is None and version > 0
        if row is not None and self.table is not None and self._damaged:
            lost = self.table.version_of(row) != version
        return _History(places, row, version if lost else None)

    def _tells(self, frame: Frame) -> bool:
        """True if a frame's events are intact."""
        sound = frame.events_sound()
        if frame.at in self._damaged:
            return bool(sound) and frame.events_fit()
        return sound is not False

    def find(self, search: Search, alive: Callable[[str], bool]) -> list[Record]:
        """A page of records, without those that cannot be read."""
        gone: Collection[str] = ()
        if search.claimable:
            gone = {host for host in self.index.holders() if not (host and alive(host))}
        found: list[Record] = []
        if not search.limit:
            return found
        for hit in heapq.merge(
            self._in_memory(search, gone), self._in_table(search),
            key=_by_created if search.newest else _by_id, reverse=search.newest,
        ):  # fmt: skip
            try:
                record = self._hit(hit)
            except Unreadable:
                continue
            if search.matches(record, gone):
                found.append(record)
                if len(found) == search.limit:
                    break
        return found

    def unreadable(self, after: str | None) -> tuple[list[Unreadable], str | None]:
        """The unreadable records among the next ones, and the id to continue after."""
        found: list[Unreadable] = []
        hits = heapq.merge(self._all_in_memory(after), self._all_in_table(after), key=_by_id)
        for seen, hit in enumerate(hits, 1):
            fault = self._fault(hit)
            if fault is not None:
                found.append(fault)
            if seen == _LOOK:
                return found, hit.task_id
        return found, None

    def expired(self, ended_before: int, limit: int) -> list[str]:
        """Ids of Tasks that ended before a moment and whose record can be read."""
        found: list[str] = []
        for hit in self._ended(ended_before):
            if len(found) >= limit:
                break
            if self._fault(hit) is None:
                found.append(hit.task_id)
        return found

    def _ended(self, before: int) -> Iterator[_Hit]:
        for entry in self.index.at_rest():
            if entry.ended is not None and entry.ended < before:
                yield _Hit(0, entry.task_id, entry)
        for row in () if self.table is None else self.table.after(None):
            if NOT_ENDED < row.ended < before:
                yield from self._unhidden(row)

    def _fault(self, hit: _Hit) -> Unreadable | None:
        """The fault of a record that cannot be read, or None.

        A record that was read once without a fault is not read again.
        """
        source = hit.source
        if isinstance(source, Row):
            assert self.table is not None
            return self.table.fault(source)
        if not source.readable:
            try:
                self.record(source)
            except Unreadable as error:
                return error
        return None

    def _hit(self, hit: _Hit) -> Record:
        source = hit.source
        if isinstance(source, Entry):
            return self.record(source)
        assert self.table is not None
        try:
            return self.table.record(source)
        except FileNotFoundError as error:
            self.missed = True
            raise Unreadable(hit.task_id, 0, why=str(error)) from error

    def _in_memory(self, search: Search, gone: Collection[str]) -> Iterator[_Hit]:
        due = None if search.due is None else moment(search.due)
        since = None if search.created_from is None else moment(search.created_from)
        before = None if search.created_before is None else moment(search.created_before)
        deep = (
            search.agent is not None
            or search.realms is not None
            or bool(search.labels)
            or since is not None
            or before is not None
        )
        if search.newest:
            entries = self.index.newest(search, gone, self.origin)
        else:
            entries = self.index.candidates(search, gone)
        for entry in entries:
            if not (
                (search.status is None or entry.status is search.status)
                and (search.kinds is None or entry.runtime_kind in search.kinds)
                and (search.owner is None or _held_by(entry, search.owner))
                and (not search.claimable or _claimable(entry, gone))
                and (search.parent is None or entry.parent == search.parent)
                and (due is None or _is_due(entry, due))
            ):
                continue
            created = 0
            if deep or search.newest:
                origin = self.origin(entry)
                if origin is None or not (
                    (search.agent is None or origin.agent == search.agent)
                    and (search.realms is None or origin.realm in search.realms)
                    and (not search.labels or search.labels.items() <= origin.labels.items())
                    and (since is None or origin.created >= since)
                    and (before is None or origin.created < before)
                ):
                    continue
                created = origin.created
            yield _Hit(created, entry.task_id, entry)

    def _in_table(self, search: Search) -> Iterator[_Hit]:
        """Matches among the Tasks at rest in the table; all other Tasks are in memory."""
        table = self.table
        if table is None or search.owner is not None or search.claimable or search.due is not None:
            return
        if search.status is not None and not search.status.terminal:
            return
        for row in table.matching(search):
            for hit in self._unhidden(row):
                created = table.created_of(row) if search.newest else 0
                yield hit._replace(created=created)

    def _all_in_memory(self, after: str | None) -> Iterator[_Hit]:
        entries = self.index.entries
        return (_Hit(0, task_id, entries[task_id]) for task_id in self.index.ids_after(after))

    def _all_in_table(self, after: str | None) -> Iterator[_Hit]:
        for row in () if self.table is None else self.table.after(after):
            yield from self._unhidden(row)

    def _unhidden(self, row: Row) -> Iterator[_Hit]:
        assert self.table is not None
        task_id = self.table.id_of(row)
        if task_id is not None and not self.index.hides(task_id):
            yield _Hit(0, task_id, row)

    def _grown(self, entry: Entry, known: Record | None) -> Record | None:
        """The record, built from an older one that was decoded before; None if not possible."""
        if known is None:
            return None
        bodies: list[bytes] = []
        for frame in self._back(entry):
            if frame.whole or frame.at in self._damaged:
                return None
            bodies.append(frame.body)
            if known.version == frame.head.version - 1:
                break
        else:
            return None
        record = grown(known, reversed(bodies))
        if entry.state is None or entry.state == entry.loaded:
            return record
        return with_state(record, entry.state, self._states)

    def _back(self, entry: Entry) -> Iterator[Frame]:
        """A Task's frames from the latest one back; earlier commits are in the table."""
        at, version, doubtful = entry.at, entry.version, False
        while at >= self.log.start:
            frame = self.log.frame(at)
            if doubtful and not self._continues(entry, frame, version):
                raise self._astray(at)
            yield frame
            if frame.head.link >= at:
                raise self._astray(at)
            doubtful, version = at in self._damaged, version - 1
            at = frame.head.link

    def _astray(self, at: int) -> Damaged:
        return Damaged(
            f"the log in {self.log.folder} does not lead from the frame at {at} to the one before "
            "it; restore the folder from a copy"
        )

    def _continues(self, entry: Entry, frame: Frame, version: int) -> bool:
        """True if a frame that a damaged frame links to is this Task's frame of that version."""
        if frame.at in self._damaged:
            return self._damaged[frame.at] == entry.task_id
        return frame.head.version == version and frame.doubtful_id == entry.task_id

    def named_at(self, at: int) -> str | None:
        """The id of the Task whose frame is at a position of the log, or None."""
        if not self.log.start <= at < self.position.at:
            return None
        with suppress(Damaged):
            return self._damaged.get(at) or self.log.frame(at).doubtful_id
        return None


def changes_of(
    batch: Batch,
    latest: Callable[[str], Entry | None],
    folder: str,
    catalog: Catalog | None = None,
) -> list[Change]:
    """The changes that a batch makes to the index.

    Args:
        folder: The path of the folder, for the message.
        catalog: The content so far, if the batch may be damaged.

    Raises:
        Damaged: The batch does not tell which Tasks it changes.
    """
    if batch.damaged and catalog is not None:
        return _Damage(catalog, latest).changes(list(frames_in(batch.frames, batch.at)))
    changes: list[Change] = []
    fresh: dict[str, Entry | None] = {}
    try:
        for frame in frames_in(batch.frames, batch.at):
            if frame.head.kind == PRUNE:
                changes.append(frame.removed)
                fresh.update(dict.fromkeys(frame.removed))
                continue
            task_id = frame.task_id
            before = fresh[task_id] if task_id in fresh else latest(task_id)
            try:
                entry = frame.entry(before)
            except (ValueError, TypeError, IndexError):
                if before is None and catalog is not None:
                    changes += _Damage(catalog, latest).mistaken(frame)
                entry = frame.damaged_entry(task_id, before)
            fresh[task_id] = entry
            changes.append(entry)
    except (ValueError, TypeError, IndexError) as error:
        raise Damaged(
            f"the log in {folder} cannot be read at {batch.at}: {error}; restore the folder from "
            "a copy"
        ) from error
    return changes


class _Damage:
    """The changes that a damaged batch makes to the index.

    The lengths of its frames are intact, so each frame is judged by itself. A frame's id is
    trusted if the frame matches its checksum, or if a second place names the same Task: the
    frame that it links to, or the record in its body.
    """

    def __init__(self, catalog: Catalog, latest: Callable[[str], Entry | None]) -> None:
        self._catalog = catalog
        self._known = latest
        self._fresh: dict[str, Entry | None] = {}
        self._named: dict[int, str] = {}
        """The places of the batch's frames, and the id of the Task of each."""

    def changes(self, frames: list[Frame]) -> list[Change]:
        """The changes, in order."""
        changes: list[Change] = []
        for frame, sound in zip(frames, _sound(frames), strict=True):
            if sound and frame.head.kind == PRUNE:
                changes.append(frame.removed)
                self._fresh.update(dict.fromkeys(frame.removed))
            elif sound or not _removes(frame):
                changes += self._change(frame, sound=sound)
        return changes

    def mistaken(self, frame: Frame) -> list[Change]:
        """The removal of an entry that a Task's damaged first frame made under a wrong id."""
        link = frame.head.link
        named = self._name_at(link)
        if named is None or named == frame.doubtful_id:
            return []
        wrong = self._latest(named)
        if wrong is None or not wrong.damaged or wrong.at != link or wrong.version > 1:
            return []
        self._fresh[named] = None
        return [[named]]

    def _change(self, frame: Frame, *, sound: bool) -> list[Change]:
        task_id = frame.doubtful_id if sound else self._whose(frame)
        before = self._latest(task_id)
        changes = self.mistaken(frame) if sound and before is None else []
        if before is not None and not frame.first:
            sound = sound and self._follows(frame, before)  # the checksum does not cover the link
        entry = frame.damaged_entry(task_id, before)
        if sound:
            with suppress(ValueError, TypeError, IndexError):
                entry = frame.entry(before, doubtful=frame.events_sound() is False)
        self._fresh[task_id] = entry
        self._named[frame.at] = task_id
        return [*changes, entry]

    def _follows(self, frame: Frame, before: Entry) -> bool:
        link = frame.head.link
        return link == before.at or (not before.at and link < self._catalog.log.start)

    def _latest(self, task_id: str) -> Entry | None:
        return self._fresh[task_id] if task_id in self._fresh else self._known(task_id)

    def _name_at(self, at: int) -> str | None:
        return self._named.get(at) or self._catalog.named_at(at)

    def _whose(self, frame: Frame) -> str:
        """The id of the Task of a frame that does not match its checksum."""
        said, link = frame.doubtful_id, frame.head.link
        told = frame.told()
        if told is not None:
            other = told[0]
            return other if frame.holds(other) or frame.sound_as(other) else said
        for task_id in (said, self._name_at(link)):
            before = None if task_id is None else self._latest(task_id)
            if before is not None and link and before.at == link:
                return before.task_id
        if self._latest(said) is None:
            known = [*self._fresh, *self._catalog.index.entries]
            return next((task_id for task_id in known if frame.sound_as(task_id)), said)
        return said


def _removes(frame: Frame) -> bool:
    """True if a damaged frame is a removal, which has no id of its own; it is then ignored."""
    head = frame.head
    return not (head.id_length or head.version or head.link)


def _sound(frames: list[Frame]) -> list[bool]:
    """For each frame of a damaged batch, True if it is intact.

    Version 0.1 wrote frames without their own checksum. Such a frame counts as intact only if the
    damage is found in another frame.
    """
    told = [frame.sound() for frame in frames]
    if False not in told:
        told = [
            _legible(frame) if sound is None else sound
            for frame, sound in zip(frames, told, strict=True)
        ]
    found = False in told
    return [found if sound is None else sound for sound in told]


def _legible(frame: Frame) -> bool | None:
    """False if a frame is clearly damaged, else None."""
    try:
        _ = frame.facts, frame.task_id
        if frame.whole:
            Stored(frame.body).folded()
        else:
            json.loads(frame.body)
    except (ValueError, TypeError):
        return False
    return None


def _events_of(version: int, frame: Frame) -> str:
    last = frame.head.events - 1
    if not frame.events_fit():
        return f"event ({version}, 0) or one after it at version {version}"
    if last < 1:
        return f"event ({version}, 0)"
    return f"one of the events ({version}, 0) to ({version}, {last})"


def _by_id(hit: _Hit) -> str:
    return hit.task_id


def _by_created(hit: _Hit) -> tuple[int, str]:
    return hit.created, hit.task_id


def _held_by(entry: Entry, host: str) -> bool:
    return entry.owner is not None and host_of(entry.owner) == host


def _claimable(entry: Entry, gone: Collection[str]) -> bool:
    return entry.status is TaskStatus.RUNNING and (
        entry.owner is None or host_of(entry.owner) in gone
    )


def _is_due(entry: Entry, due: int) -> bool:
    return entry.status is TaskStatus.PAUSED and entry.due is not None and entry.due <= due
