"""The errors of a store in Postgres, grouped by remedy, and the translation of its own errors."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import errors
from psycopg_pool import PoolTimeout

from agentic_kernel_engine.errors import StoreError


class UnsafeServer(StoreError):
    """A setting of the server means that acknowledged writes may be lost; the message names it.

    The store wrote nothing.
    """


class SchemaTooNew(StoreError):
    """A newer version has migrated the schema, and this version cannot work with it; upgrade.

    The store wrote nothing.
    """


class NoVectorIndex(StoreError):
    """The database cannot index the memory's vectors; the message says what is missing.

    Queries go on without the index, and compare every item of their scope.
    """


GIVEN_UP: Final = "AK001"
"""The SQLSTATE with which the database refuses the writes of a session that was given up."""

_ADVICE: Final[dict[type[Exception], str]] = {
    PoolTimeout: "no connection became free; raise the pool's max_size or hold connections shorter",
    errors.InsufficientPrivilege: "grant the role rights on the schema, or use another role",
    errors.ReadOnlySqlTransaction: "the server takes no writes; connect to the primary",
    errors.LockNotAvailable: "another session holds a lock on the store for too long; end it",
    errors.QueryCanceled: "the statement took too long; check the server, or raise its timeouts",
    errors.DiskFull: "the server's disk is full; free some space and try again",
    errors.UndefinedTable: "the schema was removed or changed; make a new store, which migrates it",
}


def as_store_error(error: Exception, place: str) -> StoreError:
    """The `StoreError` for an error of the driver or the database, with a remedy.

    Args:
        place: The name of the store in messages, without a password.
    """
    said = " ".join(str(error).split()) or type(error).__name__
    for kind, advice in _ADVICE.items():
        if isinstance(error, kind):
            return StoreError(f"{place}: {said}: {advice}")
    return StoreError(f"{place}: {said}")


def no_answer(place: str, seconds: float | None) -> StoreError:
    """Error for a server that accepts a connection or a statement, but does not answer in time."""
    return StoreError(
        f"{place}: no answer in {seconds:g} s; check the server, or raise the timeout"
    )


_UNSENT: Final = (UnicodeError, psycopg.DataError, psycopg.ProgrammingError)
"""The driver's errors for values that it cannot send; the database may also answer with them."""


def settled(error: BaseException) -> bool:
    """True if an error is the database's answer, and proves that the call left no change.

    The classes 57P (the server shuts down) and 08 (the connection broke) prove nothing: the server
    may have committed before them.
    """
    if isinstance(error, _UNSENT):
        return True
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    return state is not None and not state.startswith(("57P", "08"))
