"""Ports: what decides, bounds and measures; with implementations that do none of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any, Literal, Protocol

import msgspec

from .caller import Caller


class ToolCall(msgspec.Struct, frozen=True):
    """One ``invoke_tool`` of an agent, as a policy sees it."""

    execution_id: str
    agent_id: str
    labels: Mapping[str, str]
    tool_id: str
    arguments: Any
    """JSON; usually an object."""
    remote: bool
    """True if a runner is to execute the tool."""
    principal: str
    """The name of the principal that created the execution."""
    tenant: str
    step_count: int
    """The number of steps that the execution has made before this one."""
    duration_ms: int
    """Milliseconds since the execution was created."""
    at: datetime
    repeated: bool = False
    """True if an earlier session of the execution began this local step: the same tool, the same
    arguments, the same occurrence. It may have taken effect."""


class Ruling(msgspec.Struct, frozen=True):
    """The decision of a policy about one call."""

    effect: Literal["allow", "deny", "require_approval"]
    reason: str = ""
    rule: str = ""
    """The rule that decided; empty if none did."""
    approvers: tuple[str, ...] = ()
    """The principals who may approve; empty if every caller with the scope ``approver`` may."""
    approval_timeout: float | None = None
    """Seconds after which an approval that was not given counts as denied; None for no limit."""


class Decide(Protocol):
    """Decides about every ``invoke_tool``. It never raises: it denies what it cannot decide."""

    async def __call__(self, call: ToolCall) -> Ruling:
        """The decision; a call that it allows counts against the rate limits."""
        ...


async def deny_all(call: ToolCall) -> Ruling:
    """The decision without a policy: every tool is denied."""
    return Ruling("deny", "the server has no policy, so every tool is denied; give Server a decide")


class Bounds(Protocol):
    """The most that one tenant may use at once."""

    async def request(self, caller: Caller) -> None:
        """Count one request.

        Raises:
            Refused: The tenant sent too many (RATE_LIMITED).
        """
        ...

    def stream(self, caller: Caller) -> AbstractContextManager[None]:
        """Hold one of the tenant's streams for as long as the context lasts.

        Raises:
            Refused: The tenant holds too many (RATE_LIMITED).
        """
        ...

    async def execution(self, caller: Caller) -> None:
        """Check that the tenant may create one more execution.

        Raises:
            Refused: Too many of the tenant's executions are unfinished (RATE_LIMITED).
        """
        ...


class Unbounded:
    """Bounds that refuse nothing."""

    async def request(self, caller: Caller) -> None:
        """Refuse nothing."""

    def stream(self, caller: Caller) -> AbstractContextManager[None]:
        """Refuse nothing."""
        return nullcontext()

    async def execution(self, caller: Caller) -> None:
        """Refuse nothing."""


class Measure(Protocol):
    """Receives the server's own figures."""

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        """Add to a counter."""
        ...

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Record a duration."""
        ...

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Name a value that is read when the figures are asked for."""
        ...


class Silent:
    """A measure that keeps nothing."""

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        """Keep nothing."""

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Keep nothing."""

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Keep nothing."""
