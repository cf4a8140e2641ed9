"""EventLoops: the open connections of a store or a memory, separate for each event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from agentic_kernel_engine.errors import StoreError

from .errors import as_store_error, no_answer
from .place import conninfo_of, name_of
from .schema import check_server
from .session import Session

Place = str | AsyncConnectionPool[Any] | None
"""The database as the user gives it: a connection string, a pool, or None for the default."""
T = TypeVar("T")


class Opened(Protocol):
    """The open parts of a store or a memory on one event loop."""

    @property
    def session(self) -> Session:
        """The connections of this event loop."""
        ...

    async def close(self) -> None:
        """Finish the calls under way, and release the connections."""
        ...


Has = TypeVar("Has", bound=Opened)


class EventLoops(Generic[Has]):
    """Opens a store or a memory with the first call on each event loop, and closes it on all.

    Args:
        place: The database. A pool of the user serves one event loop only, and stays open.
        what: The word for the opened thing in messages: ``store`` or ``memory``.
        make: Opens it on the running event loop.
    """

    def __init__(
        self, place: Place, what: str, make: Callable[[], Coroutine[Any, Any, Has]]
    ) -> None:
        self.name = name_of(place)
        self.closed = False
        self._alone = isinstance(place, AsyncConnectionPool)
        self._what = what
        self._make = make
        self._process = os.getpid()
        self._opened: dict[asyncio.AbstractEventLoop, asyncio.Task[Has]] = {}

    async def here(self) -> Has:
        """The open parts on the running event loop; the first call opens them.

        Raises:
            StoreError: The database cannot be reached, or does not meet the requirements.
        """
        loop = asyncio.get_running_loop()
        opening = self._opened.get(loop)
        if os.getpid() != self._process:
            raise StoreError(
                f"{self.name}: opened by another process; make a new {self._what} in this process"
            )
        if opening is not None and opening.done() and not opening.cancelled():
            return opening.result()
        if self.closed:
            raise StoreError(f"{self.name}: the {self._what} is closed; make a new one")
        if opening is None:
            self._sweep()
            if self._alone and self._opened:
                raise StoreError(
                    f"{self.name} serves one event loop only; to use the {self._what} on several, "
                    "give a connection string instead of a pool"
                )
            opening = self._opened[loop] = loop.create_task(self._make())
            opening.add_done_callback(self._forget_failed)
        return await asyncio.shield(opening)

    async def close(self) -> None:
        """Close the open parts on every event loop."""
        self.closed = True
        self._sweep()
        here = asyncio.get_running_loop()
        for loop in list(self._opened):
            if loop is here:
                await self._close_on(loop)
            else:
                done = asyncio.run_coroutine_threadsafe(self._close_on(loop), loop)
                await asyncio.wrap_future(done)

    async def _close_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the open parts of ``loop``, which is the running event loop."""
        opening = self._opened.get(loop)
        if opening is not None:
            with suppress(StoreError):
                await (await opening).close()
            self._opened.pop(loop, None)

    def _sweep(self) -> None:
        """Close the connections that are left from closed event loops."""
        for loop in list(self._opened):
            opening = self._opened.pop(loop, None) if loop.is_closed() else None
            if opening is not None and opening.done() and not opening.cancelled():
                with suppress(StoreError):
                    opening.result().session.close()

    def _forget_failed(self, opening: asyncio.Task[Has]) -> None:
        """Forget an opening that failed, so that the next call tries again."""
        if opening.cancelled() or opening.exception() is not None:
            self._opened.pop(opening.get_loop(), None)


async def connected(
    place: Place,
    schema: str,
    timeout: float,
    prepare: Callable[[AsyncConnection[Any]], Awaitable[T]],
    patience: float | None = None,
) -> tuple[Session, T]:
    """Connect, check the server, and return a session and the result of `prepare`.

    Args:
        timeout: Seconds for the connection, and again for the check of the server.
        patience: Seconds that a read of the session waits for its answer.
        prepare: Called with the first connection, after the server was checked; it migrates the
            schema to this version.

    Raises:
        StoreError: The database cannot be reached, or does not meet the requirements.
    """
    name = name_of(place)
    try:
        if isinstance(place, AsyncConnectionPool):
            session = Session(place, schema, name, timeout, patience)
            async with session.connection() as connection:
                await _checked(connection, name, timeout)
                return session, await prepare(connection)
        conninfo = await asyncio.to_thread(conninfo_of, place)
        async with asyncio.timeout(timeout):
            connection = await AsyncConnection.connect(conninfo, autocommit=True)
        async with connection:
            await _checked(connection, name, timeout)
            found = await prepare(connection)
        return Session(conninfo, schema, name, timeout, patience), found
    except psycopg.Error as error:
        raise as_store_error(error, name) from error
    except TimeoutError as error:
        raise no_answer(name, timeout) from error


async def _checked(connection: AsyncConnection[Any], name: str, timeout: float) -> None:
    """Check the server; close the connection if there is no answer in time."""
    try:
        async with asyncio.timeout(timeout):
            await check_server(connection, name)
    except TimeoutError:
        connection.pgconn.finish()
        raise
