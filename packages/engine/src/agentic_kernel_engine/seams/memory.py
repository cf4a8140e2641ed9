"""Memory: items that outlive a Task, kept in scopes, never edited, found again by a query.

An item is live from the moment it is proposed until it is superseded or tombstoned, and never
again afterwards. Its id is known in its scope for ever, so a repeated call changes nothing. A
caller that may have to repeat a call uses ids that it can compute again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from agentic_kernel import InvalidValue, KernelError

from .. import values

MAX_TEXT: Final = 16_384
"""The longest text of one item, in characters."""
MAX_NAME: Final = 640
"""The longest id, key, reason or part of a scope, in characters."""
MAX_HITS: Final = 1_000
"""The most hits that one query may ask for."""


def _check(text: object, path: str, least: int, most: int) -> None:
    if type(text) is not str:  # A string of a subclass could not be stored.
        raise InvalidValue(path, f"must be a string, not {type(text).__name__}")
    if not least <= len(text) <= most:
        raise InvalidValue(path, f"has {len(text):,} characters; use {least} to {most:,}")
    if not text.isascii() or "\0" in text:
        values.check_text(text, path)


def _count(number: object, path: str, least: int, most: int) -> None:
    if type(number) is not int or not least <= number <= most:
        raise InvalidValue(path, f"must be a whole number from {least} to {most:,}")


class Scope(msgspec.Struct, frozen=True, omit_defaults=True):
    """The owner of items; the items of one scope cannot be seen from another.

    Two scopes are the same if each part is exactly the same; letter case counts.

    Raises:
        InvalidValue: A part is not a string, is too long, or cannot be stored.
    """

    tenant: str = ""
    principal: str = ""
    session: str = ""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            _check(getattr(self, name), f"scope.{name}", 0, MAX_NAME)


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """The Task and the step that an item came from; its owner is its `Scope`.

    Raises:
        InvalidValue: The Task is not a valid text, or the step is not a valid number.
    """

    task: str = ""
    """Id of the Task that it was learned in; empty if the host gave it."""
    step: int = 0
    """The step of that Task."""

    def __post_init__(self) -> None:
        _check(self.task, "origin.task", 0, MAX_NAME)
        _count(self.step, "origin.step", 0, (1 << 63) - 1)


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing to remember.

    Raises:
        InvalidValue: The id or the text is empty; a part has the wrong type, is too long, or
            cannot be stored.
    """

    id: str
    """Unique in its scope."""
    scope: Scope
    text: str
    """The text that a planner is shown."""
    key: str = ""
    """The subject, so that a newer item about the same subject can take its place; may be empty.
    A memory only stores the key; a governor uses it."""
    origin: Origin = Origin()

    def __post_init__(self) -> None:
        _check(self.id, "item.id", 1, MAX_NAME)
        check_scope(self.scope, "item.scope")
        _check(self.text, "item.text", 1, MAX_TEXT)
        _check(self.key, "item.key", 0, MAX_NAME)
        if not isinstance(self.origin, Origin):
            raise InvalidValue(
                "item.origin", f"must be an Origin, not {type(self.origin).__name__}"
            )


class Query(msgspec.Struct, frozen=True):
    """A search in one scope.

    Raises:
        InvalidValue: The limit is not a whole number from 1 to `MAX_HITS`, the minimal score is not
            a number from -1 to 1, or the text cannot be stored.
    """

    scope: Scope
    text: str = ""
    """The subject of the hits; empty for the newest items."""
    limit: int = 8
    """The most hits."""
    min_score: float = 0.0
    """Hits below it are left out."""

    def __post_init__(self) -> None:
        check_scope(self.scope, "query.scope")
        _check(self.text, "query.text", 0, MAX_TEXT)
        _count(self.limit, "query.limit", 1, MAX_HITS)
        score = self.min_score
        if type(score) not in (int, float) or not -1 <= score <= 1:
            raise InvalidValue("query.min_score", "must be a number from -1 to 1")


class Hit(msgspec.Struct, frozen=True):
    """A live item that was found."""

    item: Item
    score: float
    """The fit, from -1 to 1 (best); comparable within one memory only."""
    reason: str
    """The reason why it was found, for people."""


