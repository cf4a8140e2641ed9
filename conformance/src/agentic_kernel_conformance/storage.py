"""StoreSuite: the fixtures of `StoreContract`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import pytest

from agentic_kernel_engine import Store

from .contract import Contract, supplied
from .features import StoreFeatures
from .records import ids_of, running
from .rules import expect

Reopen = Callable[[Store], Awaitable[Store]]
"""Drops the given handle, as a close or a crash would, and opens the same place again."""
Expire = Callable[[str], Awaitable[None]]
"""Lets the lease of the given host expire while its process lives."""
Damage = Callable[[Store, str], Awaitable[Store]]
"""Makes the stored record of one Task unreadable, and no other: its bytes are there, but cannot be
decoded. Returns a handle on the same place, which may be the given one."""


class StoreSuite(Contract):
    """One store, empty at the start of every test."""

    features: ClassVar[StoreFeatures] = StoreFeatures()
    fixtures = frozenset({"store", "reopen", "factory", "expire", "hold", "damage"})

    store: Any = supplied("store")
    """An empty `Store` for each test. Supplied by the adapter."""
    reopen: Any = supplied("reopen", "durable")
    """A `Reopen`. Supplied by the adapter for the feature ``durable``."""
    factory: Any = supplied("factory", "processes")
    """A `StoreFactory`: another process opens ``store`` with it. Supplied for ``processes``."""
    expire: Any = supplied("expire", "leases")
    """An `Expire`. Supplied by the adapter for the feature ``leases``."""
    hold: Any = supplied("hold", "holdable")
    """A `Callable[[], AbstractAsyncContextManager[None]]`: while the context is open, writes that
    were called do not complete. Supplied by the adapter for the feature ``holdable``."""
    damage: Any = supplied("damage", "damageable")
    """A `Damage`. Supplied by the adapter for the feature ``damageable``."""

    @pytest.mark.rule("kit")
    @pytest.mark.parametrize("harness", ["one", "another"])
    async def test_the_store_is_empty_and_shared_with_no_other_test(
        self, store: Store, harness: str
    ) -> None:
        """Each of the two tests leaves a record that the other one must not find."""
        found = ids_of(await store.find(limit=5))
        expect(not found, "kit", f"`store` was handed over with {found!a} in it")
        await store.insert(running(f"left behind by {harness}"))
