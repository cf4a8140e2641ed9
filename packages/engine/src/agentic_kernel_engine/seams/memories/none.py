"""NoMemory: a memory that keeps nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..memory import Export, Hit, Item, Query, Remembered, Scope, UnknownItem
from .item_ledger import read_export


class NoMemory:
    """Keeps no item and finds none; it takes the place of a memory in a Loop.

    `propose` accepts every item and always returns False. Every id is unknown. So it does not keep
    the guarantees of `Memory` about remembering and finding.
    """

    async def propose(self, item: Item) -> bool:
        return False

    async def supersede(self, predecessor: str, item: Item) -> bool:
        raise UnknownItem(predecessor)

    async def tombstone(self, scope: Scope, id: str, reason: str) -> bool:
        raise UnknownItem(id)

    async def recall(self, query: Query) -> Sequence[Hit]:
        return ()

    async def explain(self, scope: Scope, id: str) -> Remembered:
        raise UnknownItem(id)

    async def export(self, scope: Scope) -> dict[str, Any]:
        exported: dict[str, Any] = msgspec.to_builtins(Export(scope, []))
        return exported

    async def restore(self, scope: Scope, exported: Mapping[str, Any]) -> int:
        read_export(exported)
        return 0
