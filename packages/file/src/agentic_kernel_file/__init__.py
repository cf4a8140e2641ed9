"""Durable state and memory for AgenticKernel in folders, shared by any number of processes."""

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
from .memory import FileMemory
from .sizes import Sizes
from .store import FileStore

__all__ = [
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
