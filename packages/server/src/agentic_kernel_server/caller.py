"""Caller: the user or program behind a request, as its credential says."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec
from starlette.requests import HTTPConnection

from .errors import Refused

SCOPES: Final = ("client", "agent", "runner", "approver", "metrics", "admin")
"""The scopes of a credential; ``admin`` includes all others."""


class Caller(msgspec.Struct, frozen=True):
    """The user or program behind a request. The credential alone decides its fields (R19)."""

    name: str = ""
    """The principal's name; empty if the server asks for no credentials."""
    tenant: str = ""
    """The tenant whose executions, agents and runners the caller sees."""
    scopes: frozenset[str] = frozenset()
    """The permissions of the credential; see `SCOPES`."""
    trace: str = ""
    """The id of the trace that the request belongs to."""

    def require(self, scope: str) -> None:
        """Check that the credential has a scope.

        Raises:
            Refused: It does not.
        """
        if scope not in self.scopes and "admin" not in self.scopes:
            raise Refused("FORBIDDEN", f"the credential lacks the scope {scope!r}")


class Authenticate(Protocol):
    """Finds the caller of a request from its credential."""

    async def __call__(self, connection: HTTPConnection) -> Caller:
        """The caller.

        Raises:
            Refused: There is no valid credential (UNAUTHORIZED).
        """
        ...


_ANYBODY: Final = Caller(scopes=frozenset(SCOPES))


async def anonymous(connection: HTTPConnection) -> Caller:
    """Every request is the same unnamed caller with all scopes: for a loopback address only."""
    return _ANYBODY
