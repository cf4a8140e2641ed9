"""Keeper: a thread that renews leases and listens for news, independent of any event loop."""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg import sql

from agentic_kernel_engine.faults import said

from .queries import RENEW

_log: Final = logging.getLogger(__name__)
_PATIENCE: Final = 0.2
"""Seconds between two attempts to reach the server."""


class Keeper:
    """A thread with a connection of its own; it starts with the first host or listener.

    Args:
        conninfo: The connection string.
        schema: The store's schema in the database.
        channel: The notification channel for news.
        lease: Seconds of a lease; it is renewed four times in that time.
        tell: Called in the thread with the id of each Task that a process reported as written.
    """

    def __init__(
        self, conninfo: str, schema: str, channel: str, lease: float, tell: Callable[[str], None]
    ) -> None:
        self._conninfo = conninfo
        self._channel = channel
        self._lease = lease
        self._tell = tell
        self._renew = RENEW.format(schema=schema)
        self._hosts: set[str] = set()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._bell, self._ear = socket.socketpair()
        """A byte written to the one wakes the thread, which waits at the other."""
        self._thread: threading.Thread | None = None

    def keep(self, host: str) -> None:
        """Renew the lease of a host from now on."""
        with self._lock:
            self._hosts.add(host)
        self.start()

    def drop(self, host: str) -> None:
        """Stop renewing the lease of a host."""
        with self._lock:
            self._hosts.discard(host)

    def start(self) -> None:
        """Start the thread, unless it was started before."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="postgres-keeper", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """End the thread, and wait until it has ended."""
        self._closing.set()
        if self._thread is not None:
            with suppress(OSError):  # It was closed before.
                self._bell.send(b"\0")
            self._thread.join()
        self._bell.close()
        self._ear.close()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                with psycopg.connect(
                    self._conninfo, autocommit=True, connect_timeout=max(2, int(self._lease / 4))
                ) as connection:
                    self._keep(connection)
            except psycopg.Error as error:
                _log.warning("leases cannot be renewed until the database answers: %s", said(error))
                self._closing.wait(_PATIENCE)

    def _keep(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        due = 0.0
        with selectors.DefaultSelector() as either:
            either.register(connection, selectors.EVENT_READ)
            either.register(self._ear, selectors.EVENT_READ)
            while not self._closing.is_set():
                if time.monotonic() >= due:
                    due = time.monotonic() + self._lease / 4
                    self._renew_all(connection)
                # The notices that came with an answer are here already.
                for notice in connection.notifies(timeout=0):
                    self._tell(notice.payload)
                either.select(max(0.0, due - time.monotonic()))

    def _renew_all(self, connection: psycopg.Connection[Any]) -> None:
        with self._lock:
            hosts = list(self._hosts)
        if hosts:
            rows = connection.execute(self._renew, [f"{self._lease} seconds", hosts]).fetchall()
            with self._lock:
                lapsed = self._hosts.intersection(hosts) - {name for (name,) in rows}
                self._hosts -= lapsed
            for host in lapsed:
                _log.warning("the lease of host %s ran out; other hosts take over its Tasks", host)
