"""RemoteStore: the Store of a worker process; the store itself is in the kit's process."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack

from agentic_kernel_engine import (
    Cursor,
    EventId,
    Record,
    SearchOptions,
    StoreTraits,
    Unreadable,
)
from agentic_kernel_engine.stored import decode_record, encode_record

from .substrate_wire import Peer


class RemoteStore:
    """A `Store` that calls the kit's process for everything.

    Args:
        peer: The connection to the kit's process.
    """

    traits = StoreTraits()

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    async def join(self, host: str) -> None:
        await self._write("join", host)

    async def leave(self, host: str) -> None:
        await self._write("leave", host)

    async def alive(self, owner: str) -> bool:
        return bool(await self._peer.call("alive", owner))

    async def insert(self, record: Record, events: Sequence[bytes] = ()) -> None:
        await self._write("insert", encode_record(record), list(events))

    async def load(self, task_id: str) -> Record:
        return decode_record(await self._peer.call("load", task_id))

    async def load_many(self, task_ids: Collection[str]) -> Mapping[str, Record]:
        found = map(decode_record, await self._peer.call("load_many", list(task_ids)))
        return {record.task.id: record for record in found}

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        await self._write("commit", encode_record(before), encode_record(after), list(events))

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        found = await self._write("claim", task_id, host, list(events))
        return None if found is None else decode_record(found)

    async def events(
        self, task_id: str, after: Cursor | None = None, limit: int = 1000
    ) -> Sequence[tuple[Cursor, bytes]]:
        found = await self._peer.call("events", task_id, after, limit)
        return [(EventId(*cursor), text) for cursor, text in found]

    async def changed(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        found: Mapping[str, int] = await self._peer.call("changed", dict(versions))
        return found

    async def find(self, **options: Unpack[SearchOptions]) -> Sequence[Record]:
        plain = {
            name: list(value) if isinstance(value, (set, frozenset)) else value
            for name, value in options.items()
        }
        return [decode_record(text) for text in await self._peer.call("find", plain)]

    async def unreadable(self, after: str | None = None, limit: int = 100) -> Sequence[Unreadable]:
        return []  # The store of the kit holds the records themselves, so it reads every one.

    async def bury(
        self,
        task_id: str,
        version: int,
        events: Sequence[bytes] = (),
        *,
        force: bool = False,
        at: datetime | None = None,
    ) -> Record:
        buried = await self._write("bury", task_id, version, list(events), force, at)
        return decode_record(buried)

    async def prune(self, ended_before: datetime, limit: int = 1000) -> int:
        return int(await self._write("prune", ended_before, limit))

    async def _write(self, name: str, *arguments: Any) -> Any:
        """Call, and settle the write before a cancellation goes on (R5)."""
        call = asyncio.ensure_future(self._peer.call(name, *arguments))
        call.set_name("kit: write")
        cancelled: asyncio.CancelledError | None = None
        while not call.done():
            try:
                await asyncio.wait([call])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            call.exception()  # It is read back, so no other code asks for it.
            raise cancelled
        return call.result()
