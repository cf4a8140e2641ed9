"""Transcript: all that was said and done so far, as a planner sees it.

R15: the entries are read from the Task's history. The same events give the same transcript, live,
after any crash, and across compactions. A call whose observation never came is not in it: a step's
plan and its observations are in one commit, or the plan is at hand in the state.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar

import msgspec

from .. import events as host_events
from ..cursor import Cursor
from ..events import Event
from . import vocabulary
from .observation import Observation
from .plan import Plan


class UserMessage(msgspec.Struct, frozen=True, gc=False, tag="user", tag_field="entry"):
    """A text of the user: the instructions, an extra of a resume, or an answer to a question."""

    text: str


class Turn(msgspec.Struct, frozen=True, gc=False, tag="turn", tag_field="entry"):
    """A plan, and the observations of its actions."""

    plan: Plan
    observations: tuple[Observation, ...]
    """In the order of the plan's actions."""


class Notice(msgspec.Struct, frozen=True, gc=False, tag="notice", tag_field="entry"):
    """A message of the Loop to the planner, e.g. that the run is stalled."""

    text: str


class Summary(msgspec.Struct, frozen=True, gc=False, tag="summary", tag_field="entry"):
    """A text in place of entries that are no longer shown."""

    text: str


Entry = UserMessage | Turn | Notice | Summary
T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


class Transcript(list[Entry]):
    """Entries, oldest first. They are only appended: a compaction makes a new transcript.

    Every other change raises `TypeError`.

    Args:
        entries: The first entries.
        cuts: See the attribute.
        fixed: See the attribute.
    """

    __slots__ = ("_forms", "_measured", "_size", "cuts", "fixed")

    def __init__(
        self,
        entries: Iterable[Entry] = (),
        cuts: Iterable[tuple[int, Cursor]] = (),
        fixed: int = 1,
    ) -> None:
        super().__init__(entries)
        self.cuts: list[tuple[int, Cursor]] | tuple[()] = list(cuts) or ()
        """Places of a possible cut, as (n, id): the first n entries are those of the history up to
        the event with this id. A tuple while it is empty (memory in benchmarks/loop.py)."""
        self.fixed = fixed
        """Number of the first entries that a cut cannot make fewer: the opening, and the entries
        that the last compaction left."""
        self._measured = 0
        self._size = 0
        self._forms: dict[Hashable, list[Any]] | None = None

    def may_be_cut(self, at: Cursor) -> None:
        """Note that the present entries are those of the history up to this event."""
        if self.cuts:
            self.cuts.append((len(self), at))
        elif len(self) > self.fixed:
            self.cuts = [(len(self), at)]

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a transcript is only appended to; change a copy of it: list(transcript)")

    __delitem__ = __imul__ = __setitem__ = _refuse
    clear = insert = pop = remove = reverse = sort = _refuse

    def cut_back(self, length: int) -> None:
        """Remove the entries after this length, which a compactor appended although it may not."""
        super().__delitem__(slice(length, None))
        if self._measured > length:
            self._measured = self._size = 0
        self._forms = None

    @property
    def size(self) -> int:
        """Length as JSON, in bytes; each entry is measured only once."""
        if self._measured < len(self):
            self._size += len(_encode(self[self._measured :])) - 1
            self._measured = len(self)
        return self._size

    def in_form(self, form: Hashable, made: Callable[[int, Entry], T]) -> Sequence[T]:
        """The entries in another form, e.g. that of a vendor; each entry is converted only once.

        Args:
            form: A name of the form, which stands for everything that ``made`` depends on.
            made: Returns the form of an entry, given the place of the entry and the entry.
        """
        if self._forms is None:
            self._forms = {}
        forms = self._forms.setdefault(form, [])
        for place in range(len(forms), len(self)):
            forms.append(made(place, self[place]))
        return forms


def read(events: Iterable[Event], opening: Sequence[Entry] = ()) -> Transcript:
    """The transcript of a history, or of the part of it after the cursor of a state.

    Args:
        events: Durable events, in order.
        opening: The Task's own instructions. They come after entries that came over from another
            Task, and before all other entries.
    """
    head, found, ends = list(opening), list[Entry](), list[Any]()
    bounds: list[tuple[int, Cursor]] = []
    fixed = 1
    plan: Any = None
    last: Cursor | None = None
    for event in events:
        data = event.data
        if plan is None and last is not None and event.id is not None and event.id[0] != last[0]:
            bounds.append((len(found), last))
        last = event.id
        match event.type:
            case vocabulary.PLAN_MADE:
                plan = data
            case vocabulary.STEP_OBSERVED:
                if plan is not None:
                    found.append(turn_of(plan, data["observations"]))
                    plan = None
            case host_events.TASK_RESUMED if "extra" in data:
                found.append(UserMessage(data["extra"]))
            case vocabulary.QUESTION_ANSWERED:
                found.append(UserMessage(data["text"]))
            case vocabulary.RUN_REFLECTED:
                found.append(Notice(data["text"]))
            case vocabulary.RUN_CONTINUED:
                head = [*entries_of(data["entries"]), *opening]
            case vocabulary.RUN_COMPACTED:
                behind = bisect_right(ends, tuple(data["after"]))
                del found[:behind], ends[:behind]
                bounds = [(n - behind, id) for n, id in bounds if n >= behind]
                head = [*opening, *entries_of(data["kept"]), Summary(data["summary"])]
                fixed = len(head)
        ends += [event.id] * (len(found) - len(ends))
    if plan is None and last is not None:
        bounds.append((len(found), last))
    return Transcript([*head, *found], [(len(head) + n, id) for n, id in bounds], fixed)


def turn_of(plan: Any, observations: Any) -> Turn:
    """A turn from the JSON forms of its parts."""
    return Turn(msgspec.convert(plan, Plan), msgspec.convert(observations, tuple[Observation, ...]))


def entries_of(stored: Any) -> list[Entry]:
    """Entries from their JSON form."""
    return msgspec.convert(stored, list[Entry])
