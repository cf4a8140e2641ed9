"""Writes: the writes that wait for the writer, and a batch of them as one call of the database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from agentic_kernel import TaskExists, TaskNotFound, TaskStatus
from agentic_kernel_engine.errors import Conflict, HostGone
from agentic_kernel_engine.record import Record, host_of

from .facets import facets_of, listed_of
from .rows import head_of, input_of

WRITE: Final = "SELECT {schema}.write_2(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
"""Takes the parts of a `Batch`; returns the outcome of each write, or null if all landed."""
STEP: Final = "SELECT {schema}.step_2(%s, %s, %s, %s, %s, %s, %s, %s, %s)"
"""Takes the values of `Write.step`; returns true if it landed; if not, `WRITE` finds the reason."""


class Outcome(IntEnum):
    """The outcome of a write, with the numbers that the schema's functions return."""

    LANDED = 0
    EXISTS = 1
    UNKNOWN = 2
    MOVED = 3
    LAPSED = 4
    LIVES = 5


class _Item(msgspec.Struct, omit_defaults=True, gc=False):
    """One write as the database reads it; positions in the bytes count from 1."""

    n: int
    id: str
    before: int
    status: str
    held: str | None = None
    owner: str | None = None
    attempts: int = 0
    supplements: int = 0
    head: int = 0
    size: int = 0
    acting: str | None = None
    former: str | None = None
    moves: bool = False
    holder: str | None = None
    due: datetime | None = None
    ended: datetime | None = None
    kind: str | None = None
    parent: str | None = None
    input: int = 0
    length: int = 0
    said: Sequence[str] = ()
    news: bool = False
    raises: bool = False
    created: datetime | None = None
    facets: Sequence[int] = ()
    listed: Sequence[int] = ()


class _Text(msgspec.Struct, gc=False):
    n: int
    version: int
    place: int
    text: int
    size: int


_encode: Final = msgspec.json.Encoder().encode


class Write:
    """One conditional write in the writer's queue.

    Args:
        before: The record that must still be stored; None to insert.
        after: Its successor.
        claims: True for a claim: then the host that owns ``before`` must be gone for good.
    """

    __slots__ = ("after", "events", "future", "head", "input", "item", "settled", "tries")

    def __init__(
        self,
        before: Record | None,
        after: Record,
        events: Sequence[bytes],
        *,
        claims: bool = False,
    ) -> None:
        self.after = after
        self.events = tuple(events)
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.settled = False
        self.tries = 0
        self.head = head_of(after)
        self.input = b""
        task, owner = after.task, after.owner
        version = 0 if before is None else before.version
        self.item = item = _Item(0, task.id, version, task.status.value, owner=owner)
        item.attempts = after.attempts
        item.supplements = len(task.supplements)
        item.raises = after.needs_schema > 1
        if before is None:
            item.acting = _host(owner)
            item.kind, item.parent = task.runtime_kind, after.parent
            item.said = task.supplements
            self.input = input_of(after)
            item.created = task.created_at
            item.facets, item.listed = facets_of(after), listed_of(after)
            self._place(after)
            return
        item.held = before.owner
        if after.step > before.step:  # R5: only the owner's commits advance the step
            item.acting = _host(before.owner)
        if len(task.supplements) > len(before.task.supplements):
            item.said = task.supplements[len(before.task.supplements) :]
        if owner != before.owner:
            item.acting = _host(owner) or item.acting
        if claims:
            item.former = _host(before.owner)
        if (
            owner != before.owner
            or after.due_at != before.due_at
            or task.status is not before.task.status
        ):
            item.moves = True
            self._place(after)
        # An owner's own step on its running Task concerns no other process; other commits may.
        item.news = not claims and (item.moves or after.step == before.step)

    def _place(self, after: Record) -> None:
        """Set the columns by which listings find the Task."""
        item, task = self.item, after.task
        item.due, item.ended = after.due_at, task.ended_at
        item.holder = _host(after.owner)
        if item.holder is None and task.status is TaskStatus.RUNNING:
            item.holder = ""

    @property
    def steps(self) -> bool:
        """True if it is only an owner's step on its running Task, so that `STEP` can write it."""
        item = self.item
        return not (item.moves or item.news or item.former or item.said or not item.before) and (
            item.status == "running" and item.acting is not None
        )

    def step(self, session: int) -> tuple[object, ...]:
        """The values for `STEP`, in its order."""
        item, texts = self.item, self.events
        sizes = f"{{{','.join([str(len(text)) for text in texts])}}}"
        return (
            session, item.acting, item.id, item.before, item.held, item.attempts, self.head,
            texts[0] if len(texts) == 1 else b"".join(texts), sizes,
        )  # fmt: skip

    @property
    def size(self) -> int:
        """The approximate number of bytes of the write."""
        return len(self.head) + len(self.input) + sum(map(len, self.events))

    def settle(self, error: BaseException | None = None) -> None:
        """Answer the caller of the write."""
        self.settled = True
        if not self.future.done():
            if error is None:
                self.future.set_result(None)
            else:
                self.future.set_exception(error)

    def decided(self, outcome: int) -> None:
        """Answer the caller of the write with an outcome."""
        self.settle(self._refusal(outcome))

    def _refusal(self, outcome: int) -> BaseException | None:
        task_id = self.item.id
        match Outcome(outcome):
            case Outcome.LANDED:
                return None
            case Outcome.EXISTS:
                return TaskExists(task_id)
            case Outcome.UNKNOWN:
                return TaskNotFound(task_id)
            case Outcome.MOVED:
                return Conflict(task_id)
            case Outcome.LAPSED:
                return lapsed(self.item.acting)
            case Outcome.LIVES:
                return OwnerLives(task_id)


