"""MemorySuite: the fixtures of `MemoryContract`, and the items that it remembers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Final

import pytest

from agentic_kernel_engine.seams import Item, Memory, Origin, Query, Scope

from .contract import Contract, supplied
from .features import MemoryFeatures
from .rules import expect

Reopen = Callable[[Memory], Awaitable[Memory]]
"""Closes the given memory, or drops it as a crash would, and opens its place again."""
Another = Callable[[], Awaitable[Memory]]
"""Opens one more handle on the memory's place, as another process would; the adapter closes it."""

HERE: Final = Scope("acme", "ann", "monday")
THERE: Final = Scope("acme", "ann", "tuesday")
ELSEWHERE: Final = (
    THERE,
    Scope("acme", "bob", "monday"),
    Scope("zeta", "ann", "monday"),
    Scope("ACME", "ann", "monday"),
    Scope("acme", "annmonday"),
    Scope("acme", "", "annmonday"),
    Scope("acme/ann", "", "monday"),
    Scope("acmé", "ann", "monday"),
    Scope("acme", "ann", "monday "),
    Scope(),
)
"""Scopes that differ from `HERE`, but look equal to code that folds or joins their parts."""
JOINTS: Final = ("/", ":", "|", ".", ",", "-", "_", " ", "\t", "\n", "\x1f", "::", "%2F", "\\")
"""Texts by which code joins the parts of a scope."""
TEA: Final = Item("tea", HERE, "Ann likes green tea in the morning", "drink", Origin("task-1", 3))
COFFEE: Final = Item("coffee", HERE, "Ann likes black coffee now", "drink", Origin("task-2", 0))
INVOICE: Final = Item("invoice", HERE, "The number of the invoice is 0417")


class MemorySuite(Contract):
    """One memory, empty at the start of every test."""

    features: ClassVar[MemoryFeatures] = MemoryFeatures()
    fixtures = frozenset({"memory", "reopen", "another"})

    memory: Any = supplied("memory")
    """An empty `Memory` for each test. Supplied by the adapter."""
    reopen: Any = supplied("reopen", "durable")
    """A `Reopen`. Supplied by the adapter for the feature ``durable``."""
    another: Any = supplied("another", "shared")
    """An `Another`. Supplied by the adapter for the feature ``shared``."""

    @pytest.mark.rule("kit")
    @pytest.mark.parametrize("harness", ["one", "another"])
    async def test_the_memory_is_empty_and_shared_with_no_other_test(
        self, memory: Memory, harness: str
    ) -> None:
        """Each test leaves an item behind, which the other must not find."""
        scope = Scope("kit", "both")
        known = (await memory.export(scope))["items"]
        expect(not known, "kit", f"`memory` was handed over with {known!a:.200} in it")
        new = await memory.propose(Item("left", scope, f"left behind by {harness}"))
        keeps = self.features.keeps
        expect(new == keeps, "kit", f"a new item: {new}; declare keeps={new}, not {keeps}")


async def texts(memory: Memory, query: Query | None = None) -> list[str]:
    """Return the texts that a query finds; without a query, those of `HERE`, newest first."""
    return [hit.item.text for hit in await memory.recall(query or Query(HERE, limit=1_000))]