class Remembered(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of an item: its origin, and what became of it."""

    id: str
    text: str
    """Empty once the item is tombstoned."""
    key: str = ""
    origin: Origin = Origin()
    predecessor: str = ""
    """Id of the item whose place it took."""
    successor: str = ""
    """Id of the item that took its place."""
    forgotten: str = ""
    """Why it was tombstoned."""

    @property
    def live(self) -> bool:
        """True if a query can find it."""
        return not self.successor and not self.forgotten


class Export(msgspec.Struct, frozen=True):
    """The JSON form of a scope."""

    scope: Scope
    items: list[Remembered]
    """Oldest first."""
    version: int = 1


class UnknownItem(KernelError, LookupError):
    """No item with this id was ever remembered in this scope.

    Attributes:
        id: The id that was asked for.
    """

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(id)

    def __str__(self) -> str:
        return f"no item {self.id!r} was remembered in this scope; check the id and the scope"


class NotCurrent(KernelError, ValueError):
    """An item that is not live any more cannot be superseded; query again and decide anew.

    Attributes:
        id: The item that was to be superseded.
        successor: Id of the item that took its place; empty if it was tombstoned.
    """

    def __init__(self, id: str, successor: str = "") -> None:
        self.id = id
        self.successor = successor
        super().__init__(id, successor)

    def __str__(self) -> str:
        fate = f"was superseded by {self.successor!r}" if self.successor else "was tombstoned"
        return f"item {self.id!r} {fate}; query again and decide anew"


class Memory(Protocol):
    """Keeps items in scopes, and finds them again.

    Every call concerns one scope, and neither shows nor changes another: an id that is known in one
    scope is unknown in the others. A call is atomic: it takes effect at one moment or, if it
    raises, not at all. After it has returned, every later call sees its effect. Calls may run
    concurrently, and may be cancelled. A cancelled call may have taken effect, and can be repeated.

    Arguments of other types are refused with `InvalidValue`, and nothing is stored. Any other
    exception is a fault of the memory, which the caller must survive.
    """

    async def propose(self, item: Item) -> bool:
        """Remember an item.

        If its id is known in the scope, the call changes nothing, even if the item differs from the
        known one. An item that was superseded or tombstoned does not become live again.

        Returns:
            True if the item is new. Of several calls with the same id, exactly one returns True.
        """
        ...

    async def supersede(self, predecessor: str, item: Item) -> bool:
        """Put an item in the place of a live one of the same scope, in one act.

        From then on, no query finds the predecessor. The predecessor names its successor, and the
        successor names its predecessor. If the item's id is known, the call changes nothing, as in
        `propose`, for any predecessor.

        Returns:
            True if the item is new.

        Raises:
            UnknownItem: The scope has no such predecessor.
            NotCurrent: The predecessor is no longer live. Of several calls that would supersede the
                same item, exactly one does.
        """
        ...

    async def tombstone(self, scope: Scope, id: str, reason: str) -> bool:
        """Forget an item, live or superseded: no query finds it, and its text is deleted.

        Its id, key, origin, predecessor and successor stay, with the reason. To forget it again
        changes nothing: the first reason stays.

        Args:
            reason: Reason for people; not empty.

        Returns:
            True if the item had not been forgotten before.

        Raises:
            UnknownItem: The scope has no such item.
        """
        ...

    async def recall(self, query: Query) -> Sequence[Hit]:
        """The live items of the query's scope that fit it best, best first.

        There are never more than the query's limit, and none below its minimal score; of equal
        scores, the newer item comes first. The same query finds the same items in the same order as
        long as the scope is unchanged. A query without a text finds the newest items, newest first,
        each with the score 1.
        """
        ...

    async def explain(self, scope: Scope, id: str) -> Remembered:
        """The record of an item, live or not: its origin, and what became of it.

        Raises:
            UnknownItem: The scope has no such item.
        """
        ...

    async def export(self, scope: Scope) -> dict[str, Any]:
        """All items that are known in a scope, oldest first, as JSON with a version (see `Export`).

        The text of a forgotten item is not in it. A scope without known items gives an empty list.
        """
        ...

    async def restore(self, scope: Scope, exported: Mapping[str, Any]) -> int:
        """Take in an export, all of it or none; it does not overwrite known items.

        The items go into the scope named here, whatever scope they were exported from. An item that
        is known on both sides is live only if it is live on both, and forgotten if it is forgotten
        on either. After a restore into an empty scope, its export is the same again, except for the
        name of the scope. To restore the same again changes nothing.

        Returns:
            Number of new items.

        Raises:
            InvalidValue: It is not an export, has a newer version, or names an item that it does
                not have.
        """
        ...


def check_scope(scope: object, path: str = "scope") -> None:
    """Refuse a value that is not a `Scope`.

    Raises:
        InvalidValue: It is not a `Scope`.
    """
    if not isinstance(scope, Scope):
        raise InvalidValue(path, f"must be a Scope, not {type(scope).__name__}")


def check_id(id: object) -> None:
    """Refuse a value that cannot be an item's id.

    Raises:
        InvalidValue: It is not a string, is empty or too long, or cannot be stored.
    """
    _check(id, "id", 1, MAX_NAME)


def check_reason(reason: object) -> None:
    """Refuse a value that cannot be the reason to forget an item.

    Raises:
        InvalidValue: It is not a string, is empty or too long, or cannot be stored.
    """
    _check(reason, "reason", 1, MAX_NAME)
