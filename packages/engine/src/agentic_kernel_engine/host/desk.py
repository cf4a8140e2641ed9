"""Desk: finds the requests of paused Tasks in the store, and tells the approvals transport."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Final

import msgspec

from agentic_kernel import Task, TaskStatus

from ..faults import contained, report
from ..plans.lineage import depth
from ..waiting import asked, decides, digests, request_of
from .approvals_transport import PATIENCE, Approvals, Request
from .complaints import remember

if TYPE_CHECKING:
    from ..record import Record
    from ..store import Store

_Tell = Callable[[Request], Awaitable[None]]
"""One of the three methods of a transport."""
_PAGE: Final = 100


class Desk:
    """Finds the requests in a Host's store, and tells the transport of them.

    It looks at every commit of the Host itself, and from time to time at all paused Tasks, because
    other Hosts commit, too.

    Args:
        approvals: The transport.
        store: The store of the Tasks.
        kinds: The runtime kinds that the Host serves; None for every kind.
        realms: The realms that the Host looks at; None for all.
    """

    def __init__(
        self,
        approvals: Approvals,
        store: Store,
        kinds: Collection[str] | None,
        realms: Collection[str] | None,
    ) -> None:
        self._store = store
        self._kinds = kinds
        self._realms = realms
        self._open: dict[str, _Open] = {}
        """The open requests, by digest."""
        self._asked: dict[str, set[str]] = {}
        """By Task id, the digests of its open requests, so that a commit looks at these only."""
        self._done: dict[str, tuple[str, int]] = {}
        """By digest, the Task at which it was settled, and the version of its record."""
        self._untold: set[str] = set()
        self._wanted, self._settled = approvals.wanted, approvals.settled
        self._withdrawn = approvals.withdrawn
        self._queue: asyncio.Queue[tuple[_Tell, Request]] = asyncio.Queue()
        self._telling: asyncio.Task[None] | None = None
        self._faulty = False

    def start(self) -> None:
        """Begin to tell the transport."""
        if self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def stop(self, timeout: float = PATIENCE) -> None:
        """Stop telling the transport; the next Host that looks tells it the rest.

        Args:
            timeout: Seconds to wait for a call of the transport that ignores its cancellation.
        """
        telling, self._telling = self._telling, None
        if telling is not None:
            telling.cancel()
            await asyncio.wait([telling], timeout=timeout)

    def saw(self, record: Record) -> None:
        """Look at a durable record; the store may already have a later one of the Task."""
        task = record.task
        if self._kinds is not None and task.runtime_kind not in self._kinds:
            return
        if self._realms is not None and record.realm not in self._realms:
            return
        for request in requests(task):
            if _waits(record, request):
                self._want(_Open(request, depth(task), record.version))
        for digest in list(self._asked.get(task.id, ())):
            known = self._open[digest]
            # A delayed record, older than the one that asked, settles nothing.
            if record.version > known.version and not _waits(record, known.request):
                killed = task.status is TaskStatus.CANCELLED
                tell = self._withdrawn if killed else self._settled
                self._close(known.request, tell, record.version)

    async def look(self) -> None:
        """Look at every paused Task, and at the Tasks of other open requests.

        Raises:
            StoreError: The store cannot be read.
        """
        paused: set[str] = set()
        after: str | None = None
        while True:
            page = await self._store.find(
                status=TaskStatus.PAUSED, kinds=self._kinds, realms=self._realms, after=after,
                limit=_PAGE,
            )  # fmt: skip
            for record in page:
                paused.add(record.task.id)
                self._look_at(record)
            if len(page) < _PAGE:
                break
            after = page[-1].task.id
        others = self._asked.keys() - paused
        found = await self._store.load_many(others) if others else {}
        for known in list(self._open.values()):
            request = known.request
            if request.task_id in found:
                self._look_at(found[request.task_id])
            elif request.task_id in others:
                self._close(request, self._withdrawn, known.version)
        for digest in self._untold & self._open.keys():
            self._untold.discard(digest)
            self._queue.put_nowait((self._wanted, self._open[digest].request))

    def _look_at(self, record: Record) -> None:
        """Call `saw`; R22: a record with a malformed note does not hide the others."""
        try:
            self.saw(record)
        except Exception as fault:
            report(fault, record.task.id, record.step, "the look at its requests", "commit")

    def _want(self, new: _Open) -> None:
        request, known = new.request, self._open.get(new.request.digest)
        at, version = self._done.get(request.digest, (request.task_id, 0))
        if at != request.task_id or new.version <= version:
            return
        if known is not None and known.depth <= new.depth:
            return
        if known is not None:
            self._forget(known.request)
        self._open[request.digest] = new
        self._asked.setdefault(request.task_id, set()).add(request.digest)
        self._queue.put_nowait((self._wanted, request))

    def _close(self, request: Request, tell: _Tell, version: int) -> None:
        self._forget(request)
        remember(self._done, request.digest, (request.task_id, version))
        self._queue.put_nowait((tell, request))

    def _forget(self, request: Request) -> None:
        del self._open[request.digest]
        asked_for = self._asked[request.task_id]
        asked_for.discard(request.digest)
        if not asked_for:
            del self._asked[request.task_id]

    async def _tell(self) -> None:
        while True:
            tell, request = await self._queue.get()
            if tell is not self._wanted and request.digest in self._untold:
                self._untold.discard(request.digest)
                continue
            try:
                async with asyncio.timeout(PATIENCE):
                    await contained(tell(request))
            except (Exception, asyncio.CancelledError) as fault:
                telling = asyncio.current_task()
                if telling is not None and telling.cancelling():
                    raise
                if tell is self._wanted:
                    self._untold.add(request.digest)
                if not self._faulty:
                    self._faulty = True
                    report(fault, request.task_id, 0, "the approvals transport (reported once)")


class _Open(msgspec.Struct, frozen=True):
    """A request that is still undecided, as far as this Host knows."""

    request: Request
    depth: int
    """Delegation depth of the Task at which it is asked."""
    version: int
    """Version of the first record in which this Host saw the request."""


def requests(task: Task) -> list[Request]:
    """The decisions that a Task is paused for."""
    waiting = asked(task)
    if waiting is None:
        return []
    if waiting["kind"] == "question":
        if not digests(waiting):
            return []
        origin = waiting.get("task", task.id)
        return [Request(task.id, waiting["digest"], "question", origin,
                        question=waiting.get("question", ""))]  # fmt: skip
    return [
        Request(
            task.id, each["digest"], "approval", each.get("task", task.id),
            action=each.get("action", {}), reason=each.get("reason", ""),
        )
        for each in waiting["requests"]
    ]  # fmt: skip


def _waits(record: Record, request: Request) -> bool:
    """True if the decision is still wanted: the Task asks for it, and the inbox lacks it."""
    note = request_of(record.task)
    if record.task.status.terminal or note is None:
        return False
    if any(decides(entry, request.kind, request.digest) for entry in record.inbox):
        return False
    return request.digest in digests(note)
