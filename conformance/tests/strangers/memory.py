"""A memory that keeps items in dicts, one for each scope, and ten mistakes in it."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine.seams import (
    Export,
    Hit,
    Item,
    NotCurrent,
    Query,
    Remembered,
    Scope,
    UnknownItem,
    check_id,
    check_reason,
    check_scope,
)

Shelf = dict[str, Remembered]


def is_a(value: object, kind: type, path: str) -> None:
    if not isinstance(value, kind):
        raise InvalidValue(path, f"must be a {kind.__name__}, not {type(value).__name__}")


def record(item: Item, predecessor: str = "") -> Remembered:
    return Remembered(item.id, item.text, item.key, item.origin, predecessor)


def forgotten(known: Remembered, reason: str) -> Remembered:
    return msgspec.structs.replace(known, text="", forgotten=reason)


def read(exported: object) -> Export:
    """An export, checked."""
    try:
        export = msgspec.convert(exported, Export)
    except msgspec.ValidationError as error:
        raise InvalidValue("exported", f"is not an export: {error}") from None
    if (
        not isinstance(exported, Mapping)
        or exported.get("version") != 1
        or isinstance(exported.get("version"), bool)
    ):
        raise InvalidValue("exported.version", "must be 1")
    ids = {each.id for each in export.items}
    if len(ids) != len(export.items):
        raise InvalidValue("exported.items", "has an id twice")
    for each in export.items:
        check_id(each.id)
        for other in (each.predecessor, each.successor):
            if other and other not in ids:
                raise InvalidValue(
                    "exported.items", f"names the item {other!r}, which it does not have"
                )
        if each.forgotten:
            check_reason(each.forgotten)
            if each.text:
                raise InvalidValue("exported.items", f"{each.id!r} is forgotten and has a text")
        else:
            Item(each.id, export.scope, each.text, each.key, each.origin)
    return export


class HealthyMemory:
    """Never awaits between a look and a change, so each call is atomic on its event loop."""

    def __init__(self) -> None:
        self._scopes: dict[Hashable, Shelf] = {}

    def _at(self, scope: Scope) -> Hashable:
        return (scope.tenant, scope.principal, scope.session)

    def _shelf(self, scope: Scope) -> Shelf:
        return self._scopes.setdefault(self._at(scope), {})

    async def propose(self, item: Item) -> bool:
        is_a(item, Item, "item")
        shelf = self._shelf(item.scope)
        if item.id in shelf:
            return False
        shelf[item.id] = record(item)
        return True

    async def supersede(self, predecessor: str, item: Item) -> bool:
        check_id(predecessor)
        is_a(item, Item, "item")
        shelf = self._shelf(item.scope)
        if item.id in shelf:
            return False
        self._replace(shelf, predecessor, item)
        return True

    def _replace(self, shelf: Shelf, predecessor: str, item: Item) -> None:
        if predecessor not in shelf:
            raise UnknownItem(predecessor)
        known = shelf[predecessor]
        if not known.live:
            raise NotCurrent(predecessor, known.successor)
        shelf[predecessor] = msgspec.structs.replace(known, successor=item.id)
        shelf[item.id] = record(item, predecessor)

    async def tombstone(self, scope: Scope, id: str, reason: str) -> bool:
        check_scope(scope)
        check_id(id)
        check_reason(reason)
        shelf = self._shelf(scope)
        if id not in shelf:
            raise UnknownItem(id)
        if shelf[id].forgotten:
            return False
        self._forget(shelf, id, reason)
        return True

    def _forget(self, shelf: Shelf, id: str, reason: str) -> None:
        shelf[id] = forgotten(shelf[id], reason)

    async def recall(self, query: Query) -> Sequence[Hit]:
        is_a(query, Query, "query")
        words = set(query.text.lower().split())
        hits = []
        for known in self._candidates(self._shelf(query.scope)):
            common = len(words & set(known.text.lower().split()))
            score = common / len(words) if words else 1.0
            if score >= query.min_score:
                item = Item(known.id, query.scope, known.text, known.key, known.origin)
                hits.append(Hit(item, score, f"{common} words" if words else "new"))
        return self._best(hits)[: query.limit]

    def _candidates(self, shelf: Shelf) -> list[Remembered]:
        """The live items, newest first."""
        return [known for known in reversed(shelf.values()) if known.live]

    def _best(self, hits: list[Hit]) -> list[Hit]:
        return sorted(hits, key=lambda hit: -hit.score)

    async def explain(self, scope: Scope, id: str) -> Remembered:
        check_scope(scope)
        check_id(id)
        try:
            return self._shelf(scope)[id]
        except KeyError:
            raise UnknownItem(id) from None

    async def export(self, scope: Scope) -> dict[str, Any]:
        check_scope(scope)
        exported: dict[str, Any] = msgspec.to_builtins(
            Export(scope, list(self._shelf(scope).values()))
        )
        return exported

    async def restore(self, scope: Scope, exported: Mapping[str, Any]) -> int:
        check_scope(scope)
        shelf = dict(self._shelf(scope))
        new = self._take_in(shelf, read(exported))
        self._scopes[self._at(scope)] = shelf
        return new

    def _take_in(self, shelf: Shelf, export: Export) -> int:
        new = 0
        for other in export.items:
            mine = shelf.get(other.id)
            if mine is None:
                shelf[other.id] = other
                new += 1
                continue
            if not mine.successor and not mine.forgotten and other.successor:
                mine = msgspec.structs.replace(mine, successor=other.successor)
            if other.forgotten and not mine.forgotten:
                mine = forgotten(mine, other.forgotten)
            shelf[other.id] = mine
        return new


class ChecksThePredecessorFirst(HealthyMemory):
    """Looks at the predecessor before the item, so a repeated call raises `NotCurrent`."""

    async def supersede(self, predecessor: str, item: Item) -> bool:
        check_id(predecessor)
        is_a(item, Item, "item")
        shelf = self._shelf(item.scope)
        known = shelf.get(predecessor)
        if known is None:
            raise UnknownItem(predecessor)
        if not known.live:
            raise NotCurrent(predecessor, known.successor)
        return await super().supersede(predecessor, item)


class LooksThenWrites(HealthyMemory):
    """Awaits an index between the look and the write."""

    async def propose(self, item: Item) -> bool:
        is_a(item, Item, "item")
        shelf = self._shelf(item.scope)
        if item.id in shelf:
            return False
        await asyncio.sleep(0)  # the embedder
        shelf[item.id] = record(item)
        return True


class ForgetsTheLiveOnly(HealthyMemory):
    """Deletes the text of a live item only."""

    def _forget(self, shelf: Shelf, id: str, reason: str) -> None:
        if shelf[id].live:
            super()._forget(shelf, id, reason)
        else:
            shelf[id] = msgspec.structs.replace(shelf[id], forgotten=reason)


class OldestOfEqual(HealthyMemory):
    """Sorts by score and lets the older of two equal hits come first."""

    def _best(self, hits: list[Hit]) -> list[Hit]:
        if all(hit.reason == "new" for hit in hits):
            return hits
        oldest = list(reversed(hits))
        return sorted(oldest, key=lambda hit: -hit.score)


class TheNewestHundred(HealthyMemory):
    """Searches the newest 100 items only."""

    def _candidates(self, shelf: Shelf) -> list[Remembered]:
        return super()._candidates(shelf)[:100]


class JoinedScope(HealthyMemory):
    """Joins the parts of a scope by a slash, so ("a/b", "c") is ("a", "b/c")."""

    def _at(self, scope: Scope) -> Hashable:
        return f"{scope.tenant}/{scope.principal}/{scope.session}"


class KeptExport(HealthyMemory):
    """Keeps an export while the number of items stays, so a forgotten text is still in it."""

    def __init__(self) -> None:
        super().__init__()
        self._exports: dict[tuple[Hashable, int], dict[str, Any]] = {}

    async def export(self, scope: Scope) -> dict[str, Any]:
        check_scope(scope)
        at = (self._at(scope), len(self._shelf(scope)))
        if at not in self._exports:
            self._exports[at] = await super().export(scope)
        return self._exports[at]


class PieceByPiece(HealthyMemory):
    """Takes an export in one item after the other, and raises at the bad one."""

    async def restore(self, scope: Scope, exported: Mapping[str, Any]) -> int:
        check_scope(scope)
        if (
            not isinstance(exported, Mapping)
            or not isinstance(exported.get("items"), list)
            or exported.get("version") != 1
        ):
            raise InvalidValue("exported", "is not an export")
        shelf, new = self._shelf(scope), 0
        named = {each.get("id") for each in exported["items"] if isinstance(each, dict)}
        for each in exported["items"]:
            part = (
                {**exported, "items": [{**each, "predecessor": "", "successor": ""}]}
                if isinstance(each, dict)
                else None
            )
            read(part)
            one = msgspec.convert(each, Remembered)
            if not {one.predecessor, one.successor} <= named | {""}:
                raise InvalidValue("exported.items", f"{one.id!r} names an item that is not there")
            new += self._take_in(shelf, Export(scope, [one]))
        return new


class KnownIsKnown(HealthyMemory):
    """Skips each item of an export that it knows, forgotten there or not."""

    def _take_in(self, shelf: Shelf, export: Export) -> int:
        new = [each for each in export.items if each.id not in shelf]
        shelf.update((each.id, each) for each in new)
        return len(new)


class StaysLocked(HealthyMemory):
    """Releases its lock only if nothing goes wrong, so a cancelled call blocks all later ones."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = asyncio.Lock()

    async def propose(self, item: Item) -> bool:
        await self._lock.acquire()
        await asyncio.sleep(0)  # the disk
        new = await super().propose(item)
        self._lock.release()
        return new

    async def supersede(self, predecessor: str, item: Item) -> bool:
        await self._lock.acquire()
        await asyncio.sleep(0)
        new = await super().supersede(predecessor, item)
        self._lock.release()
        return new


FAULTS = {
    "ChecksThePredecessorFirst": "memory",
    "LooksThenWrites": "memory",
    "ForgetsTheLiveOnly": "memory",
    "OldestOfEqual": "recall",
    "TheNewestHundred": "recall",
    "JoinedScope": "scopes",
    "KeptExport": "export",
    "PieceByPiece": "export",
    "KnownIsKnown": "export",
    "StaysLocked": "unwind",
}
"""The rule that each of them breaks."""
