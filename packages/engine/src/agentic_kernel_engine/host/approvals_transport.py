"""Approvals transport: tells people that their decision is wanted; it decides nothing.

A person gives the decision to any Host (`approve`, `deny`, `answer`), which puts it into the inbox
of the Task's record. This module does not decide whether an action may be done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

PATIENCE: Final = 30.0
"""Seconds that one call of a transport may take before it counts as failed."""


class Request(msgspec.Struct, frozen=True):
    """One decision that people are asked for."""

    task_id: str
    """Id of the Task at which to decide: the outermost one that waits for the decision."""
    digest: str
    """Digest of the action or question; no other request ever has it."""
    kind: str
    """``approval`` or ``question``."""
    origin: str
    """The Task that asks: the same one, or a child of it at any depth."""
    action: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The action in its JSON form, with its ``type``; empty for a question."""
    reason: str = ""
    """The policy's reason for asking a person."""
    question: str = ""
    """The question to answer; empty for an approval."""


class Approvals(Protocol):
    """Brings requests to people: by a desk, a chat, a queue.

    A Host reports a request only after the pause that waits for the request is durable. Every Host
    with this transport reports it at least once, also if the process that paused the Task has died.
    So a digest that is known already names the same request; its ``task_id`` may then be that of a
    Task above the child. `settled` or `withdrawn` comes after `wanted`, at most once per Host.

    The Host calls one method at a time, in an asyncio task of its own. An exception is logged once,
    and a request that could not be told is told again later. Neither an exception nor a slow call
    affects a run. After `PATIENCE` seconds a call is cancelled.
    """

    async def wanted(self, request: Request) -> None:
        """Tell people that their decision is wanted."""
        ...

    async def settled(self, request: Request) -> None:
        """Tell people that the request is settled: decided, or no longer asked by the Task."""
        ...

    async def withdrawn(self, request: Request) -> None:
        """Tell people that the request is no longer needed: the Task was killed, or is gone."""
        ...


class InMemoryApprovals:
    """Keeps the open requests, for an application that shows them."""

    def __init__(self) -> None:
        self._open: dict[str, Request] = {}
        self._news: asyncio.Queue[Request] = asyncio.Queue()

    @property
    def open(self) -> list[Request]:
        """The requests that wait for a decision now, in the order in which they came."""
        return list(self._open.values())

    async def next(self) -> Request:
        """Wait for the next request; requests that are decided by then are skipped."""
        while True:
            request = await self._news.get()
            if self._open.get(request.digest) == request:
                return request

    async def wanted(self, request: Request) -> None:
        if self._open.get(request.digest) != request:
            self._open[request.digest] = request
            self._news.put_nowait(request)

    async def settled(self, request: Request) -> None:
        self._open.pop(request.digest, None)

    async def withdrawn(self, request: Request) -> None:
        self._open.pop(request.digest, None)