def lapsed(host: str | None) -> HostGone:
    """Error for a host that left or whose lease ran out."""
    return HostGone(host or "", f"host {host} left, or its lease ran out; go on with a new Host")


class OwnerLives(Conflict):
    """A claim was refused: the owner's host is alive."""


class Batch(NamedTuple):
    """The values for `WRITE`, in its order."""

    session: int
    hosts: list[str]
    items: str
    texts: str
    bytes: bytes
    claims: bool
    moves: bool
    supplements: bool
    news: str | None
    raises: bool


def batch_of(writes: Sequence[Write], session: int, channel: str, *, raised: bool) -> Batch:
    """Writes of different Tasks as one call; the caller sorts them by id to avoid deadlocks.

    Args:
        raised: True if the schema is known to refuse processes of version 0.1 already.
    """
    parts: list[bytes] = []
    texts: list[_Text] = []
    items: list[_Item] = []
    hosts = {session_name(session)}
    at = 1
    for n, write in enumerate(writes, 1):
        item = write.item
        item.n = n
        items.append(item)
        item.head, item.size = at, len(write.head)
        parts.append(write.head)
        at += item.size
        if write.input:
            item.input, item.length = at, len(write.input)
            parts.append(write.input)
            at += item.length
        for place, text in enumerate(write.events):
            texts.append(_Text(n, item.before + 1, place, at, len(text)))
            parts.append(text)
            at += len(text)
        if item.acting is not None:
            hosts.add(item.acting)
    return Batch(
        session,
        list(hosts),
        _encode(items).decode(),
        _encode(texts).decode(),
        b"".join(parts),
        any(item.former is not None for item in items),
        any(item.moves or not item.before for item in items),
        any(item.said for item in items),
        channel if any(item.news for item in items) else None,
        not raised and any(item.raises for item in items),
    )


def session_name(session: int) -> str:
    """The name under which a given-up session stands in the table of hosts."""
    return f"session {session}"


def _host(owner: str | None) -> str | None:
    return None if owner is None else host_of(owner)
