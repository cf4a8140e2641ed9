"""Durable state for AgenticKernel in Postgres, shared by any number of processes and machines."""

from .embedded import embedded
from .errors import SchemaTooNew, UnsafeServer
from .store import PostgresStore

__all__ = ["PostgresStore", "SchemaTooNew", "UnsafeServer", "embedded"]
