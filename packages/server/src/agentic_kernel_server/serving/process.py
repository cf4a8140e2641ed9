"""Process: one process of a server, from its start to its last safe point."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import socket
from collections.abc import Iterator, Sequence
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from agentic_kernel import KernelError
from agentic_kernel_engine import StoreError
from agentic_kernel_engine.faults import said

from ..security.protocol import HEAD, GuardedProtocol
from .composition import Composition, composed
from .options import Options, shown_address
from .processes import Opened

_log: Final = logging.getLogger(__name__)
KEEP_ALIVE: Final = 75
"""Seconds for which an idle connection stays open. It is longer than the usual 5 to 60 s of clients
and proxies, so that they close first: a request on a connection that closes at this moment is
lost."""
REFRESHED: Final = 5.0
"""Seconds between two readings of the gauges, and two looks for streams of revoked keys."""
SWEPT: Final = 600.0
"""Seconds between two sweeps of the counters of rate limits."""


async def run(options: Options, opened: Opened, sockets: Sequence[socket.socket]) -> None:
    """Serve until SIGTERM or SIGINT, and drain.

    A second signal ends the process without waiting for open requests. SIGHUP reloads the policy.
    If the lease of the process ran out, it begins again with new Hosts, on the same sockets: new
    connections wait in their queues.

    Raises:
        StoreError: The store cannot be opened for the first time.
    """
    _raise_files()
    rounds = pause = 0.0
    while True:
        try:
            if not await _served(options, opened, [each.dup() for each in sockets]):
                return
            rounds, pause = rounds + 1, 0.0
        except StoreError as fault:
            if not rounds:
                raise
            pause = min(30.0, 2 * pause + 0.5)
            _log.warning("the store cannot be opened again yet: %s", said(fault))
        _log.info("begins again in %g s", pause)
        await asyncio.sleep(pause)


async def _served(options: Options, opened: Opened, sockets: list[socket.socket]) -> bool:
    """Serve until a signal, or until the lease ran out; True in the second case."""
    with contextlib.ExitStack() as stack:
        for each in sockets:
            stack.callback(each.close)
        async with opened() as store:
            parts = composed(store, options)
            config = configured(parts.app, options)
            front = _Front(config, parts, options)
            async with parts.server:
                watch = [asyncio.create_task(_upkeep(parts)), asyncio.create_task(front.watch())]
                try:
                    with front.on_signals():
                        for each in sockets:
                            _log.info("listening on %s", shown_address(each))
                        await front.serve(sockets)
                finally:
                    for task in watch:
                        task.cancel()
                    await asyncio.wait(watch)
    return front.lost


def configured(
    app: ASGIApp, options: Options, protocol: type[GuardedProtocol] = GuardedProtocol
) -> uvicorn.Config:
    """The configuration of uvicorn."""
    return uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(options.grace)),
        h11_max_incomplete_event_size=HEAD,
    )


class _Front(uvicorn.Server):
    """uvicorn's server, which stops in our order: readiness, listening, streams and runs, rest."""

    def __init__(self, config: uvicorn.Config, parts: Composition, options: Options) -> None:
        super().__init__(config)
        self._parts = parts
        self._options = options
        self._reloads = set[asyncio.Task[bool]]()
        self.lost = False
        """True if it stops because the lease ran out, and not because of a signal."""

    async def watch(self) -> None:
        """Stop when the lease has run out."""
        await self._parts.server.lost.wait()
        self.lost = not self.should_exit
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing: `on_signals` handles them, in the event loop."""
        yield

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Handle signals while the block runs."""
        loop = asyncio.get_running_loop()
        handlers = {
            signal.SIGTERM: self._stop,
            signal.SIGINT: self._stop,
            signal.SIGHUP: self._reload,
        }
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: say so, stop listening, cut the streams, let the runs reach a safe point."""
        self._parts.server.stop()
        if self._options.notice and not self.force_exit and not self.lost:
            await asyncio.sleep(self._options.notice)
        for each in self.servers:
            each.close()
        for listener in sockets or ():
            listener.close()
        _log.info("stops: cuts the streams, and lets the runs reach a safe point")
        with contextlib.suppress(TimeoutError):
            # Without its lease no run can store anything, so there is no safe point to wait for.
            grace = 0.0 if self.lost else self._options.grace
            async with asyncio.timeout(grace + 1):
                await self._parts.server.drain(grace)
        for connection in list(self.server_state.connections):
            if isinstance(connection, GuardedProtocol):
                connection.cut()
        await super().shutdown(sockets)

    def _stop(self) -> None:
        self.lost = False
        self.force_exit = self.should_exit
        self.should_exit = True

    def _reload(self) -> None:
        # Parsing many rules takes a while, and requests go on.
        task = asyncio.create_task(asyncio.to_thread(self._parts.gate.reload))
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)


async def _upkeep(parts: Composition) -> None:
    swept = 0.0
    while True:
        parts.metrics.refresh()
        if parts.revocable is not None:
            parts.revocable.look()
        swept -= REFRESHED
        if swept <= 0:
            swept = SWEPT
            try:
                await parts.rates.sweep()
            except KernelError as error:
                _log.warning("the counters of rate limits could not be swept: %s", said(error))
        await asyncio.sleep(REFRESHED)


def _raise_files() -> None:
    """Raise the limit of open files as far as allowed: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
