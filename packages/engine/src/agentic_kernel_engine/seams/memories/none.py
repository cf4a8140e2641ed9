"""A memory that keeps nothing, where one has to be named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..memory import Export, Hit, Item, Query, Remembered, Scope, UnknownItem
from .ledger import read_export


class NoMemory:
    """Forgets everything at once: what it is told is well received, and never found.

    So it keeps no promise of `Memory` that is about finding; it takes the place of one in a Loop.
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
