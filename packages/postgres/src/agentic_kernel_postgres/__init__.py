"""Durable state and memory for AgenticKernel in Postgres, shared by processes and machines."""

from .embedded import embedded
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
