"""Principal: the user or program that a run acts for."""

from __future__ import annotations

from typing import Final


class Principal:
    """The user or program that a run acts for. The host sets it; a caller cannot claim it.

    Args:
        name: Its name, e.g. ``user:42``.
        tenant: The tenant whose data the run may see.
        scopes: Its permissions; a tool may require some of them.
        trace: Id of the trace that the run belongs to.
    """

    __slots__ = ("name", "scopes", "tenant", "trace")

    def __init__(
        self,
        name: str = "",
        tenant: str = "",
        scopes: frozenset[str] = frozenset(),
        trace: str = "",
    ) -> None:
        self.name = name
        self.tenant = tenant
        self.scopes = scopes
        self.trace = trace


NOBODY: Final = Principal()
"""The principal if the host gave none: no tenant, no scopes."""
