"""Store: the port that keeps every Task's record and events.

The store is the only channel between hosts. It is small on purpose: a conditional write, a few
reads, and one question about liveness. The Host alone gives a record its meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, Unpack, runtime_checkable

from .cursor import Cursor
from .errors import Unreadable
from .record import Record
from .search import SearchOptions


@dataclass(frozen=True, slots=True)
class StoreTraits:
    """Properties that a store declares, so that a Host can save work."""

    never_waits: bool = False
    """True if no method ever suspends its caller. A cancellation then cannot interrupt a write, so
    the Host does not shield its writes (R4). A subclass that suspends must declare False."""
    listens: bool = False
    """True if the store is `Listening`: it reports writes of other Hosts at once (R8)."""


class Store(Protocol):
    """Durable records with optimistic concurrency.

    Several coroutines, and all processes that share the store, may call every method at once. A
    read shows at least the writes that were acknowledged before it began (C6: read your writes; C7:
    no reader sees a Task run backwards). It returns whole records (C3: no reader sees half a
    transition) and does not wait for a writer (C4: readers do not wait). A write that returns is
    durable to the degree that the store documents. A write that raises any `Exception` but
    `UnknownOutcome` stored nothing. A write that raises a cancellation of its own, or another fault
    that is no `Exception`, counts as one of unknown outcome.

    If the caller of a write is cancelled, the store settles the write before the cancellation goes
    on: a `load` that follows sees the write if and only if it landed (R5).

    A record that cannot be read hides no other record (R22): `load` raises `Unreadable` for it,
    every page skips it, `unreadable` lists it, and `bury` replaces it by a readable one.
    """

    @property
    def traits(self) -> StoreTraits:
        """The properties that this store declares; they never change while the store lives."""
        ...

    async def join(self, host: str) -> None:
        """Declare ``host`` (a nonce) alive, until `leave` or until its process or lease dies.

        The store holds the lock or lease of the Host before the first write that names the Host as
        an owner, and renews it without the caller's event loop (R14). A second join of a living
        host changes nothing.

        Raises:
            HostGone: The host left, or its process or lease died; its name never lives again.
            StoreError: The store cannot be opened.
        """
        ...

    async def leave(self, host: str) -> None:
        """Declare ``host`` gone for good; other Hosts may now claim the Tasks that it owns."""
        ...

    async def alive(self, owner: str) -> bool:
        """True if the Host of ``owner`` is alive.

        After it was False it stays False: a Host that left or died cannot join again by its name.
        """
        ...

    async def insert(self, record: Record, events: Sequence[bytes] = ()) -> None:
        """Store a new record (its version is 1) together with its first events.

        The Task's input, ``terms`` and ``realm`` are written here and never again.

        Raises:
            TaskExists: The id is taken; nothing is written.
        """
        ...

    async def load(self, task_id: str) -> Record:
        """The latest record.

        Raises:
            TaskNotFound: No such Task is stored.
            Unreadable: The record is stored, but this version cannot read it.
        """
        ...

    async def load_many(self, task_ids: Collection[str]) -> Mapping[str, Record]:
        """The latest records of those ids that are stored and can be read."""
        ...

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        """Replace ``before`` by ``after`` and append the events, together or not at all.

        Args:
            before: The record that the caller last read. The commit is refused unless the stored
                record has the same version and owner and is not terminal (R1).
            after: The successor of ``before``: same Task id, ``version`` one higher.
            events: JSON texts, opaque to the store; event ``i`` gets the id
                ``(after.version, i)``.

        A commit changes neither the Task's input nor ``terms``, ``realm`` or ``parent``.

        Raises:
            Conflict: The stored record is not ``before`` any more, or is terminal; nothing is
                written.
            TaskNotFound: The Task was pruned or never stored.
            UnknownOutcome: No answer came, so the write may have landed; read it back.
        """
        ...

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        """Take over a running Task that has no living owner, or return None.

        The test of the owner's liveness and the change of owner are one atomic act (R14). The
        returned record is one version higher, is owned by ``owner_name(host, version)`` of that
        new version (R2), and counts one attempt more; its other fields do not change.

        Raises:
            HostGone: ``host`` left or died, so it may take nothing over; nothing is written.
            TaskNotFound: No such Task is stored.
        """
        ...

    async def events(
        self, task_id: str, after: Cursor | None = None, limit: int = 1000
    ) -> Sequence[tuple[Cursor, bytes]]:
        """Events in order of their ids, at most ``limit`` of them.

        Args:
            after: Only events with a greater id.

        Raises:
            TaskNotFound: No such Task is stored.
        """
        ...

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        """The ids whose record has another version than the given one, with its current version.

        A Task that is not stored has version 0. One call serves all the runs of a Host (R8); its
        cost does not grow with the number of Tasks stored.
        """
        ...

    async def find(self, **options: Unpack[SearchOptions]) -> Sequence[Record]:
        """One page of records, by the filters and in the order of `SearchOptions`.

        The order is ascending by id, or newest first. A page skips records that cannot be read and
        is filled with the next ones, so a page shorter than its limit is the last page. A record
        that is stored and matches from the first page to the last appears exactly once.

        Raises:
            InvalidValue: An option has the wrong type or range; use `Search.of` to check them.
        """
        ...

    async def unreadable(self, after: str | None = None, limit: int = 100) -> Sequence[Unreadable]:
        """One page of the records that this version cannot read, in ascending order of id.

        Args:
            after: Only ids greater than this one.
        """
        ...

    async def bury(
        self,
        task_id: str,
        version: int,
        events: Sequence[bytes] = (),
        *,
        force: bool = False,
        at: datetime | None = None,
    ) -> Record:
        """Replace an unreadable record by `stored.buried`, a constant one that is ``cancelled``.

        The Task's events stay, and the given ones are appended to them.

        Args:
            version: The version of the unreadable record, from `Unreadable.version`.
            force: True to replace also a record that a newer version of the software can read.
            at: The moment of the Task's end; now, by the store's clock, if not given.

        Returns:
            The new record, one version higher.

        Raises:
            Conflict: The record is at another version, or it can be read; nothing is written.
            Unreadable: The record has a newer form, and ``force`` was not given.
            StoreError: A living Host owns it; kill the Task there, or end that Host.
            TaskNotFound: No such Task is stored.
        """
        ...

    async def prune(self, ended_before: datetime, limit: int = 1000) -> int:
        """Remove terminal Tasks that ended before the given moment, with their events.

        At most ``limit`` of them; a Task is removed whole or not at all. A record that cannot be
        read stays until it is buried.

        Returns:
            The number of removed Tasks.

        Raises:
            InvalidValue: The moment is naive, or the limit is not from 0 to `search.MAX_LIMIT`.
        """
        ...


@runtime_checkable
class Listening(Protocol):
    """A store that also reports writes as they happen."""

    def listen(self, tell: Callable[[str], None]) -> Callable[[], None]:
        """Call ``tell`` with the id of each Task that another Host wrote to.

        The store may call ``tell`` in any thread; ``tell`` does not block. A report may be late,
        repeated or lost: it is only a reason to look.

        Returns:
            A function that ends the calls.
        """
        ...
