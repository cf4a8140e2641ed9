"""Memory: what outlives a Task. Items in scopes, never edited, found again by a query.

An item is live from the moment it is proposed until it is superseded or tombstoned, and never
again afterwards. Its id is known in its scope for ever, so saying the same thing twice changes
nothing; a caller that may have to repeat itself gives ids that it can work out again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from agentic_kernel import InvalidValue, KernelError

from .. import values

MAX_TEXT: Final = 16_384
"""How long the text of one item may be, in characters."""
MAX_NAME: Final = 640
"""How long an id, a key, or a part of a scope may be, in characters; a reason as well."""
MAX_HITS: Final = 1_000
"""How many hits one query may ask for."""


def _check(text: object, path: str, least: int, most: int) -> None:
    if type(text) is not str:  # One of another class could not be stored.
        raise InvalidValue(path, f"must be a string, not {type(text).__name__}")
    if not least <= len(text) <= most:
        raise InvalidValue(path, f"has {len(text):,} characters; use {least} to {most:,}")
    if not text.isascii() or "\0" in text:
        values.check_text(text, path)


def _count(number: object, path: str, least: int, most: int) -> None:
    if type(number) is not int or not least <= number <= most:
        raise InvalidValue(path, f"must be a whole number from {least} to {most:,}")


class Scope(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who remembers: what is in one scope is seen from no other.

    The parts are compared as they stand, each with its own: no case is folded, nothing is joined.

    Raises:
        InvalidValue: A part is no text, too long, or cannot be stored.
    """

    tenant: str = ""
    principal: str = ""
    session: str = ""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            _check(getattr(self, name), f"scope.{name}", 0, MAX_NAME)


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where an item came from; whose it is says its `Scope`.

    Raises:
        InvalidValue: The Task is no text, or the step no count.
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
    """Unlike any other in its scope."""
    scope: Scope
    text: str
    """What a planner is shown."""
    key: str = ""
    """What it is about, so that something newer about the same can take its place; may be empty.
    A memory stores it and gives it no meaning: a governor does."""
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
    """What to look for.

    Raises:
        InvalidValue: The limit is no number from 1 to `MAX_HITS`, the minimal score none from -1 to
            1, or the text cannot be stored.
    """

    scope: Scope
    text: str = ""
    """What the hits should be about; empty for the newest of all."""
    limit: int = 8
    """How many hits at most."""
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
    """How well it fits, from -1 to 1 for as well as can be; comparable within one memory only."""
    reason: str
    """Why it was found, for people."""


class Remembered(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of an item: where it came from, and what became of it."""

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
        """Whether a query can find it."""
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

    Every call concerns one scope, and neither shows nor changes anything of another: an id that
    is known elsewhere is unknown here. A call takes effect at one moment or, when it raises, not
    at all; once it has returned, every later call sees its effect. Calls may be made side by side,
    and may be cancelled; one that was cancelled may have taken effect, and can be repeated.

    What is not of the types below is refused with `InvalidValue`, and nothing is stored. Anything
    else that a memory raises is a fault of its own, which the caller is to survive.
    """

    async def propose(self, item: Item) -> bool:
        """Remember an item.

        An id that is known in the scope changes nothing, whatever else the item says and whatever
        became of the one with that id: what was superseded or tombstoned is not live again.

        Returns:
            Whether it is new. Of several calls with the same id, exactly one is told so.
        """
        ...

    async def supersede(self, predecessor: str, item: Item) -> bool:
        """Put an item in the place of a live one of the same scope, in one act.

        From then on the predecessor is found by no query; it names its successor, and the successor
        names it. An item whose id is known changes nothing, as in `propose`, whatever the
        predecessor is.

        Returns:
            Whether it is new.

        Raises:
            UnknownItem: The scope has no such predecessor.
            NotCurrent: It is not live any more. Of several that would supersede the same item,
                exactly one does.
        """
        ...

    async def tombstone(self, scope: Scope, id: str, reason: str) -> bool:
        """Forget an item, live or superseded: it is found by no query, and its text is gone.

        Id, key, origin and the items that it names stay, with the reason. The first reason stays:
        forgetting again changes nothing.

        Args:
            reason: Why, for people; not empty.

        Returns:
            Whether it had not been forgotten before.

        Raises:
            UnknownItem: The scope has no such item.
        """
        ...

    async def recall(self, query: Query) -> Sequence[Hit]:
        """The live items of the query's scope that fit it best, best first.

        Never more than its limit and none below its minimal score; of equal scores, the newer
        first. The same query finds the same in the same order as long as the scope is unchanged.
        Without a text it finds the newest, newest first, each with the score 1.
        """
        ...

    async def explain(self, scope: Scope, id: str) -> Remembered:
        """Where an item came from and what became of it, live or not.

        Raises:
            UnknownItem: The scope has no such item.
        """
        ...

    async def export(self, scope: Scope) -> dict[str, Any]:
        """All that is known in a scope, oldest first, as JSON with a version (see `Export`).

        It has no text of a forgotten item. A scope that nothing is known of gives no items.
        """
        ...

    async def restore(self, scope: Scope, exported: Mapping[str, Any]) -> int:
        """Take in what `export` gave, all of it or nothing; what is known stays as it is.

        It goes into the scope named here, whatever scope it was exported from. An item that is
        known on both sides is live only if it is on both, and forgotten if it is on either.
        Restoring into a scope that knows nothing makes it export the same again, its own name
        apart; restoring the same again changes nothing.

        Returns:
            How many items are new.

        Raises:
            InvalidValue: It is no export, has a newer version, or names an item that it does not
                have.
        """
        ...


def check_scope(scope: object, path: str = "scope") -> None:
    """Refuse what is no scope.

    Raises:
        InvalidValue: It is not.
    """
    if not isinstance(scope, Scope):
        raise InvalidValue(path, f"must be a Scope, not {type(scope).__name__}")


def check_id(id: object) -> None:
    """Refuse what cannot be an item's id.

    Raises:
        InvalidValue: It cannot.
    """
    _check(id, "id", 1, MAX_NAME)


def check_reason(reason: object) -> None:
    """Refuse what is no reason to forget.

    Raises:
        InvalidValue: It is not.
    """
    _check(reason, "reason", 1, MAX_NAME)
