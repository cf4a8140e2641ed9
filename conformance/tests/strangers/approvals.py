"""A transport that lists open requests for a page, and ten mistakes in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable

from agentic_kernel_engine.seams import Request


class HealthyApprovals:
    """Keeps the open requests by their digest; ``send`` is where a chat would be told."""

    def __init__(self) -> None:
        self._open: dict[Hashable, Request] = {}

    @property
    def open(self) -> list[Request]:
        """The requests that wait for a decision now, in the order in which they came."""
        return list(self._open.values())

    async def wanted(self, request: Request) -> None:
        await self.send(request)
        self._open[request.digest] = request

    async def settled(self, request: Request) -> None:
        self._open.pop(request.digest, None)

    async def withdrawn(self, request: Request) -> None:
        self._open.pop(request.digest, None)

    async def send(self, request: Request) -> None:
        await asyncio.sleep(0)


class ByTask(HealthyApprovals):
    """Keys requests by their Task, so of a batch only the last one stays."""

    async def wanted(self, request: Request) -> None:
        await self.send(request)
        self._open[request.task_id] = request

    async def settled(self, request: Request) -> None:
        self._open.pop(request.task_id, None)

    async def withdrawn(self, request: Request) -> None:
        self._open.pop(request.task_id, None)


class ByTaskAndDigest(HealthyApprovals):
    """Keys requests by Task and digest, so one that comes through the parent is there twice."""

    async def wanted(self, request: Request) -> None:
        await self.send(request)
        self._open[request.task_id, request.digest] = request

    async def settled(self, request: Request) -> None:
        self._open.pop((request.task_id, request.digest), None)

    async def withdrawn(self, request: Request) -> None:
        self._open.pop((request.task_id, request.digest), None)


class NeverGivesUp(HealthyApprovals):
    """Tries again after everything that goes wrong, its own cancellation included."""

    async def send(self, request: Request) -> None:
        for delay in (0.2, 0.2, 0.2, 0.0):
            try:
                await asyncio.sleep(delay)  # the chat answers slowly
                return
            except BaseException:
                continue


class PlainMail(HealthyApprovals):
    """Sends its mail by a blocking call."""

    async def send(self, request: Request) -> None:
        time.sleep(0.3)  # noqa: ASYNC251 - this is the mistake


class Redacts(HealthyApprovals):
    """Removes long arguments from the request that it was handed."""

    async def wanted(self, request: Request) -> None:
        arguments = request.action.get("arguments", {})
        for name, value in list(arguments.items()):
            if (isinstance(value, str) and len(value) > 100) or name in ("password", "token"):
                arguments[name] = "…"
        await super().wanted(request)


class PopsOnce(HealthyApprovals):
    """Raises KeyError for a request that was closed before or never opened."""

    async def settled(self, request: Request) -> None:
        del self._open[request.digest]

    async def withdrawn(self, request: Request) -> None:
        del self._open[request.digest]


class ToldBefore(HealthyApprovals):
    """Remembers digests that it has closed and never shows them again."""

    def __init__(self) -> None:
        super().__init__()
        self._told: set[str] = set()

    async def wanted(self, request: Request) -> None:
        if request.digest in self._told:
            return
        self._told.add(request.digest)
        await super().wanted(request)


class DropsWhenFull(HealthyApprovals):
    """Keeps at most 100 requests and returns as if all were well for the others."""

    async def wanted(self, request: Request) -> None:
        try:
            if len(self._open) >= 100:
                raise OverflowError("the desk is full")
            await super().wanted(request)
        except Exception:
            return  # a failing transport must not affect a run


class OnlyTools(HealthyApprovals):
    """Reads the tool of every request, and raises for a question, whose action is empty."""

    async def wanted(self, request: Request) -> None:
        self._title = f"{request.action['type']}: {request.reason or request.question}"
        await super().wanted(request)


class LateSend(HealthyApprovals):
    """Stores the request after `wanted` has returned, so a `settled` that comes at once is lost."""

    def __init__(self) -> None:
        super().__init__()
        self._sending: set[asyncio.Task[None]] = set()

    async def wanted(self, request: Request) -> None:
        task = asyncio.create_task(self._later(request))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _later(self, request: Request) -> None:
        await asyncio.sleep(0.02)
        self._open[request.digest] = request


FAULTS = {
    "ByTask": "approvals",
    "ByTaskAndDigest": "approvals",
    "NeverGivesUp": "unwind",
    "PlainMail": "held",
    "Redacts": "context",
    "PopsOnce": "approvals",
    "ToldBefore": "approvals",
    "DropsWhenFull": "approvals",
    "OnlyTools": "approvals",
    "LateSend": "approvals",
}
"""The rule that each of them breaks."""
