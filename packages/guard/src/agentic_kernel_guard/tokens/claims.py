"""Claims: what a token grants, to whom, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..ids import action_of


class Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The claims of a token. All of it is signed; nothing of it is secret."""

    iss: str
    """The issuer."""
    aud: str
    """The guard that accepts it."""
    sub: str
    """The principal's name."""
    ten: str
    """The principal's tenant."""
    cap: str
    """The capability."""
    op: str
    """The operation of the capability's spec at the time of the grant."""
    dig: str | None
    """SHA-256 of the arguments, or None if a pattern bounds them."""
    pat: tuple[dict[str, Any], ...]
    """Patterns, as the rules' predicates by argument; all of them must hold."""
    con: dict[str, Any]
    """The constraints of what is shown."""
    tsk: str
    """The Task, or empty."""
    key: str
    """The key of the action that it is for, or empty."""
    iat: int
    """The time of issue; milliseconds since 1970, as all times here."""
    nbf: int
    exp: int
    jti: str
    """Its own id."""
    uses: int | None
    """The most uses; None for no limit."""
    par: tuple[tuple[str, int | None], ...]
    """The ids of its parents and their uses, the first one first."""
    why: str
    """The justification of the grant."""
    agt: str
    """The agent, for rules."""
    lab: dict[str, str]
    """The labels, for rules."""
    apv: str = ""
    """The person or program that approved these arguments, or empty."""
    req: str = ""
    """The request under which they were approved in the guard's store, or empty."""
    stp: int = 0
    """The count of steps at the grant, for rules."""
    dur: int = 0
    """The milliseconds that the run took until the grant, for rules."""

    def as_json(self) -> Mapping[str, Any]:
        """The claims as plain data."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    @property
    def action(self) -> str:
        """The id of the action that the token is for; empty if each call is one of its own.

        It is the same for the same approval, or for the same key and principal.
        """
        return self.req or (action_of(self.sub, self.ten, self.key) if self.key else "")

    @property
    def chain(self) -> tuple[tuple[str, int | None], ...]:
        """The ids and the uses of its parents and of itself."""
        return (*self.par, (self.jti, self.uses))
