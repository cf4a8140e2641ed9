"""TenantBounds: the most that one tenant may use at once, so that it cannot starve the others.

Streams and requests are counted in each process. Unfinished executions are counted in the store, so
all processes see them.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import msgspec

from ..caller import Caller
from ..errors import Refused

FRESH: Final = 1.0
"""Seconds for which a count of unfinished executions is used again."""
MOST_TENANTS: Final = 10_000
"""The most tenants whose figures are remembered; idle ones are forgotten first."""
Unfinished = Callable[[str, int], Awaitable[int]]
"""Counts a tenant's unfinished executions, up to the given number."""


class Most(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one tenant."""

    streams: int = 2_500
    """Open streams in one process."""
    requests: float = 2_000.0
    """Requests per second in one process, on average."""
    burst: int = 4_000
    """Requests at once, after a time of silence."""
    executions: int = 10_000
    """Unfinished executions in the store. Processes that create them at the same moment may pass
    this number by what each of them creates in `FRESH` seconds."""


@dataclass(slots=True)
class _Tenant:
    streams: int = 0
    full_at: float = 0.0
    """The moment at which the allowance of requests is whole again."""
    counted: int = 0
    counted_at: float = -math.inf
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    created: int = 0
    """Executions that this process let through since the count."""


class TenantBounds:
    """`Bounds` for each tenant.

    Args:
        most: The bounds.
        unfinished: Counts a tenant's unfinished executions.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self, most: Most, unfinished: Unfinished, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._unfinished = unfinished
        self._clock = clock
        self._tenants: dict[str, _Tenant] = {}

    async def request(self, caller: Caller) -> None:
        """Count one request, by a bucket that refills steadily.

        Raises:
            Refused: The tenant sent too many.
        """
        tenant, now = self._of(caller), self._clock()
        full_at = max(tenant.full_at, now) + 1 / self._most.requests
        late = full_at - now - self._most.burst / self._most.requests
        if late > 1e-9:
            raise Refused(
                "RATE_LIMITED",
                f"the tenant sent more than {self._most.requests:g} requests per second; try again "
                f"in {late:.3f} s",
                retry_after=late,
            )
        tenant.full_at = full_at

    @contextmanager
    def stream(self, caller: Caller) -> Iterator[None]:
        """Hold one stream.

        Raises:
            Refused: The tenant holds too many.
        """
        tenant = self._of(caller)
        if tenant.streams >= self._most.streams:
            raise Refused(
                "RATE_LIMITED",
                f"the tenant has {tenant.streams:,} open streams, and the limit is "
                f"{self._most.streams:,}; close some of them",
                retry_after=1.0,
            )
        tenant.streams += 1
        try:
            yield
        finally:
            tenant.streams -= 1

    async def execution(self, caller: Caller) -> None:
        """Check that one more execution may be created, and count it.

        Raises:
            Refused: Too many of the tenant's executions are unfinished.
        """
        tenant, most = self._of(caller), self._most.executions
        if self._stale(tenant):
            async with tenant.lock:
                if self._stale(tenant):
                    counted = await self._unfinished(caller.tenant, most)
                    tenant.counted, tenant.created = counted, 0
                    tenant.counted_at = self._clock()
        room = most - tenant.counted - tenant.created
        if room <= 0:
            raise Refused(
                "RATE_LIMITED",
                f"the tenant has {most:,} unfinished executions, which is the limit; cancel some, "
                "or wait until they end",
                retry_after=FRESH,
            )
        tenant.created += 1

    def _stale(self, tenant: _Tenant) -> bool:
        """True if the executions are to be counted anew."""
        room = self._most.executions - tenant.counted - tenant.created
        # Far from the limit, what this process created is close enough for a while.
        fresh = FRESH if room < self._most.executions // 2 else 10 * FRESH
        return self._clock() - tenant.counted_at > fresh

    def _of(self, caller: Caller) -> _Tenant:
        tenant = self._tenants.get(caller.tenant)
        if tenant is None:
            if len(self._tenants) >= MOST_TENANTS:
                self._forget()
            tenant = self._tenants[caller.tenant] = _Tenant()
        return tenant

    def _forget(self) -> None:
        """Forget the tenants that hold no stream and whose allowance is whole."""
        now = self._clock()
        self._tenants = {
            name: tenant
            for name, tenant in self._tenants.items()
            if tenant.streams or tenant.full_at > now
        }
