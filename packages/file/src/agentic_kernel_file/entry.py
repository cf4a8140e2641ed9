"""Entry: what this package offers to `agentic_kernel_engine.discovery`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Store
from agentic_kernel_engine.discovery import NoOptions, StoreEntry

from .store import FileStore


def folder_of(url: str) -> Path:
    """The folder of a URL like ``file:///srv/tasks``.

    Raises:
        InvalidValue: The URL names a host, or its path is not absolute.
    """
    where = urlsplit(url)
    if where.netloc not in ("", "localhost") or not where.path.startswith("/"):
        raise InvalidValue("--state", "a file: URL needs three slashes, like file:///srv/tasks")
    return Path(unquote(where.path))


@asynccontextmanager
async def _opened(url: str, _: NoOptions) -> AsyncIterator[Store]:
    store = FileStore(folder_of(url))
    try:
        yield store
    finally:
        store.close()


STORE: Final = StoreEntry(open=_opened, options=NoOptions, summary="a folder of files")
"""The store ``file``."""
