"""Writer: sends the waiting commits of all Tasks of a session as one batch, in one round trip.

While one batch is under way, the queue collects the next batch. Each write of a batch is accepted
or refused by itself. The accepted writes are committed, and made durable, together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from copy import copy
from typing import Final

import psycopg

from agentic_kernel_engine.errors import StoreError, UnknownOutcome
from agentic_kernel_engine.record import Record

from .errors import as_store_error, settled
from .session import Cursor, Session, cursor_of
from .writes import STEP, WRITE, Outcome, Write, batch_of

_MOST: Final = 128
"""Writes per batch."""
_MOST_BYTES: Final = 4 * 1024 * 1024
_TRIES: Final = 5
"""Attempts to send a write that is known not to have landed."""

_LANDED: Final = (Outcome.LANDED,)
_PASSING: Final = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)

_Lost = tuple[list[Write], Exception]
"""Writes that were sent and not answered, and the error."""

Landed = Callable[[Record, Sequence[bytes]], Awaitable[bool]]
"""Returns True if the store holds a record with these events; it settles lost answers (R5)."""


class Writer:
    """One session's queue of writes, and the asyncio task that serves it while it is not empty.

    Args:
        channel: The notification channel for writes that other processes must see.
        landed: Called for each write whose answer was lost.
    """

    def __init__(self, session: Session, channel: str, landed: Landed) -> None:
        self._session = session
        self._channel = channel
        self._landed = landed
        self._write_text = WRITE.format(schema=session.schema)
        self._step_text = STEP.format(schema=session.schema)
        self._queue: deque[Write] = deque()
        self._task: asyncio.Task[None] | None = None

    async def write(self, write: Write) -> None:
        """Queue a write and wait for it; if the caller is cancelled, it is settled first (R5)."""
        self._queue.append(write)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._serve())
        try:
            await write.future
        except asyncio.CancelledError:
            while not write.settled:
                write.future = asyncio.get_running_loop().create_future()
                with suppress(asyncio.CancelledError, Exception):
                    await write.future
            raise

    async def close(self) -> None:
        """Wait until no write is under way."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _serve(self) -> None:
        try:
            while self._queue:
                await self._serve_some()
        except asyncio.CancelledError:
            self._refuse(
                UnknownOutcome(
                    "the event loop ended during the write; read back to learn whether it landed"
                )
            )
            raise
        except Exception as defect:
            self._refuse(defect)
        finally:
            self._task = None

    async def _serve_some(self) -> None:
        """Send batches while writes wait and the connection works."""
        lost: _Lost | None = None
        try:
            if self._session.doubts:
                await self._session.settle()
            async with self._session.connection() as connection:
                cursor = cursor_of(connection)
                while self._queue and lost is None:
                    lost = await self._write(cursor, self._taken())
                    # Let answered callers run: each may queue its next write for the next batch.
                    await asyncio.sleep(0)
        except StoreError as fault:  # no write that still waits was sent
            self._refuse(fault)
        if lost is not None:
            await self._look_back(*lost)

    def _taken(self) -> list[Write]:
        """The next batch: one write of each Task, in order of their ids."""
        taken: dict[str, Write] = {}
        later: list[Write] = []
        size = 0
        while self._queue and len(taken) < _MOST and size < _MOST_BYTES:
            write = self._queue.popleft()
            if write.item.id in taken:
                later.append(write)
            else:
                taken[write.item.id] = write
                size += write.size
        self._queue.extendleft(reversed(later))
        return [taken[id] for id in sorted(taken)]

    async def _write(self, cursor: Cursor, writes: list[Write]) -> _Lost | None:
        """Send a batch and answer its callers; return the writes whose answer was lost, if any."""
        session, connection = self._session, cursor.connection
        try:
            async with asyncio.timeout(session.timeout):
                outcomes = await self._sent(cursor, writes)
        except (psycopg.Error, UnicodeError, TimeoutError, asyncio.CancelledError) as error:
            if not isinstance(error, asyncio.CancelledError) and _answered(cursor, error):
                return await self._refused(cursor, writes, error)
            connection.pgconn.finish()
            session.lost()
            if isinstance(error, asyncio.CancelledError):
                self._queue.extendleft(writes)
                raise
            return writes, error
        except BaseException as error:  # a defect: every caller gets the error, and none hangs
            _refuse(writes, error)
        else:
            for write, outcome in zip(writes, outcomes, strict=True):
                write.decided(outcome)
        return None

    async def _sent(self, cursor: Cursor, writes: list[Write]) -> Sequence[int]:
        """The outcome of each write."""
        session = self._session.number
        alone = writes[0] if len(writes) == 1 else None
        if alone is not None and alone.steps and (self._session.raised or not alone.item.raises):
            await cursor.execute(self._step_text, alone.step(session))
            row = await cursor.fetchone()
            if row is not None and row[0]:
                return _LANDED
        batch = batch_of(writes, session, self._channel, raised=self._session.raised)
        await cursor.execute(self._write_text, batch)
        row = await cursor.fetchone()
        assert row is not None
        outcomes: Sequence[int] = row[0] or _LANDED * len(writes)
        if batch.raises:
            landed = zip(writes, outcomes, strict=True)
            self._session.raised = any(
                write.item.raises and outcome == Outcome.LANDED for write, outcome in landed
            )
        return outcomes

    async def _refused(self, cursor: Cursor, writes: list[Write], error: Exception) -> _Lost | None:
        """Handle a batch that the database refused as a whole, so that no write of it landed.

        After a deadlock or a serialization failure the batch is retried. Otherwise each write is
        sent alone, so that only the faulty ones are refused.
        """
        fault = as_store_error(error, self._session.name)
        if isinstance(error, _PASSING):
            self._try_again(writes, fault)
        elif len(writes) == 1:
            _refuse(writes, fault)
        else:
            for n, write in enumerate(writes):
                lost = await self._write(cursor, [write])
                if lost is not None:
                    self._queue.extendleft(reversed(writes[n + 1 :]))
                    return lost
        return None

    async def _look_back(self, writes: list[Write], error: Exception) -> None:
        """Settle writes whose answer was lost, by reading the store (R5)."""
        fault = as_store_error(error, self._session.name)
        left = []
        try:
            await self._session.settle()
            for write in writes:
                if await self._landed(write.after, write.events):
                    write.settle()
                else:
                    left.append(write)
        except Exception as trouble:
            unknown = UnknownOutcome(f"{fault}; read back to learn whether the write landed")
            unknown.__cause__ = trouble
            _refuse([write for write in writes if not write.settled], unknown)
        else:
            self._try_again(left, fault)

    def _try_again(self, writes: list[Write], fault: StoreError) -> None:
        """Queue writes that did not land again, in front; refuse them after `_TRIES` attempts."""
        for write in reversed(writes):
            write.tries += 1
            if write.tries < _TRIES:
                self._queue.appendleft(write)
            else:
                _refuse([write], fault)

    def _refuse(self, fault: Exception) -> None:
        _refuse(list(self._queue), fault)
        self._queue.clear()


def _answered(cursor: Cursor, error: Exception) -> bool:
    return settled(error) and not cursor.connection.closed


def _refuse(writes: list[Write], error: BaseException) -> None:
    for write in writes:
        if isinstance(error, StoreError):  # each caller gets an exception of its own
            own = copy(error)
            own.__cause__ = error
            write.settle(own)
        else:
            write.settle(error)
