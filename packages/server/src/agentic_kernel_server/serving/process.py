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

from ..policy import Policy
from ..security.protocol import HEAD, GuardedProtocol
from .composition import Composition, Files, composed
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
_STOPS: Final = (signal.SIGTERM, signal.SIGINT)


async def run(
    options: Options,
    opened: Opened,
    sockets: Sequence[socket.socket],
    policy: Policy | None = None,
    parent: int | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, or until the parent process is gone, and drain.

    A second signal ends the process without waiting for open requests. SIGHUP reloads the policy.
    If the lease of the process ran out, it begins again with new Hosts, on the same sockets: new
    connections wait in their queues. Its policy and its keys stay as they are.

    Args:
        policy: The policy in use; None reads the one that the options name.
        parent: The reading end of a pipe whose other end only the parent holds; None without one.

    Raises:
        StoreError: The store cannot be opened for the first time.
        PolicyError: The policy cannot be used.
        KeyFileError: The key file cannot be used.
    """
    _raise_files()
    signals = _Signals(Files(options, policy))
    rounds = pause = 0.0
    with signals.heard(parent):
        while True:
            try:
                if not await _served(options, opened, [each.dup() for each in sockets], signals):
                    return
                rounds, pause = rounds + 1, 0.0
            except StoreError as fault:
                if signals.stopping.is_set():
                    _log.warning("the process ends without the store: %s", said(fault))
                elif not rounds:
                    raise
                else:
                    pause = min(30.0, 2 * pause + 0.5)
                    _log.warning("the store cannot be opened again yet: %s", said(fault))
            if signals.stopping.is_set():
                return
            _log.info("begins again in %g s", pause)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await signals.stopping.wait()


async def _served(
    options: Options, opened: Opened, sockets: list[socket.socket], signals: _Signals
) -> bool:
    """Serve until a signal, or until the lease ran out; True in the second case."""
    with contextlib.ExitStack() as stack:
        for each in sockets:
            stack.callback(each.close)
        async with opened() as store:
            if signals.stopping.is_set():
                return False
            parts = composed(store, options, signals.files)
            front = _Front(configured(parts.app, options), parts, options)
            async with parts.server:
                watch = [asyncio.create_task(_upkeep(parts)), asyncio.create_task(front.watch())]
                try:
                    with signals.told_to(front):
                        for each in sockets:
                            _log.info("listening on %s", shown_address(each))
                        await front.serve(sockets)
                finally:
                    for task in watch:
                        task.cancel()
                    await asyncio.wait(watch)
    return front.lost


class _Signals:
    """SIGTERM, SIGINT and SIGHUP of the process, whatever it does at the moment.

    Args:
        files: SIGHUP reloads their policy.
    """

    def __init__(self, files: Files) -> None:
        self.files = files
        self.stopping = asyncio.Event()
        """Set by the first SIGTERM or SIGINT."""
        self._front: _Front | None = None
        self._reloads = set[asyncio.Task[bool]]()

    @contextlib.contextmanager
    def heard(self, parent: int | None) -> Iterator[None]:
        """Handle signals, and the end of the parent, in the event loop while the block runs."""
        loop = asyncio.get_running_loop()
        if parent is not None:
            loop.add_reader(parent, self._orphaned, parent)
        for number in _STOPS:
            loop.add_signal_handler(number, self._stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        try:
            yield
        finally:
            self._deaf()
            loop.remove_signal_handler(signal.SIGHUP)
            if parent is not None:
                loop.remove_reader(parent)

    @contextlib.contextmanager
    def told_to(self, front: _Front) -> Iterator[None]:
        """Stop this front when a signal says so."""
        self._front = front
        front.should_exit = self.stopping.is_set()
        try:
            yield
        finally:
            self._front = None
            if self.stopping.is_set():
                self._deaf()  # Another signal ends the process at once.

    def _deaf(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _STOPS:
            loop.remove_signal_handler(number)

    def _stop(self, number: signal.Signals) -> None:
        if self._front is not None:
            self._front.stop()
        elif self.stopping.is_set():
            self._deaf()
            signal.raise_signal(number)
        self.stopping.set()

    def _orphaned(self, parent: int) -> None:
        asyncio.get_running_loop().remove_reader(parent)
        _log.warning("the parent process is gone, so this process stops")
        self._stop(signal.SIGTERM)

    def _reload(self) -> None:
        # Parsing many rules takes a while, and requests go on.
        task = asyncio.create_task(asyncio.to_thread(self.files.policy.reload))
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)


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
        self.lost = False
        """True if it stops because the lease ran out, and not because of a signal."""

    async def watch(self) -> None:
        """Stop when the lease has run out."""
        await self._parts.server.lost.wait()
        self.lost = not self.should_exit
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: `_Signals` handles the signals, in the event loop."""
        yield

    def stop(self) -> None:
        """Stop as a signal says; without waiting for open requests if it is the second one."""
        self.lost = False
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: say so, stop listening, cut the streams, let the runs reach a safe point."""
        self._parts.server.stop()
        # A client that keeps its connection would send its next request into the end of it.
        self.server_state.default_headers.append((b"connection", b"close"))
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
