"""Memories, each with one mistake that a real author might make."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import msgspec

from agentic_kernel_engine.seams.memories import InMemoryMemory
from agentic_kernel_engine.seams.memory import (
    Hit,
    Item,
    NotCurrent,
    Query,
    Remembered,
    Scope,
    UnknownItem,
)


class _Mapped(InMemoryMemory, ABC):
    """Turns every scope into another one on its way in."""

    @abstractmethod
    def scope(self, scope: Scope) -> Scope:
        """The other one."""

    def item(self, item: Item) -> Item:
        return msgspec.structs.replace(item, scope=self.scope(item.scope))

    async def propose(self, item: Item) -> bool:
        return await super().propose(self.item(item))

    async def supersede(self, predecessor: str, item: Item) -> bool:
        return await super().supersede(predecessor, self.item(item))

    async def tombstone(self, scope: Scope, id: str, reason: str) -> bool:
        return await super().tombstone(self.scope(scope), id, reason)

    async def recall(self, query: Query) -> Sequence[Hit]:
        found = await super().recall(msgspec.structs.replace(query, scope=self.scope(query.scope)))
        return [_of(hit, query.scope) for hit in found]

    async def explain(self, scope: Scope, id: str) -> Remembered:
        return await super().explain(self.scope(scope), id)

    async def export(self, scope: Scope) -> dict[str, Any]:
        exported = await super().export(self.scope(scope))
        return {**exported, "scope": msgspec.to_builtins(scope)}

    async def restore(self, scope: Scope, exported: Mapping[str, Any]) -> int:
        return await super().restore(self.scope(scope), exported)


def _of(hit: Hit, scope: Scope) -> Hit:
    return msgspec.structs.replace(hit, item=msgspec.structs.replace(hit.item, scope=scope))


class JoinedScopes(_Mapped):
    """The parts of a scope are joined to one key, and it cannot tell them apart any more."""

    def scope(self, scope: Scope) -> Scope:
        return Scope(f"{scope.tenant}{scope.principal}{scope.session}")


class FoldedScopes(_Mapped):
    """Names of tenants are compared without letter case."""

    def scope(self, scope: Scope) -> Scope:
        return msgspec.structs.replace(scope, tenant=scope.tenant.lower())


class OneTenant(_Mapped):
    """It was written when there was one tenant."""

    def scope(self, scope: Scope) -> Scope:
        return msgspec.structs.replace(scope, tenant="")


class CheckThenAct(InMemoryMemory):
    """It looks whether an item is known, and writes it down later."""

    async def propose(self, item: Item) -> bool:
        try:
            await self.explain(item.scope, item.id)
        except UnknownItem:
            await asyncio.sleep(0)
            await super().propose(item)
            return True
        return False


class Overwrites(InMemoryMemory):
    """What is said under a known id takes the place of what was."""

    async def explain(self, scope: Scope, id: str) -> Remembered:
        found = await super().explain(scope, id)
        return msgspec.structs.replace(found, text=self.said.get(id, found.text))

    def __init__(self) -> None:
        super().__init__()
        self.said: dict[str, str] = {}

    async def propose(self, item: Item) -> bool:
        self.said[item.id] = item.text
        return await super().propose(item)


class HidesOnly(InMemoryMemory):
    """What is forgotten is not found any more, and its text is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}

    async def propose(self, item: Item) -> bool:
        self.texts.setdefault(item.id, item.text)
        return await super().propose(item)

    async def explain(self, scope: Scope, id: str) -> Remembered:
        found = await super().explain(scope, id)
        return msgspec.structs.replace(found, text=self.texts.get(id, found.text))


class NotFoundIsNone(InMemoryMemory):
    """Of what nobody knows it tells nothing, and nobody."""

    async def explain(self, scope: Scope, id: str) -> Any:
        try:
            return await super().explain(scope, id)
        except UnknownItem:
            return None


class FindsTheSuperseded(InMemoryMemory):
    """A query also finds what something newer took the place of."""

    def __init__(self) -> None:
        super().__init__()
        self.old: list[Item] = []

    async def propose(self, item: Item) -> bool:
        self.old.append(item)
        return await super().propose(item)

    async def recall(self, query: Query) -> Sequence[Hit]:
        found = list(await super().recall(query))
        known = {hit.item.id for hit in found}
        more = [each for each in self.old if each.id not in known and each.scope == query.scope]
        return [*found, *(Hit(each, -1.0, "it was known") for each in more)][: query.limit]


