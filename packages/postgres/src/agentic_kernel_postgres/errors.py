"""What a database can refuse, by who can act on it; and how its own errors are told."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import errors
from psycopg_pool import PoolTimeout

from agentic_kernel_engine.errors import StoreError


class UnsafeServer(StoreError):
    """The server is set up so that what it acknowledges may be lost; the message names the setting.

    Nothing was written.
    """


class SchemaTooNew(StoreError):
    """A newer version has migrated the schema beyond what this one can work with; upgrade.

    Nothing was written.
    """


GIVEN_UP: Final = "AK001"
"""The code with which the database refuses the writes of a session that was given up."""

_ADVICE: Final[dict[type[Exception], str]] = {
    PoolTimeout: "no connection became free; raise the pool's max_size or hold connections shorter",
    errors.InsufficientPrivilege: "the role may not do this; grant it the schema, or use another",
    errors.ReadOnlySqlTransaction: "the server takes no writes; connect to the primary",
    errors.LockNotAvailable: "somebody holds a lock on the store for too long",
    errors.QueryCanceled: "it took too long; look after the server, or raise its timeouts",
    errors.DiskFull: "the server's disk is full",
    errors.UndefinedTable: "the schema is not there or was changed; migrate it",
}


def as_store_error(error: Exception, place: str) -> StoreError:
    """The same fault as a `StoreError` that says what to do about it.

    Args:
        place: Which store, without its password.
    """
    said = " ".join(str(error).split()) or type(error).__name__
    for kind, advice in _ADVICE.items():
        if isinstance(error, kind):
            return StoreError(f"{place}: {said}: {advice}")
    return StoreError(f"{place}: {said}")


def no_answer(place: str, seconds: float | None) -> StoreError:
    """Error for a server that takes a connection or a statement, and says nothing."""
    return StoreError(
        f"{place}: no answer in {seconds:g} s; look after the server, or raise the timeout"
    )


_UNSENT: Final = (UnicodeError, psycopg.DataError, psycopg.ProgrammingError)
"""What a text is met with that cannot be sent at all; or is the database's own answer as well."""


def settled(error: BaseException) -> bool:
    """Whether an error is the database's own answer, after which nothing of the call is left.

    What a server says that is going down (class 57P), it may say after it has committed.
    """
    if isinstance(error, _UNSENT):
        return True
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    return state is not None and not state.startswith(("57P", "08"))
