"""Observed: an ASGI middleware that logs, measures and traces each request."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..ports import Measure
from .logs import request_id, trace_id
from .tracing import serving

_log: Final = logging.getLogger(__name__)
NAMED: Final = "agentic_kernel_server.named"
"""The key of a scope under which the application names the caller, the execution and so on."""
QUIET: Final = ("/v0/health", "/v0/ready", "/metrics")
"""Paths whose successful requests are logged on the level ``debug``."""


MAX_NAME: Final = 200
"""The longest name of a record, in characters; the rest is cut off."""


class Observed:
    """Logs one record for each request when it ends, and measures it.

    Of the query and the body only ids are logged, because the rest belongs to the tenant. A stream
    is logged when it opens, too.

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
        named: dict[str, str] = {}
        scope[NAMED] = named
        token = request_id.set(number)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                sent: list[Any] = list(message.get("headers", ()))
                sent.append((b"x-request-id", number.encode()))
                sent += [(name.encode(), value.encode()) for name, value in headers.items()]
                message = {**message, "headers": sent}
                if status == 200 and (place := route_of(scope)).endswith("/stream"):
                    more = {"status": status, "route": place, **_shown(named)}
                    _log.info("%s %s open", method, place, extra=more)
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
            extra={
                "status": status,
                "ms": round(seconds * 1_000, 2),
                "route": route,
                **_shown(scope.get(NAMED, {})),
            },
        )


def _shown(named: Mapping[str, str]) -> dict[str, str]:
    return {name: value[:MAX_NAME] for name, value in named.items() if value}


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
