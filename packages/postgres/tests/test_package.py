"""The public names of the package."""

from __future__ import annotations

import agentic_kernel_postgres
from agentic_kernel_engine import StoreError
from agentic_kernel_postgres import NoVectorIndex, SchemaTooNew, UnsafeServer


def test_the_names_are_these() -> None:
    assert agentic_kernel_postgres.__all__ == [
        "NoVectorIndex",
        "PostgresMemory",
        "PostgresStore",
        "SchemaTooNew",
        "UnsafeServer",
        "embedded",
    ]


def test_every_error_is_a_store_error() -> None:
    assert issubclass(NoVectorIndex, StoreError)
    assert issubclass(SchemaTooNew, StoreError)
    assert issubclass(UnsafeServer, StoreError)
