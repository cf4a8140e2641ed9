"""Parts: one Host's name, store, clock, complaints, and the asyncio tasks that it owns."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable
from datetime import datetime
from typing import Final

from ..readback import patiently
from ..record import Record
from ..store import Store
from .complaints import Complaints
from .in_flight import Shielded

NONCE: Final = 8
"""Random bytes in a Host's name."""


class Parts:
    """The objects that every part of one Host works with.

    The name is a random nonce, so two Hosts never share one, and an owner that carries the name is
    this Host (R2: ownership is a compare-and-set on the record). The name and the number of an act
    together identify one write; the Host recognises by them a write whose answer was lost (R5).
    """

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self.store = store
        self.clock = clock
        self.name = secrets.token_hex(NONCE)
        self.acts = itertools.count(1)
        """Numbers the writes of this Host."""
        self.shielded = Shielded()
        self.complaints = Complaints()
        self.immediate = store.traits.never_waits
        """True if no method of the store ever suspends. No cancellation can then interrupt a write,
        so a write needs no asyncio task of its own."""

    async def load(self, task_id: str) -> Record:
        """`Store.load` for a run; a store that is only busy is asked again.

        Raises:
            TaskNotFound: No such Task is stored.
            StoreError: The store still cannot be read.
        """
        return await patiently(lambda: self.store.load(task_id))
