"""PrincipalResolver: asks the function ``acts_for`` of a Host, up to a time limit."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from agentic_kernel import InvalidValue

from .. import edges
from ..errors import HostClosed
from ..faults import contained, log, reraise_own_cancellation
from ..principal import Principal
from .complaints import remember

_log = logging.getLogger(__name__)
Resolver = Callable[[str, str], "Awaitable[Principal | None] | Principal | None"]
"""A function from a principal's name and tenant to the principal as it is now, or to None if this
Host may not act for it. For a Task that is bound to no principal, it is called with empty texts."""
RESOLVING: Final = 10.0
"""Seconds that a resolver may take; a longer wait counts as None."""


class PrincipalResolver:
    """Asks the resolver of one Host, which may be slow or have a bug.

    Args:
        acts_for: The resolver.

    Raises:
        InvalidValue: The resolver is not a function.
    """

    def __init__(self, acts_for: Resolver) -> None:
        self._resolver = edges.function(acts_for, "acts_for")
        self._faults: dict[tuple[str, str], None] = {}
        self._turned_away = False
        self._asked: set[asyncio.Task[Any]] = set()
        """The calls of the resolver that are under way; asyncio itself does not keep them."""
        self._closed: set[asyncio.Future[None]] = set()
        """For each caller that waits for the resolver, a future that ends its wait."""

    async def principal(self, name: str, tenant: str) -> Principal | None:
        """The answer of the resolver; its faults, and a wrong answer, count as None.

        A named principal must come back with its own name and tenant.

        Raises:
            HostClosed: The Host was closed before the resolver had answered.
        """
        if self._turned_away:
            raise HostClosed
        try:
            found: Any = self._resolver(name, tenant)
            if inspect.isawaitable(found):
                found = await self._answer(found)
            if found is None:
                return None
            principal = edges.instance(found, "acts_for()", Principal)
            if (name or tenant) and (principal.name, principal.tenant) != (name, tenant):
                raise InvalidValue(
                    "acts_for()",
                    f"gave {principal.name!r} of tenant {principal.tenant!r} for {name!r} of "
                    f"{tenant!r}; give the same principal, or None",
                )
        except BaseException as fault:
            reraise_own_cancellation(fault)
            if self._turned_away:
                raise HostClosed from None
            if (name, tenant) not in self._faults:
                remember(self._faults, (name, tenant), None)
                said = "acts_for(%r, %r) failed, which counts as None (this is logged once)"
                log(_log, fault, said, name, tenant)
            return None
        return principal

    async def _answer(self, answer: Awaitable[Any]) -> Any:
        """The answer of an async resolver. A resolver that is late, or whose caller is cancelled,
        is cancelled and not waited for, because it may ignore that.

        Raises:
            TimeoutError: It did not answer in time, or the Host was closed meanwhile.
        """
        loop = asyncio.get_running_loop()
        asked, closed = loop.create_task(contained(answer)), loop.create_future()
        self._asked.add(asked)
        asked.add_done_callback(self._answered)
        self._closed.add(closed)
        try:
            await asyncio.wait(
                (asked, closed), timeout=RESOLVING, return_when=asyncio.FIRST_COMPLETED
            )
            if asked.done():
                return asked.result()
            raise TimeoutError(f"no answer within {RESOLVING:g} seconds")
        finally:
            asked.cancel()
            self._closed.discard(closed)

    def _answered(self, asked: asyncio.Task[Any]) -> None:
        self._asked.discard(asked)
        if not asked.cancelled():
            asked.exception()  # Retrieved here, because the caller may have stopped waiting.

    def turn_away(self) -> None:
        """End every question to the resolver with `HostClosed`, because the Host closes."""
        self._turned_away = True
        while self._closed:
            self._closed.pop().set_result(None)
