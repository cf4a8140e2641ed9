"""Durable state and memory for AgenticKernel in folders, shared by any number of processes.

`FileMemory` is loaded when it is first used, because it loads the engine's seams, which a program
that only keeps Tasks does not need.
"""

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from .memory import FileMemory

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


def __getattr__(name: str) -> Any:
    if name != "FileMemory":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .memory import FileMemory

    globals()[name] = FileMemory
    return FileMemory


def __dir__() -> list[str]:
    return [*globals(), *__all__]
