"""Item ledger: which items are known, which of them are live, and what became of the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from agentic_kernel import InvalidValue

from ..memory import (
    Export,
    Item,
    NotCurrent,
    Remembered,
    Scope,
    UnknownItem,
    check_id,
    check_reason,
    check_scope,
)

VERSION: Final = 1
"""Version of the exported form. An older form is migrated when it is read."""

Mark = TypeVar("Mark")
"""The data by which a memory finds a live item; removed when the item is no longer live."""


class ItemLedger(Generic[Mark]):
    """Items by scope. Its methods never suspend, so each one is atomic on the event loop."""

    def __init__(self) -> None:
        self._known: dict[Scope, dict[str, Remembered]] = {}
        self._live: dict[Scope, dict[str, tuple[Item, Mark]]] = {}

    def knows(self, item: Item) -> bool:
        """True if the item's id is known in its scope.

        Raises:
            InvalidValue: It is not an `Item`.
        """
        if not isinstance(item, Item):
            raise InvalidValue("item", f"must be an Item, not {type(item).__name__}")
        return item.id in self._known.get(item.scope, ())

    def live(self, scope: Scope) -> Iterable[tuple[Item, Mark]]:
        """The live items, newest first."""
        return reversed(self._live.get(scope, {}).values())

    def add(self, item: Item, mark: Mark, predecessor: str | None = None) -> bool:
        """Make an item live, in the place of ``predecessor`` if given; True if the item is new.

        Raises:
            UnknownItem, NotCurrent: As in `Memory.supersede`.
        """
        if self.knows(item):
            return False
        if predecessor is not None:
            self.current(item.scope, predecessor)
        known = self._known.setdefault(item.scope, {})
        live = self._live.setdefault(item.scope, {})
        if predecessor is not None:
            del live[predecessor]
            known[predecessor] = msgspec.structs.replace(known[predecessor], successor=item.id)
        known[item.id] = Remembered(
            item.id, item.text, item.key, item.origin, predecessor=predecessor or ""
        )
        live[item.id] = (item, mark)
        return True

    def current(self, scope: Scope, id: str) -> None:
        """Refuse an item that cannot be superseded.

        Raises:
            UnknownItem, NotCurrent: As in `Memory.supersede`.
        """
        found = self.explain(scope, id)
        if not found.live:
            raise NotCurrent(id, found.successor)

    def tombstone(self, scope: Scope, id: str, reason: str) -> bool:
        """As in `Memory.tombstone`."""
        check_reason(reason)
        found = self.explain(scope, id)
        if found.forgotten:
            return False
        self._live[scope].pop(id, None)
        self._known[scope][id] = msgspec.structs.replace(found, text="", forgotten=reason)
        return True

    def explain(self, scope: Scope, id: str) -> Remembered:
        """As in `Memory.explain`."""
        check_scope(scope)
        check_id(id)
        try:
            return self._known[scope][id]
        except KeyError:
            raise UnknownItem(id) from None

    def export(self, scope: Scope) -> dict[str, Any]:
        """As in `Memory.export`."""
        check_scope(scope)
        items = list(self._known.get(scope, {}).values())
        exported: dict[str, Any] = msgspec.to_builtins(Export(scope, items, VERSION))
        return exported

    def restore(
        self, scope: Scope, entries: Sequence[Remembered], marks: Mapping[str, Mark]
    ) -> int:
        """As in `Memory.restore`.

        Args:
            entries: The result of `read_export`.
            marks: By id, the mark of every entry that is live.
        """
        known = self._known.setdefault(scope, {})
        live = self._live.setdefault(scope, {})
        new = 0
        for entry in entries:
            here = known.get(entry.id)
            if here is None:
                new += 1
                known[entry.id] = entry
                if entry.live:
                    live[entry.id] = (item_of(scope, entry), marks[entry.id])
                continue
            if entry.successor and not here.successor:
                here = msgspec.structs.replace(here, successor=entry.successor)
            if entry.forgotten and not here.forgotten:
                here = msgspec.structs.replace(here, text="", forgotten=entry.forgotten)
            known[entry.id] = here
            if not here.live:
                live.pop(entry.id, None)
        return new


def item_of(scope: Scope, entry: Remembered) -> Item:
    """The item of an entry that is not forgotten.

    Raises:
        InvalidValue: The entry is not valid as an item.
    """
    return Item(entry.id, scope, entry.text, entry.key, entry.origin)


def read_export(exported: Any) -> list[Remembered]:
    """The entries of an export, migrated, and checked so that all of them can be taken in.

    Raises:
        InvalidValue: See `Memory.restore`.
    """
    version = exported.get("version") if isinstance(exported, Mapping) else None
    if type(version) is not int or not 1 <= version <= VERSION:
        raise InvalidValue(
            "exported.version",
            f"must be a number from 1 to {VERSION}; use the engine that wrote it, or a newer one",
        )
    try:
        entries = msgspec.convert(exported, Export).items
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidValue("exported", f"is not an export of a memory: {error}") from error
    by_id = {entry.id: entry for entry in entries}
    if len(by_id) < len(entries):
        raise InvalidValue("exported.items", "has two items with the same id; remove one")
    for index, entry in enumerate(entries):
        path = f"exported.items[{index}]"
        # A forgotten entry has no text; its other parts must still be valid for an item.
        item_of(Scope(), msgspec.structs.replace(entry, text=entry.text or "gone"))
        if bool(entry.text) == bool(entry.forgotten):
            raise InvalidValue(path, "must have either a text, or the reason why it is forgotten")
        if entry.forgotten:
            check_reason(entry.forgotten)
        for other in (entry.predecessor, entry.successor):
            if other and other not in by_id:
                raise InvalidValue(path, f"names the item {other!r:.80}; the export has no such id")
    return entries
