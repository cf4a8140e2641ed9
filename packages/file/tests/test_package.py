"""The public names of the package."""

from __future__ import annotations

import agentic_kernel_file
from agentic_kernel_engine import StoreError


def test_the_names_are_these() -> None:
    assert agentic_kernel_file.__all__ == [
        "Damaged",
        "FileMemory",
        "FileStore",
        "Files",
        "FolderGone",
        "FolderGoneMidway",
        "ForeignFolder",
        "ReadOnly",
        "SchemaTooNew",
        "Sizes",
        "StoreBusy",
    ]


def test_every_error_is_a_store_error() -> None:
    for name in agentic_kernel_file.__all__:
        thing = getattr(agentic_kernel_file, name)
        if not issubclass(thing, Exception):
            continue
        assert issubclass(getattr(agentic_kernel_file, name), StoreError)
