"""Durable state for AgenticKernel in one folder, shared by any number of processes."""

from .errors import (
    Damaged,
    FolderGone,
    FolderGoneMidway,
    ForeignFolder,
    ReadOnly,
    SchemaTooNew,
    StoreBusy,
)
from .files import Files
from .sizes import Sizes
from .store import FileStore

__all__ = [
    "Damaged",
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
