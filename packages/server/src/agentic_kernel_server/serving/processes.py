"""Processes: the processes of a server behind one port, and the parent that keeps them running.

The parent opens the sockets and forks; it opens no store and serves nothing. A process that dies is
replaced after a pause that grows while processes die early. If none ever worked, the parent gives
up. SIGTERM and SIGINT stop all of them, SIGHUP is passed on. A new process gets the policy that is
in use, whatever its file is by then; it reads the keys itself, so that a revoked one is revoked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Final

from agentic_kernel_engine import Store
from agentic_kernel_engine.faults import said

from ..observing.logs import begin
from ..policy import Policies, Policy
from ..security import Key, KeyFile
from .options import Options, listening

_log: Final = logging.getLogger(__name__)
EARLY: Final = 5.0
"""Seconds; a process that dies sooner died early."""
MOST_EARLY: Final = 6
"""The number of early deaths after which the parent gives up, if no process ever lived longer."""
LAST: Final = 10.0
"""Seconds that a process has after its grace, before it is killed."""
Opened = Callable[[], AbstractAsyncContextManager[Store]]
"""Opens the store in one process; it is closed at the end of the block."""
_SIGNALS: Final = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}


def serve(options: Options, opened: Opened) -> int:
    """Serve until SIGTERM or SIGINT.

    Returns:
        The exit code: 0 after a graceful stop, 1 if the processes die early again and again.

    Raises:
        InvalidValue: The address cannot be used.
        PolicyError: The policy cannot be used.
        KeyFileError: The key file cannot be used.
    """
    # Faults of the files are told before anything listens.
    policy = Policy(options.policy)
    keys = None if options.keys is None else KeyFile(options.keys).read()
    sockets = listening(options)
    begin(options.level)
    tell(options, None if options.policy is None else policy.rules, keys)
    if options.processes == 1:
        _run(options, opened, sockets, policy)
        return 0
    return _Parent(options, opened, sockets, policy).serve()


def tell(options: Options, policies: Policies | None, keys: Sequence[Key] | None) -> None:
    """Begin the log with what an operator may have forgotten."""
    if options.place:
        _log.info(
            "keeps everything in %s; a Task there, of any kind, is removed %g hours after its end",
            options.place,
            options.settings.retention / 3_600,
        )
    if policies is None:
        _log.warning("there is no policy, so every tool is denied; give --policy PATH")
    else:
        _log.info("decides by the policy %s; rules: %d", ascii(str(options.policy)), policies.count)
    if keys is None:
        _log.warning(
            "there are no keys: every user and program of this machine may make every call, and "
            "has no name; give --keys FILE"
        )
    else:
        now = datetime.now(UTC)
        usable = sum(key.usable(now) for key in keys)
        _log.info("asks for a key of %s; usable keys: %d", ascii(str(options.keys)), usable)


def _run(
    options: Options,
    opened: Opened,
    sockets: Sequence[socket.socket],
    policy: Policy,
    parent: int | None = None,
) -> None:
    # It loads prometheus_client, which looks at its environment when it is loaded.
    from .process import run

    asyncio.run(run(options, opened, sockets, policy, parent))


class _Parent:
    def __init__(
        self, options: Options, opened: Opened, sockets: Sequence[socket.socket], policy: Policy
    ) -> None:
        self._options = options
        self._opened = opened
        self._sockets = sockets
        self._policy = policy
        self._children: dict[int, float] = {}
        """The moment at which each child began, by process id."""
        self._early = 0
        """The number of early deaths in a row."""
        self._worked = False
        """True if a process lived longer than that."""
        self._missing = 0
        self._watched, self._held = os.pipe()
        """A child watches one end: it is closed when this process, which holds the other, ends."""

    def serve(self) -> int:
        folder = tempfile.mkdtemp(prefix="agentic-kernel-metrics-")
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            for _ in range(self._options.processes):
                self._fork()
            return self._watch()
        finally:
            for process in self._children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            for end in (self._watched, self._held):
                os.close(end)
            shutil.rmtree(folder, ignore_errors=True)

    def _watch(self) -> int:
        while True:
            pause = min(30.0, 0.1 * 2 ** min(self._early, 10)) if self._missing else 3_600.0
            got = signal.sigtimedwait(_SIGNALS, pause)
            if got is None:
                while self._missing:
                    self._missing -= 1
                    self._fork()
            elif got.si_signo == signal.SIGCHLD:
                self._reap()
                if self._early >= MOST_EARLY and not self._has_worked():
                    _log.error("%d processes in a row died early; the server ends", self._early)
                    self._stop()
                    return 1
            elif got.si_signo == signal.SIGHUP:
                self._policy.reload()
                self._tell(signal.SIGHUP)
            else:
                self._stop()
                return 0

    def _reap(self) -> None:
        for process, code in _ended():
            begun = self._children.pop(process, None)
            if begun is None:
                continue
            _forget_figures(process)
            self._missing += 1
            early = time.monotonic() - begun < EARLY
            self._early = self._early + 1 if early else 0
            self._worked |= not early
            _log.warning("process %d ended with %d; another one takes its place", process, code)

    def _has_worked(self) -> bool:
        """True if a server that worked has lost its processes; it is to come back."""
        now = time.monotonic()
        self._worked |= any(now - begun >= EARLY for begun in self._children.values())
        return self._worked

    def _stop(self) -> None:
        self._tell(signal.SIGTERM)
        until = time.monotonic() + self._options.notice + 2 * self._options.grace + LAST
        while self._children and time.monotonic() < until:
            got = signal.sigtimedwait(_SIGNALS, max(0.0, until - time.monotonic()))
            if got is not None and got.si_signo in (signal.SIGTERM, signal.SIGINT):
                self._tell(signal.SIGTERM)
            for process, _ in _ended():
                self._children.pop(process, None)

    def _tell(self, number: signal.Signals) -> None:
        for process in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def _fork(self) -> None:
        process = os.fork()
        if process:
            self._children[process] = time.monotonic()
            return
        code = 1
        try:
            self._children.clear()
            os.close(self._held)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            _run(self._options, self._opened, self._sockets, self._policy, self._watched)
            code = 0
        except KeyboardInterrupt:
            code = 130
        except BaseException as error:
            _log.critical("the process ends: %s", said(error), extra={"kind": type(error).__name__})
            _log.debug("%s", traceback.format_exc())
        finally:
            # Leave without the parent's clean-up.
            logging.shutdown()
            os._exit(code)


def _ended() -> Sequence[tuple[int, int]]:
    """The children that have ended, with their exit codes."""
    found: list[tuple[int, int]] = []
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if not process:
            return found
        found.append((process, os.waitstatus_to_exitcode(status)))


def _forget_figures(process: int) -> None:
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(process)  # type: ignore[no-untyped-call]
