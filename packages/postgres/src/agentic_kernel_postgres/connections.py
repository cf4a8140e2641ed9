"""Connections: a store's own pool on one event loop, without a background task.

Because there is no background task, an event loop can end while the store is open. Another thread
can then close the connections that are left.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg_pool import PoolClosed, PoolTimeout

_AGAIN: Final = 0.1
"""Seconds between two attempts to connect, e.g. while the server restarts."""


class Connections:
    """A pool of connections in autocommit mode, made when they are needed.

    Args:
        conninfo: The connection string.
        most: The maximum number of connections.
    """

    def __init__(self, conninfo: str, most: int) -> None:
        self._conninfo = conninfo
        self._idle: list[AsyncConnection[Any]] = []
        self._all: weakref.WeakSet[AsyncConnection[Any]] = weakref.WeakSet()
        self._free = asyncio.Semaphore(most)
        self._closed = False

    async def getconn(self, timeout: float) -> AsyncConnection[Any]:
        """A connection; the caller gives it back with `putconn`.

        Args:
            timeout: Seconds to wait.

        Raises:
            PoolTimeout: No connection became free, or the server did not answer, in that time.
            PoolClosed: The pool was closed.
            psycopg.Error: The server refused connections for that time.
        """
        deadline = time.monotonic() + timeout
        if self._free.locked():
            try:
                async with asyncio.timeout(timeout):
                    await self._free.acquire()
            except TimeoutError:
                raise PoolTimeout(f"all connections were in use for {timeout:g} s") from None
        else:
            await self._free.acquire()
        try:
            while self._idle:
                connection = self._idle.pop()
                if not connection.closed:
                    return connection
            return await self._made(timeout, deadline)
        except BaseException:
            self._free.release()
            raise

    async def _made(self, timeout: float, deadline: float) -> AsyncConnection[Any]:
        while True:
            if self._closed:
                raise PoolClosed("the store is closed")
            try:
                # With a timeout of 0 there is one attempt, which the driver limits by itself.
                left = max(deadline - time.monotonic(), _AGAIN) if timeout else None
                async with asyncio.timeout(left):
                    made = await AsyncConnection.connect(self._conninfo, autocommit=True)
            except TimeoutError:
                raise PoolTimeout(f"the server did not answer in {timeout:g} s") from None
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_AGAIN)
            else:
                self._all.add(made)
                return made

    async def putconn(self, connection: AsyncConnection[Any]) -> None:
        """Give a connection back; a connection that is not idle is closed."""
        status = connection.pgconn.transaction_status
        if status == TransactionStatus.IDLE and not self._closed:
            self._idle.append(connection)
        else:
            connection.pgconn.finish()
        self._free.release()

    def close(self) -> None:
        """Close all connections; after their event loop has ended, any thread may call this."""
        self._closed = True
        for connection in list(self._all):
            connection.pgconn.finish()
        self._idle.clear()
