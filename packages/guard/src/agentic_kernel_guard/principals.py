"""Principals: the users and programs that act. A resolver gives their roles, and no caller does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from agentic_kernel.frozen import shown
from agentic_kernel_engine import Principal
from agentic_kernel_engine.edges import instance, several, text

from .errors import GuardError

MOST: Final = 1_000_000
"""The most principals of a list."""


class UnknownPrincipal(GuardError):
    """The resolver knows no such principal."""

    def __init__(self, principal: Principal) -> None:
        super().__init__(
            "guard/unknown_principal",
            f"no principal {shown(principal.name)} of tenant {shown(principal.tenant)} is known",
        )


class Resolver(Protocol):
    """Says what a principal is: its kind and its roles."""

    async def resolve(self, name: str, tenant: str) -> Principal | None:
        """The principal with this name and tenant, or None if there is none.

        It is asked at each grant and each invocation, so that a role can be taken away.
        """
        ...


class Principals:
    """The principals of a list; a resolver for one process."""

    def __init__(self, known: Iterable[Principal] = ()) -> None:
        self._known = {
            (each.name, each.tenant): each
            for each in several(known, "known", "principals", MOST)
            if instance(each, "known", Principal)
        }

    async def resolve(self, name: str, tenant: str) -> Principal | None:
        """The principal of the list with this name and tenant."""
        return self._known.get((text(name, "name"), text(tenant, "tenant")))


class AsGiven:
    """Marks that the caller is a Host, which has resolved the principal itself (R19).

    Give it to a `Guard` only where no principal comes from outside of the process.
    """


async def resolved(resolver: Resolver | AsGiven, given: Principal) -> Principal:
    """The principal as the resolver knows it; only its name and tenant are taken from the caller.

    Raises:
        UnknownPrincipal: The resolver does not know it, or answers with another one.
        InvalidValue: It is no principal.
    """
    instance(given, "principal", Principal)
    if isinstance(resolver, AsGiven):
        return given
    found = await resolver.resolve(given.name, given.tenant)
    if found is None or (found.name, found.tenant) != (given.name, given.tenant):
        raise UnknownPrincipal(given)
    return found
