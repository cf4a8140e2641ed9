"""Shared by the tests of memories: two scopes, and items in them."""

from __future__ import annotations

from agentic_kernel_engine.seams.memory import (
    Item,
    Origin,
    Scope,
)

ANN = Scope("acme", "ann", "monday")
LIKES = Item("t:0:0", ANN, "Ann likes green tea", "tea", Origin("t", 0))


def item(id: str, text: str, scope: Scope = ANN, key: str = "") -> Item:
    return Item(id, scope, text, key)
