"""Transports of requests, each with one mistake that a real author might make."""

from __future__ import annotations

import asyncio

import msgspec

from agentic_kernel_engine.host.approvals_transport import Request


class Shown:
    """Shows the requests that it was told of."""

    def __init__(self) -> None:
        self.requests: dict[str, Request] = {}

    def open(self) -> list[Request]:
        return list(self.requests.values())

    async def wanted(self, request: Request) -> None:
        self.requests[request.digest] = request

    async def settled(self, request: Request) -> None:
        self.requests.pop(request.digest, None)

    async def withdrawn(self, request: Request) -> None:
        await self.settled(request)


class AsksAgain(Shown):
    """Every time that it is told, it asks."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Request] = []

    def open(self) -> list[Request]:
        return [each for each in self.told if each.digest in self.requests]

    async def wanted(self, request: Request) -> None:
        self.told.append(request)
        await super().wanted(request)


class KeepsTheFirst(Shown):
    """It shows where the decision was wanted first, and not where it is wanted now."""

    async def wanted(self, request: Request) -> None:
        self.requests.setdefault(request.digest, request)


class EndsOnce(Shown):
    """That a request is settled twice does not occur to it."""

    async def settled(self, request: Request) -> None:
        del self.requests[request.digest]


class ToolsOnly(Shown):
    """It takes every request for one about a tool."""

    async def wanted(self, request: Request) -> None:
        if request.action["tool"]:
            await super().wanted(request)


class NeverWithdraws(Shown):
    """What nobody needs to decide any more it still shows."""

    async def withdrawn(self, request: Request) -> None:
        pass


class ByOrigin(Shown):
    """An end closes every request of the Task that asked."""

    async def settled(self, request: Request) -> None:
        if request.digest in self.requests:
            kept = {k: v for k, v in self.requests.items() if v.origin != request.origin}
            self.requests = kept


class OnePage(Shown):
    """It shows the last hundred."""

    def open(self) -> list[Request]:
        return super().open()[-100:]


class ShortensReasons(Shown):
    """What people read is cut to a line."""

    async def wanted(self, request: Request) -> None:
        cut = msgspec.structs.replace(request, question=request.question[:200])
        await super().wanted(cut)


class LosesTheRest(Shown):
    """It writes all requests anew, and a call that is cut short leaves none."""

    async def wanted(self, request: Request) -> None:
        kept, self.requests = self.requests, {}
        await asyncio.sleep(0)
        self.requests = {**kept, request.digest: request}
