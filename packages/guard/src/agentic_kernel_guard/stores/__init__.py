"""Stores: where the guard keeps its state. One port, three implementations."""

from typing import TYPE_CHECKING, Any

from .memory import MemoryGuardStore
from .port import ApprovalRequest, Begin, Begun, GuardStore, Kept, Seen, StoreFailed
from .sqlite import SQLiteGuardStore

if TYPE_CHECKING:
    from .postgres import PostgresGuardStore

__all__ = [
    "ApprovalRequest",
    "Begin",
    "Begun",
    "GuardStore",
    "Kept",
    "MemoryGuardStore",
    "PostgresGuardStore",
    "SQLiteGuardStore",
    "Seen",
    "StoreFailed",
]


def __getattr__(name: str) -> Any:
    if name != "PostgresGuardStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .postgres import PostgresGuardStore

    return PostgresGuardStore
