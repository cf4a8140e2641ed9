"""Durable state for AgenticKernel in one folder, shared by any number of processes."""

from .errors import Damaged, ForeignFolder, ReadOnly, SchemaTooNew, StoreBusy
from .files import Files
from .sizes import Sizes
from .store import FileStore

__all__ = [
    "Damaged",
    "FileStore",
    "Files",
    "ForeignFolder",
    "ReadOnly",
    "SchemaTooNew",
    "Sizes",
    "StoreBusy",
]
