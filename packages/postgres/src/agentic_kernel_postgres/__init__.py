"""Durable state and memory for AgenticKernel in Postgres, shared by processes and machines.

Each name is loaded when it is first used, because the libraries behind them take long to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .embedded import embedded  # Its module has the same name, and would hide it later.

if TYPE_CHECKING:
    from .errors import NoVectorIndex, SchemaTooNew, UnsafeServer
    from .memory import PostgresMemory
    from .store import PostgresStore

__all__ = [
    "NoVectorIndex",
    "PostgresMemory",
    "PostgresStore",
    "SchemaTooNew",
    "UnsafeServer",
    "embedded",
]

_HOMES = {
    "NoVectorIndex": "errors",
    "SchemaTooNew": "errors",
    "UnsafeServer": "errors",
    "PostgresMemory": "memory",
    "PostgresStore": "store",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
