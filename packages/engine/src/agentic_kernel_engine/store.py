"""Store: the port behind which every Task's record and events are kept.

The store is the only channel between hosts. It is small on purpose: a conditional write, a few
reads, and one liveness question. What a record means is the Host's business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, Unpack, runtime_checkable

from .errors import Unreadable
from .record import Record
from .search import SearchOptions

EventId = tuple[int, int]
"""``(version, index)``: the commit that wrote the event, and its place in that commit (R15)."""


@dataclass(frozen=True, slots=True)
class StoreTraits:
    """What a store declares about itself, so that a Host can be cheaper or quicker with it."""

    never_waits: bool = False
    """True if no method ever suspends its caller. A cancellation then cannot interrupt a write, so
    the Host does not shield one (R4). A subclass that waits must declare False."""
    listens: bool = False
    """True if the store is `Listening`: it tells of writes as they come (R8)."""


class Store(Protocol):
    """Durable records with optimistic concurrency.

    Every method is safe to call from several coroutines at once, and from every process for which
    the store is shared. A read returns what was acknowledged before it began, or later (rules 6
    and 7), whole (rule 3), and waits for no writer (rule 4). A write that returns is durable to
    the degree the store documents; one that raises anything but `UnknownOutcome` left nothing.

    When the caller of a write is cancelled, the write is settled before the cancellation goes on:
    a `load` that follows sees it if and only if it landed (R5).

    One record that cannot be read hides no other (R22): `load` raises `Unreadable` for it, every
    page goes past it, `unreadable` lists it, and `bury` puts a readable one in its place.
    """

    @property
    def traits(self) -> StoreTraits:
        """What this store declares about itself; the same for as long as the store lives."""
        ...

    async def join(self, host: str) -> None:
        """Declare ``host`` (a nonce) alive, until `leave` or until its process or lease dies.

        Held before the first write that names the host as an owner, and renewed without help
        from the caller's event loop (R14). Joining twice while alive is joining once.

        Raises:
            HostGone: The host left, or its process or lease died; its name never lives again.
            StoreError: The store cannot be opened.
        """
        ...

    async def leave(self, host: str) -> None:
        """Declare ``host`` gone for good; what it still owns is claimable from now on."""
        ...

    async def alive(self, owner: str) -> bool:
        """Whether the host behind ``owner`` is alive.

        Once False, False for ever: a host that left or died does not join again under its name.
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
            Unreadable: It is stored, and this version cannot read it.
        """
        ...

    async def load_many(self, task_ids: Collection[str]) -> Mapping[str, Record]:
        """The latest records of those ids that are stored and can be read."""
        ...

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        """Replace ``before`` by ``after`` and append the events, together or not at all.

        Args:
            before: What the caller last read. It holds if the stored record has its version and
                its owner, and is not terminal (R1).
            after: Its successor: same Task id, ``version`` one higher.
            events: JSON texts, opaque to the store; event ``i`` gets the id
                ``(after.version, i)``.

        A commit changes neither the Task's input nor ``terms``, ``realm`` or ``parent``.

        Raises:
            Conflict: ``before`` does not hold; nothing is written.
            TaskNotFound: The Task was pruned or never stored.
            UnknownOutcome: Whether the write landed is not known; read back.
        """
        ...

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        """Take over a running Task that has no living owner, or return None.

        The test of the owner's liveness and the change of owner are one atomic act (R14). The
        record that comes back is one version higher, is owned by ``owner_name(host, version)`` of
        that new version (R2), and counts one attempt more; nothing else of it changes.

        Raises:
            TaskNotFound: No such Task is stored.
        """
        ...

    async def events(
        self, task_id: str, after: EventId | None = None, limit: int = 1000
    ) -> Sequence[tuple[EventId, bytes]]:
        """Events in order of their ids, at most ``limit`` of them.

        Args:
            after: Only events with a greater id.

        Raises:
            TaskNotFound: No such Task is stored.
        """
        ...

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        """Those ids whose record has another version than the given one, with the current one.

        A Task that is not stored is reported with version 0. One call serves all the runs of a
        host (R8); its cost does not grow with the number of Tasks stored.
        """
        ...

    async def find(self, **options: Unpack[SearchOptions]) -> Sequence[Record]:
        """One page of records, by the filters and in the order of `SearchOptions`.

        Ascending by id, or newest first. A page is filled: it goes past records that cannot be
        read, so a page shorter than its limit is the last one. A record that is stored for as long
        as one goes from page to page is met exactly once if it matches all the time.

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
        """Replace an unreadable record by `codec.buried`, a constant one that is ``cancelled``.

        The Task's events stay, and the given ones are appended to them.

        Args:
            version: Of the unreadable record, as `Unreadable` says it.
            force: Replace also what a newer version of the software wrote and can read.
            at: When the Task ended; now, by the store's clock, if not given.

        Returns:
            The record that stands there now, one version higher.

        Raises:
            Conflict: The record is at another version, or it can be read; nothing is written.
            Unreadable: It is of a newer form, and ``force`` was not given.
            StoreError: A living host owns it; kill the Task there, or end that host.
            TaskNotFound: No such Task is stored.
        """
        ...

    async def prune(self, ended_before: datetime, limit: int = 1000) -> int:
        """Remove terminal Tasks that ended before the given moment, with their events.

        At most ``limit`` of them; a Task is removed whole or not at all. A record that cannot be
        read stays until it is buried. Returns how many were removed.

        Raises:
            InvalidValue: The moment is naive, or the limit is not from 0 to `search.MAX_LIMIT`.
        """
        ...


@runtime_checkable
class Listening(Protocol):
    """A store that also tells of writes, as they come."""

    def listen(self, tell: Callable[[str], None]) -> Callable[[], None]:
        """Have ``tell`` called with the id of each Task that another host wrote to.

        In any thread; it does not block. News may be late, told twice or lost: it is only a reason
        to look.

        Returns:
            What ends it.
        """
        ...
