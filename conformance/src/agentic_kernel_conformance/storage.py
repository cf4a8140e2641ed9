"""StoreSuite: the fixtures of `StoreContract`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar

import pytest

from agentic_kernel_engine import Record, Store

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

Cut = Callable[[str], AbstractAsyncContextManager[None]]
"""Returns a context manager: while it is open, the next write loses its connection, ``"before"`` it
lands or ``"after"`` it has landed and before the store is told."""
Older = Callable[[], Awaitable[tuple[Store, Sequence[Record]]]]
"""Returns a store on a place that an older version wrote, and all records that it wrote there: two
or more, not all of them ended. ``reopen`` opens the same place again."""
Newer = Callable[[Store], AbstractAsyncContextManager[Callable[[], Awaitable[Store]]]]
"""Returns a context manager: while it is open, the place says that a newer version wrote it. Its
value opens the place again, while it is open and afterwards; that call may raise."""
Count = Callable[[], int]
"""Returns a number that grows with what the store does: bytes written, or records looked at."""


class StoreSuite(Contract):
    """One store, empty at the start of every test."""

    features: ClassVar[StoreFeatures] = StoreFeatures()
    fixtures = frozenset(
        {
            "store", "reopen", "factory", "expire", "hold", "damage", "cut", "written", "looked",
            "operations", "disk", "older", "newer",
        }
    )  # fmt: skip

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
    cut: Any = supplied("cut", "cuttable")
    """A `Cut`. Supplied by the adapter for the feature ``cuttable``."""
    written: Any = supplied("written", "weighed")
    """A `Count` of the bytes that the store has written. Supplied for ``weighed``."""
    looked: Any = supplied("looked", "counted")
    """A `Count` of the records that the store has looked at. Supplied for ``counted``."""
    operations: Any = supplied("operations", "synced")
    """The `Operations` that ``store`` tells of what it does to files. Supplied for ``synced``."""
    disk: Any = supplied("disk", "failable")
    """The `Disk` that ``store`` asks before each file operation. Supplied for ``failable``."""
    older: Any = supplied("older", "reads_older")
    """An `Older`. Supplied by the adapter for the feature ``reads_older``."""
    newer: Any = supplied("newer", "refuses_newer")
    """A `Newer`. Supplied by the adapter for the feature ``refuses_newer``."""

    @pytest.mark.rule("kit")
    @pytest.mark.parametrize("harness", ["one", "another"])
    async def test_the_store_is_empty_and_shared_with_no_other_test(
        self, store: Store, harness: str
    ) -> None:
        """Each of the two tests leaves a record that the other one must not find."""
        found = ids_of(await store.find(limit=5))
        expect(not found, "kit", f"`store` was handed over with {found!a} in it")
        await store.insert(running(f"left behind by {harness}"))