class OldestFirst(InMemoryMemory):
    """Of equal scores, the one that was there first comes first."""

    async def recall(self, query: Query) -> Sequence[Hit]:
        hits = await super().recall(msgspec.structs.replace(query, limit=1_000))
        old = list(reversed(hits))
        old.sort(key=lambda hit: -hit.score)
        return old[: query.limit]


class LimitThenScore(InMemoryMemory):
    """It has no minimal score: whatever is closest is found."""

    async def recall(self, query: Query) -> Sequence[Hit]:
        return await super().recall(msgspec.structs.replace(query, min_score=-1.0))


class LiveOnly(InMemoryMemory):
    """An export has what is live, and not what became of the others."""

    async def export(self, scope: Scope) -> dict[str, Any]:
        exported = await super().export(scope)
        live = [
            each
            for each in exported["items"]
            if not each.get("successor") and not each.get("forgotten")
        ]
        return {**exported, "items": [{**each, "predecessor": ""} for each in live]}


class RestoresByProposing(InMemoryMemory):
    """An export is taken in item by item, until one is not accepted."""

    async def restore(self, scope: Scope, exported: Mapping[str, Any]) -> int:
        whole = {**exported, "version": 1}
        items = whole.get("items", [])
        new = 0
        for each in items if isinstance(items, list) else ():
            new += await super().restore(scope, {**whole, "items": [each]})
        return new


class TakesAnyVersion(InMemoryMemory):
    """It reads what a later version wrote as if it knew what that means."""

    async def restore(self, scope: Scope, exported: Mapping[str, Any]) -> int:
        if isinstance(exported, Mapping):
            exported = {**exported, "version": 1}
        return await super().restore(scope, exported)


class ReadsOnce(InMemoryMemory):
    """A handle reads the items of its place when it is opened, and never again."""

    async def another(self) -> ReadsOnce:
        opened = ReadsOnce()
        opened._ledger = deepcopy(self._ledger)
        return opened


class ExplainsAnyScope(InMemoryMemory):
    """An item of another scope is explained to all who know its id."""

    def __init__(self) -> None:
        super().__init__()
        self.scopes: dict[str, Scope] = {}

    async def propose(self, item: Item) -> bool:
        self.scopes.setdefault(item.id, item.scope)
        return await super().propose(item)

    async def explain(self, scope: Scope, id: str) -> Remembered:
        return await super().explain(self.scopes.get(id, scope), id)


class UnknownFirst(InMemoryMemory):
    """It looks at the predecessor first, so that a retry of what is done is refused."""

    async def supersede(self, predecessor: str, item: Item) -> bool:
        if not (known := await super().explain(item.scope, predecessor)).live:
            if known.successor == item.id:
                return False
            raise NotCurrent(predecessor, known.successor)
        return await super().supersede(predecessor, item)


class ThenCounts(InMemoryMemory):
    """The limit is applied before what is gone is left out."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[tuple[Scope, str]] = []

    async def propose(self, item: Item) -> bool:
        self.order.append((item.scope, item.id))
        return await super().propose(item)

    async def recall(self, query: Query) -> Sequence[Hit]:
        newest = [id for scope, id in reversed(self.order) if scope == query.scope]
        seen = set(newest[: 5 * query.limit])
        return [hit for hit in await super().recall(query) if hit.item.id in seen]


class TwoActs(InMemoryMemory):
    """The older item goes first, and the new one comes in a second act."""

    async def supersede(self, predecessor: str, item: Item) -> bool:
        if await super().explain(item.scope, predecessor) and item.id in self._begun:
            return await super().propose(item)
        self._begun.add(item.id)
        await super().tombstone(item.scope, predecessor, "superseded")
        await asyncio.sleep(0)
        return await super().propose(item)

    def __init__(self) -> None:
        super().__init__()
        self._begun: set[str] = set()


class KeepsTheExport(InMemoryMemory):
    """The entries of an export are marked as restored, in place."""

    async def restore(self, scope: Scope, exported: Mapping[str, Any]) -> int:
        new = await super().restore(scope, exported)
        for each in exported["items"]:
            each["restored"] = True
        return new


class TakesAnyName(InMemoryMemory):
    """A reason is optional."""

    async def tombstone(self, scope: Scope, id: str, reason: str) -> bool:
        return await super().tombstone(scope, id, reason or "no reason")


class ShortNames(InMemoryMemory):
    """Keys are cut to the width of a column."""

    async def propose(self, item: Item) -> bool:
        return await super().propose(msgspec.structs.replace(item, key=item.key[:600]))
