"""Connections: a store's own pool on one event loop, without a task in the background.

What it does not have cannot be left behind: an event loop that ends while the store is open has
nothing to wait for, and another thread can give back what was left.
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
    """At most so many connections in autocommit mode, made when they are needed.

    Args:
        conninfo: How to connect.
        most: How many there may be.
    """

    def __init__(self, conninfo: str, most: int) -> None:
        self._conninfo = conninfo
        self._idle: list[AsyncConnection[Any]] = []
        self._all: weakref.WeakSet[AsyncConnection[Any]] = weakref.WeakSet()
        self._free = asyncio.Semaphore(most)
        self._closed = False

    async def getconn(self, timeout: float) -> AsyncConnection[Any]:
        """A connection, to be given back by `putconn`.

        Raises:
            PoolTimeout: All are in use, or the server does not answer, for so many seconds.
            PoolClosed: It was closed.
            psycopg.Error: There is no connecting for so many seconds.
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
                # Without patience it is one attempt, for which the driver has a limit of its own.
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
        """Give a connection back; one that is in the middle of something is closed."""
        status = connection.pgconn.transaction_status
        if status == TransactionStatus.IDLE and not self._closed:
            self._idle.append(connection)
        else:
            connection.pgconn.finish()
        self._free.release()

    def close(self) -> None:
        """Close all connections; from any thread once their event loop has ended."""
        self._closed = True
        for connection in list(self._all):
            connection.pgconn.finish()
        self._idle.clear()
