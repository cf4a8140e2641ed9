"""Principal: the user or service that a run acts for."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from agentic_kernel import InvalidValue

from . import edges

KINDS: Final = ("user", "service")
"""The kinds of principals."""
LONGEST: Final = 256
"""The most characters of a principal's name, tenant or trace."""


class Principal(msgspec.Struct, frozen=True):
    """The user or service that a run acts for. The host's code sets it; a Task cannot claim it.

    A store keeps only the name and the tenant (`Terms`). A Host resolves the other fields again at
    every entry of a run, so that a scope or a role can be taken away (R19).

    Args:
        name: Its name, e.g. ``user:42``; empty for an unnamed principal.
        tenant: The tenant whose data the run may see.
        scopes: Its permissions; a tool may require some of them.
        trace: Id of the trace that the run belongs to.
        kind: ``user`` or ``service``.
        roles: Its roles, for policies.

    Raises:
        InvalidValue: A field has the wrong type, or is longer than 256 characters.
    """

    name: str = ""
    tenant: str = ""
    scopes: frozenset[str] = frozenset()
    trace: str = ""
    kind: str = "user"
    roles: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for field in ("name", "tenant", "trace"):
            check_part(getattr(self, field), f"principal.{field}")
        edges.choice(self.kind, "principal.kind", KINDS)
        for field in ("scopes", "roles"):
            given: Collection[str] = getattr(self, field)
            if given or type(given) is not frozenset:
                checked = edges.names(given, f"principal.{field}")
                msgspec.structs.force_setattr(self, field, checked)

    @property
    def named(self) -> bool:
        """True if it has a name or a tenant."""
        return bool(self.name or self.tenant)


def check_part(value: object, path: str) -> str:
    """Check a principal's name, tenant or trace.

    Raises:
        InvalidValue: It is not a text, has an invisible character, or is longer than `LONGEST`.
    """
    checked = edges.text(value, path)
    if not checked.isprintable():
        raise InvalidValue(path, f"is {ascii(checked)[:80]}; remove the invisible characters")
    if len(checked) > LONGEST:
        raise InvalidValue(
            path, f"has {len(checked):,} characters; use at most {LONGEST}, e.g. an id"
        )
    return checked


NOBODY: Final = Principal()
"""The principal if the host's code gave none: no name, no tenant, no scopes."""
