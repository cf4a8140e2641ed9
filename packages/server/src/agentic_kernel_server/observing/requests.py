"""Observed: an ASGI middleware that logs, measures and traces each request."""

from __future__ import annotations

import logging
import secrets
import time
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..ports import Measure
from .logs import request_id, trace_id
from .tracing import serving

_log: Final = logging.getLogger(__name__)
QUIET: Final = ("/v0/health", "/v0/ready", "/metrics")
"""Paths whose successful requests are logged on the level ``debug``."""


class Observed:
    """Logs one record for each request when it ends, and measures it.

    The query and the body are not logged, because they belong to the tenant.

    Args:
        app: The application.
        measure: Gets the number, the duration and the status of requests by route.
    """

    def __init__(self, app: ASGIApp, measure: Measure) -> None:
        self._app: Final = app
        self._measure: Final = measure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status, headers = time.perf_counter(), 0, dict[str, str]()
        number = secrets.token_hex(8)
        token = request_id.set(number)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                sent: list[Any] = list(message.get("headers", ()))
                sent.append((b"x-request-id", number.encode()))
                sent += [(name.encode(), value.encode()) for name, value in headers.items()]
                message = {**message, "headers": sent}
            await send(message)

        method: str = scope["method"]
        traced = trace_id.set(_trace(scope))
        try:
            with serving(method, scope["headers"], headers) as span:
                try:
                    await self._app(scope, receive, sending)
                finally:
                    route = route_of(scope)
                    span.ended(route, method, status or 500)
        finally:
            self._record(scope, method, route, status, time.perf_counter() - begun)
            trace_id.reset(traced)
            request_id.reset(token)

    def _record(self, scope: Scope, method: str, route: str, status: int, seconds: float) -> None:
        method = method if method in METHODS else "other"
        self._measure.count("requests", method=method, route=route, status=str(status))
        if not route.endswith("/stream"):  # A stream lasts as long as its reader.
            self._measure.observe("request_seconds", seconds, method=method, route=route)
        quiet = scope["path"] in QUIET and status == 200
        _log.log(
            logging.DEBUG if quiet else logging.INFO,
            "%s %s %s",
            method,
            route,
            status or "cut",
            extra={"status": status, "ms": round(seconds * 1_000, 2), "route": route},
        )


METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def route_of(scope: Scope) -> str:
    """The path of the route that served a request, with the names of its parameters.

    The number of routes is small, whatever paths callers send: so it can be a metric's label.
    """
    return str(getattr(scope.get("route"), "path", "other"))


def _trace(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"traceparent" and len(value) == 55:
            return str(value[3:35].decode("latin-1"))
    return ""
