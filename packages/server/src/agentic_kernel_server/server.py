"""Server: a store and its Hosts as an ASGI application."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from agentic_kernel import InvalidValue, KernelError
from agentic_kernel_engine import Host, HostClosed, Principal, Store, StoreError
from agentic_kernel_engine.faults import said
from agentic_kernel_engine.record import owner_name

from .agents.consumers import Consumer, Consumers, Key
from .caller import Authenticate, anonymous
from .errors import Refused, unavailable
from .executions.encoding import KIND, TOOL_KIND
from .executions.requests import AgentLost
from .executions.run import Executions
from .executions.taking import take_again
from .forwarding import Forwarder
from .forwarding.addresses import KIND as PROCESS_KIND
from .health import Health
from .openapi import routes as document_routes
from .parts import Parts
from .ports import Bounds, Decide, Measure, Silent, Unbounded, deny_all
from .routes import ROUTES, Operation
from .runners.offers import Runners
from .runners.registry import KIND as RUNNER_KIND
from .runners.registry import Registrations, Registry
from .scout import Scout
from .settings import Settings
from .tools.jobs import RunnerLost
from .tools.run import ToolCalls

_log = logging.getLogger(__name__)
_ALIVE: Final = 1.0
"""Seconds between two looks at the life of the Hosts."""
_LEAVING: Final = 10.0
"""Seconds in which a Host leaves the store. If the store is away, the others learn of its end by
its lease."""


class Server:
    """Executions, agents and runners on one store, as an ASGI application.

    Any number of servers, in any number of processes, may share one store. Everything durable is
    in the store: the death of a process loses nothing.

    ``app`` runs alone, because its lifespan enters the server. Mounted into another application it
    gets no lifespan, so that application enters the server: ``async with server``.

    Args:
        store: Keeps everything.
        settings: The timeouts and sizes.
        authenticate: Finds the caller of a request.
        decide: Decides about every tool call; without it every tool is denied.
        bounds: The most that one tenant may use.
        measure: Receives figures.
        routes: Further routes of the application.
    """

    def __init__(
        self,
        store: Store,
        *,
        settings: Settings | None = None,
        authenticate: Authenticate = anonymous,
        decide: Decide = deny_all,
        bounds: Bounds | None = None,
        measure: Measure | None = None,
        routes: Sequence[BaseRoute] = (),
    ) -> None:
        self.settings = settings or Settings()
        self.authenticate = authenticate
        self.bounds: Bounds = bounds or Unbounded()
        self.parts = parts = Parts(store, self.settings, decide, measure or Silent())
        grace, most = self.settings.agent_timeout, self.settings.most_queued
        self._scout = Scout(parts)
        parts.agents = Consumers(grace, most, self._agent_came, self._agent_lost)
        parts.runners = Runners(
            grace, most, self._runner_came, self._runner_lost, self._scout.hurry
        )
        self.registry = parts.registry = Registry(parts)
        host = partial(
            Host, store=store, max_attempts=None, acts_for=Principal,
            interval=self.settings.interval,
        )  # fmt: skip
        parts.executions = host(Executions(parts), runtime_kinds={KIND}, claims=False)
        parts.tools = host(ToolCalls(parts), runtime_kinds={TOOL_KIND}, claims=False)
        parts.control = host(Registrations(parts), runtime_kinds={RUNNER_KIND, PROCESS_KIND})
        parts.forwarder = Forwarder(parts)
        self._entered = False
        self._stopping = False
        self.lost = asyncio.Event()
        """Set when the store has given one of the Hosts up, because its lease ran out. This server
        is of no use any more: leave it, and begin a new one."""
        self.app = Starlette(
            routes=[*_routes(self), *Health(self).routes(), *document_routes(), *routes],
            lifespan=self._lifespan,
            exception_handlers={
                Refused: _refused,
                StoreError: _unavailable,
                HostClosed: _unavailable,
                InvalidValue: _invalid,
                KernelError: _unavailable,
                ClientDisconnect: _left,
                404: _no_route,
                405: _no_route,
            },
        )
        # A redirect to a path without a slash would name the host of the request's head.
        self.app.router.redirect_slashes = False

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        async with self:
            yield

    async def __aenter__(self) -> Self:
        parts = self.parts
        for host in (parts.executions, parts.tools, parts.control):
            await host.__aenter__()
        if self.settings.forwards:
            await parts.forwarder.open()
        parts.start(self._scout.keep())
        parts.start(self._watch())
        self._entered = True
        for name, read in (
            ("agent_streams", lambda: float(len(parts.agents))),
            ("runner_streams", lambda: float(len(parts.runners))),
            ("live_executions", lambda: float(len(parts.runs))),
            ("live_steps", lambda: float(len(parts.jobs))),
        ):
            parts.measure.gauge(name, read)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.drain(timeout=5.0)
        parts = self.parts
        await parts.forwarder.close()
        await asyncio.gather(*map(_left_by, (parts.executions, parts.tools, parts.control)))
        await parts.stop()

    @property
    def ready(self) -> bool:
        """True while the server takes work."""
        return not (
            not self._entered or self._stopping or self.parts.draining or self.lost.is_set()
        )

    def stop(self) -> None:
        """Say that the server is not ready any more; it still answers until `drain`."""
        self._stopping = True

    async def _watch(self) -> None:
        """Look if the store still counts the Hosts as alive: one that it gave up cannot join again.

        The streams are cut then, so that agents and runners go to another process.
        """
        parts = self.parts
        names = [host.name for host in (parts.executions, parts.tools, parts.control)]
        while not parts.draining:
            await asyncio.sleep(_ALIVE)
            try:
                alive = [await parts.store.alive(owner_name(name, 1)) for name in names]
            except KernelError:
                continue  # Not known; look again.
            if not all(alive) and not parts.draining:
                _log.error(
                    "the store gave this process up, because its lease ran out; its work goes on "
                    "in another process or in a new server"
                )
                self.lost.set()
                parts.agents.cut_all()
                parts.runners.cut_all()
                return

    async def store_answers(self) -> bool:
        """True if the store can be read."""
        try:
            async with asyncio.timeout(5.0):
                await self.parts.store.find(limit=1)
        except (KernelError, TimeoutError, OSError):
            return False
        return True

    def counts(self) -> Mapping[str, int]:
        """The numbers of open streams and of live runs."""
        parts = self.parts
        return {
            "agent_streams": len(parts.agents),
            "runner_streams": len(parts.runners),
            "live_executions": len(parts.runs),
            "live_steps": len(parts.jobs),
        }

    def check_open(self) -> None:
        """Refuse a new stream while the server stops.

        Raises:
            Refused: The server stops.
        """
        if not self.ready:
            raise Refused("SERVICE_UNAVAILABLE", "the server is stopping; use another one")

    async def drain(self, timeout: float = 30.0) -> None:
        """Take no more work, cut the streams, and let every run go at its next safe point."""
        parts = self.parts
        if parts.draining:
            return
        parts.draining = True
        self._scout.hurry()
        parts.agents.cut_all()
        parts.runners.cut_all()
        for host in (parts.executions, parts.tools, parts.control):
            await host.drain(timeout=timeout)

    def _agent_came(self, consumer: Consumer) -> None:
        self.parts.start(self._scout.agent_came(consumer))

    def _agent_lost(self, key: Key) -> None:
        _log.warning(
            "the consumer %r of the agent %r had no stream for %g s; its executions go to another "
            "consumer",
            key.consumer, key.group, self._grace, extra={"tenant": key.tenant},
        )  # fmt: skip
        lost = AgentLost(key.consumer, f"the agent had no stream for {self._grace:g} s")
        for run in list(self.parts.runs.values()):
            if run.key == key:
                run.box.put(lost)
        for task_id, vigil in list(self.parts.vigils.items()):
            if vigil.key == key:
                # It is paused, and goes to another consumer.
                self.parts.start(take_again(self.parts, task_id))

    @property
    def _grace(self) -> float:
        return self.settings.agent_timeout

    def _runner_came(self, consumer: Consumer) -> None:
        self.parts.start(self._scout.runner_came(consumer))

    def _runner_lost(self, key: Key) -> None:
        for run in list(self.parts.jobs.values()):
            if run.key == key:
                run.box.put(RunnerLost(key.consumer))
        self.parts.runners.forget(key)


class _Endpoint:
    """One operation as an ASGI application; it may answer with a stream."""

    def __init__(self, server: Server, operation: Operation) -> None:
        self._server = server
        self._operation = operation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._operation(self._server, Request(scope, receive))
        await answer(scope, receive, send)


async def _left_by(host: Host) -> None:
    """Close a Host; a store that does not answer is not waited for."""
    try:
        async with asyncio.timeout(_LEAVING):
            await host.close()
    except (StoreError, TimeoutError) as fault:
        why = said(fault) or f"the store did not answer within {_LEAVING:g} s"
        _log.warning("host %s has not left the store: %s", host.name, why)


def _routes(server: Server) -> list[BaseRoute]:
    routes: list[BaseRoute] = []
    for each in ROUTES:
        route = Route(each.path, _Endpoint(server, each), methods=[each.method], name=each.summary)
        if each.streams and route.methods is not None:
            route.methods.discard("HEAD")  # It would open the stream.
        routes.append(route)
    return routes


def _json(
    status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> Response:
    return Response(
        msgspec.json.encode(body), status, dict(headers or {}), media_type="application/json"
    )


async def _refused(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, Refused)
    headers = {}
    if fault.code == "RATE_LIMITED":
        # RFC 9110 knows whole seconds only.
        headers["Retry-After"] = str(max(1, math.ceil(fault.retry_after or 1.0)))
    return _json(fault.status, fault.body, headers)


async def _unavailable(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, KernelError)
    refused = unavailable(fault, f"{request.method} {request.url.path}")
    return _json(refused.status, refused.body)


async def _left(request: Request, fault: Exception) -> Response:
    return Response(status_code=400)  # The client does not read it.


async def _invalid(request: Request, fault: Exception) -> Response:
    refused = Refused("VALIDATION_ERROR", str(fault))
    return _json(refused.status, refused.body)


async def _no_route(request: Request, fault: Exception) -> Response:
    refused = Refused("NOT_FOUND", f"there is no call {request.method} {request.url.path[:200]}")
    return _json(refused.status, refused.body)
