"""Store: the port behind which every Task's record and events are kept.

The store is the only channel between hosts. It is small on purpose: a conditional write, a few
reads, and one liveness question. What a record means is the Host's business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from agentic_kernel import TaskStatus

from .record import Record

EventId = tuple[int, int]
"""``(version, index)``: the commit that wrote the event, and its place in that commit (R15)."""


class Store(Protocol):
    """Durable records with optimistic concurrency.

    Every method is safe to call from several coroutines at once, and from every process for which
    the store is shared. A read returns what was acknowledged before it began, or later (rules 6
    and 7), whole (rule 3), and waits for no writer (rule 4). A write that returns is durable to
    the degree the store documents; one that raises anything but `UnknownOutcome` left nothing.

    When the caller of a write is cancelled, the write is settled before the cancellation goes on:
    a `load` that follows sees it if and only if it landed (R5).
    """

    async def join(self, host: str) -> None:
        """Declare ``host`` (a nonce) alive, until `leave` or until its process or lease dies.

        Held before the first write that names the host as an owner, and renewed without help
        from the caller's event loop (R14). Joining twice is joining once.

        Raises:
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

        Raises:
            TaskExists: The id is taken; nothing is written.
        """
        ...

    async def load(self, task_id: str) -> Record:
        """The latest record.

        Raises:
            TaskNotFound: No such Task is stored.
        """
        ...

    async def load_many(self, task_ids: Collection[str]) -> Mapping[str, Record]:
        """The latest records of those ids that are stored."""
        ...

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        """Replace ``before`` by ``after`` and append the events, together or not at all.

        Args:
            before: What the caller last read. It holds if the stored record has its version and
                its owner, and is not terminal (R1).
            after: Its successor: same Task id, ``version`` one higher.
            events: JSON texts, opaque to the store; event ``i`` gets the id
                ``(after.version, i)``.

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

    async def find(
        self,
        *,
        status: TaskStatus | None = None,
        kinds: Collection[str] | None = None,
        owner: str | None = None,
        claimable: bool = False,
        parent: str | None = None,
        due: datetime | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Sequence[Record]:
        """One page of records in ascending order of id; filters combine by "and".

        Args:
            kinds: Only these runtime kinds.
            owner: Only records that this host owns.
            claimable: Only running records without a living owner.
            parent: Only children of this Task.
            due: Only paused records with a ``due_at`` at or before this moment.
            after: Only ids greater than this one; pass the last id of a page to get the next.
        """
        ...

    async def prune(self, ended_before: datetime, limit: int = 1000) -> int:
        """Remove terminal Tasks that ended before the given moment, with their events.

        At most ``limit`` of them; a Task is removed whole or not at all. Returns how many.
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
