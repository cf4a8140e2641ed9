"""Place: the folder or database that keeps the Tasks, and the lookups that commands share."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Final, Protocol

from agentic_kernel import InvalidValue, TaskNotFound, TaskStatus
from agentic_kernel_engine import Event, Host, Record, Store, Unreadable
from agentic_kernel_engine.events import RUN_DELTA, RUN_TURN, TASK_RESUMED, from_stored
from agentic_kernel_engine.texts import Texts
from agentic_kernel_file import FileStore

from .naming import LAST, MIN_PART
from .text import command_line, label, utf8

FAR: Final = 10_000
"""The most Tasks that are looked at for the last characters of an id, the newest first."""
_LISTED = 5
"""Maximum number of readable and of unreadable Tasks that are looked up for an abbreviated id, and
of Tasks that are looked up first for `LAST`."""
_PAGE = 1000


class Place(Protocol):
    """The place that keeps the Tasks. ``str(place)`` is shown to people and holds no secret."""

    @property
    def lease(self) -> float:
        """Seconds for which a dead process may still count as alive."""
        ...

    def command(self, *words: str) -> str:
        """The command line with these words for this place, ready to paste into a shell."""
        ...

    def opened(self) -> AbstractAsyncContextManager[Store]:
        """Open the store; it is closed at the end of the block."""
        ...


@dataclass(frozen=True)
class Folder:
    """A `Place` in a folder."""

    lease: ClassVar[float] = 0.0

    path: Path
    named: bool = False
    """True if the user named the folder, so that proposed commands name it too."""

    def __str__(self) -> str:
        return str(self.path)

    def command(self, *words: str) -> str:
        where = ["--state", str(self.path)] if self.named else []
        return command_line(["agentic-kernel", *where, *words])

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        store = FileStore(self.path)
        try:
            yield store
        finally:
            store.close()


async def holds(place: Place) -> bool:
    """Join and leave the store; True if the host counted as alive. Both are writes."""
    host = secrets.token_hex(8)
    async with place.opened() as store:
        await store.join(host)
        try:
            return await store.alive(f"{host}:1")
        finally:
            await store.leave(host)


async def find_task(host: Host, given: str) -> Record:
    """The record of the Task with this id, or of the only one whose id begins or ends with it.

    Args:
        given: An id, a part of one, or `LAST`.

    Raises:
        TaskNotFound: No Task fits.
        InvalidValue: Several Tasks fit, the part is too short or not UTF-8, or there is no Task for
            `LAST`.
        Unreadable: The Task is stored, but this version cannot read it.
    """
    if given is LAST:
        return await _last(host)
    utf8(given, "ID")
    try:
        return await host.record(given)
    except TaskNotFound:
        if len(given) < MIN_PART:
            if given and (await _beginning(host, given) or await _ending(host, given)):
                raise InvalidValue(
                    "ID",
                    f"'{label(given)}' is a part of an id, but has only {len(given)} characters; "
                    f"give at least {MIN_PART}",
                ) from None
            raise
    found = await _beginning(host, given) or await _ending(host, given)
    if not found:
        raise TaskNotFound(given)
    if len(found) > 1:
        raise InvalidValue(
            "ID", f"'{label(given)}' fits {', '.join(map(label, found))}; give more characters"
        )
    return await host.record(found[0])


async def _last(host: Host) -> Record:
    """The newest Task that has no parent: a person or a program dispatched it.

    Raises:
        InvalidValue: There is none among the newest `FAR` Tasks.
    """
    place, looked = None, 0
    while looked < FAR:
        size = min(_PAGE, FAR - looked) if looked else _LISTED
        page = await host.store.find(newest=True, after=place, limit=size)
        for record in page:
            if record.parent is None:
                return record
        looked += len(page)
        if len(page) < size:
            break
        place = (page[-1].task.created_at, page[-1].task.id)
    if not looked:
        raise InvalidValue("--last", "there is no Task yet")
    raise InvalidValue(
        "--last", f"the newest {looked:,} Tasks are all children of other Tasks; give an ID"
    )


async def _beginning(host: Host, part: str) -> list[str]:
    """Some ids that begin with this."""
    tasks = await host.find(after=part, limit=_LISTED)
    damaged = await host.store.unreadable(after=part, limit=_LISTED)
    ids = sorted([task.id for task in tasks] + [each.task_id for each in damaged])
    return [task_id for task_id in ids if task_id.startswith(part)]


async def _ending(host: Host, part: str) -> list[str]:
    """Some ids that end with this, among the newest `FAR` Tasks and those that cannot be read."""
    found = [each.task_id for each in await unreadable(host) if each.task_id.endswith(part)]
    place = None
    for _ in range(FAR // _PAGE):
        page = await host.store.find(newest=True, after=place, limit=_PAGE)
        found += [record.task.id for record in page if record.task.id.endswith(part)]
        if len(page) < _PAGE or len(found) >= _LISTED:
            break
        place = (page[-1].task.created_at, page[-1].task.id)
    return found[:_LISTED]


async def unreadable(host: Host) -> list[Unreadable]:
    """Every Task that this version cannot read, in ascending order of id."""
    found: list[Unreadable] = []
    while page := await host.store.unreadable(found[-1].task_id if found else None, _PAGE):
        found += page
    return found


async def orphaned(host: Host, record: Record) -> bool:
    """True if the Task is running and no live process runs it."""
    if record.task.status is not TaskStatus.RUNNING:
        return False
    return record.owner is None or not await host.store.alive(record.owner)


async def history(host: Host, task_id: str) -> list[Event]:
    """The Task's durable events so far, in order."""
    found: list[Event] = []
    after = None
    while page := await host.store.events(task_id, after, _PAGE):
        found += [from_stored(event_id, text) for event_id, text in page]
        after = page[-1][0]
    return found


