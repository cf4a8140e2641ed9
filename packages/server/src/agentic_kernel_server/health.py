"""Health: says if the process lives, and if it should get requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .errors import Refused

SECONDS: Final = 2.0
"""The longest that the store may take to answer."""


class Ready(Protocol):
    """The part of a server that its readiness asks."""

    @property
    def ready(self) -> bool:
        """False while the server starts or drains."""
        ...

    async def store_answers(self) -> bool:
        """True if the store answers a read."""
        ...


class Health:
    """The routes ``/v0/health`` and ``/v0/ready``, which need no credential and say no details.

    Args:
        server: The server that they are about.
    """

    def __init__(self, server: Ready) -> None:
        self._server = server

    def routes(self) -> Sequence[Route]:
        """The two routes."""
        return [
            Route("/v0/health", self._health, methods=["GET"]),
            Route("/v0/ready", self._ready, methods=["GET"]),
        ]

    async def _health(self, request: Request) -> Response:
        return _json({"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        server = self._server
        if not server.ready:
            raise Refused("SERVICE_UNAVAILABLE", "the server starts or stops; ask another process")
        answers = False
        try:
            async with asyncio.timeout(SECONDS):
                answers = await server.store_answers()
        except TimeoutError:
            pass
        if not answers:
            raise Refused("SERVICE_UNAVAILABLE", "the store does not answer")
        return _json({"status": "ready"})


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