def text_of(events: Iterable[Event]) -> str:
    """The text of a Task in these events, its turns separated by a blank line.

    Text that a later attempt replaced is left out. Text that continues after a further instruction
    is separated, too.
    """
    texts, turns = Texts(), list[str]()
    told: list[int] = []
    """The places in the turn's text at which a further instruction came."""
    for event in events:
        if event.type == RUN_TURN and texts.open():
            turns += _parts(texts.text(), told)
            told = []
        if texts.take(event) and _says(event):
            kept = len(texts.text()) - len(event.data["text"])
            told = [min(place, kept) for place in told]
        elif _tells(event) and texts.open():
            told.append(len(texts.text()))
    if texts.open():
        turns += _parts(texts.text(), told)
    return "\n\n".join(turn for turn in turns if turn)


def _parts(text: str, places: Sequence[int]) -> list[str]:
    bounds = [0, *places, len(text)]
    return [text[begin:end] for begin, end in pairwise(bounds)]


def _says(event: Event) -> bool:
    """True for a piece of the answer."""
    return event.type == RUN_DELTA and not event.data.get("channel", "")


def _tells(event: Event) -> bool:
    """True if the Task was resumed with a further instruction."""
    return event.type == TASK_RESUMED and bool(event.data.get("extra"))


class Spoken:
    """The text of one Task for a display that cannot take back what it has shown.

    If a run starts over, or goes on from an earlier place, the text of the turn is shown again up
    to there, after a blank line. So the last text that is shown is what the run has said. After a
    further instruction a blank line comes, too.
    """

    def __init__(self) -> None:
        self._texts = Texts()
        self._shown = False
        self._gap = False
        """True if a blank line comes before the next text."""

    def take(self, event: Event) -> str:
        """Read the next event; return the text to show."""
        again = self._texts.take(event)
        if event.type == RUN_TURN or _tells(event):
            self._gap = self._shown
        if not _says(event):
            return ""
        self._gap = self._gap or (again and self._shown)
        text = self._texts.text() if again else str(event.data.get("text", ""))
        if not text:
            return ""
        lead = "\n\n" if self._gap else ""
        self._shown, self._gap = True, False
        return lead + text
