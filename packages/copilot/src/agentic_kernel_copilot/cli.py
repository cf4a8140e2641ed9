"""Cli: one process of the Copilot CLI for all Tasks of a Host, and the watch over this process.

The Host talks to the CLI over the CLI's standard input and output. The CLI ends when its input
closes. So it ends with the process that started it, even if that process is killed: its shells
included, this took 0.1 s when measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from copilot import CopilotClient, RuntimeConnection
from copilot._jsonrpc import JsonRpcError, ProcessExitedError

from agentic_kernel import CannotStart
from agentic_kernel_engine import TaskFailed
from agentic_kernel_engine.faults import log
from agentic_kernel_engine.observer import printable

from . import failures
from .program import CLI_VERSION, INSTALL, find_cli

T = TypeVar("T")
_log = logging.getLogger(__name__)

START_SECONDS: Final = 30.0
"""Seconds that the CLI may take to start."""
PATIENCE: Final = 10.0
"""Seconds that the CLI may take to answer before it counts as hung."""
BEAT: Final = 1.0
"""Seconds between two checks that the CLI is alive."""
SESSIONS: Final = "session-state"
"""The folder in its home in which the CLI keeps a folder for each session."""
STOP_SECONDS: Final = 10.0
"""Seconds that the CLI may take to end by itself before it is killed."""
_WITHHELD: Final = frozenset({"COPILOT_ALLOW_ALL"})
"""Variables that the CLI does not get, because with them it would not ask for permission."""


class CliLost(Exception):
    """The CLI died, or did not answer in time and was killed; its sessions are on disk."""


class Connection:
    """One life of the CLI.

    Attributes:
        client: The SDK's client.
        losing: Functions to call once, when the CLI is lost.
    """

    def __init__(self, client: CopilotClient) -> None:
        self.client = client
        self.losing: set[Callable[[], None]] = set()
        self._why = ""
        self._watch = asyncio.get_running_loop().create_task(self._look_after())
        self._end: asyncio.Task[None] | None = None

    @property
    def lost(self) -> bool:
        """True if the CLI is gone."""
        return bool(self._why)

    def check(self) -> None:
        """Raise if the CLI is gone.

        Raises:
            CliLost: The CLI is gone; the message says why.
        """
        if self._why:
            raise CliLost(self._why)

    async def call(self, doing: str, work: Callable[[], Awaitable[T]]) -> T:
        """Send a request to the CLI; a CLI that does not answer within `PATIENCE` is killed.

        Args:
            doing: The request as a verb, for the message.

        Raises:
            CliLost: The CLI is gone, or did not answer.
            TaskFailed: The CLI refused the request.
        """
        self.check()
        try:
            async with asyncio.timeout(PATIENCE):
                return await work()
        except TimeoutError:
            self.give_up(f"it did not {doing} within {PATIENCE:g} seconds")
        except JsonRpcError as error:
            raise failures.failure(
                failures.CLI_REFUSED, f"the Copilot CLI refused to {doing}: {error}"
            ) from error
        except (ProcessExitedError, OSError) as error:
            self.give_up(str(error))
        raise CliLost(self._why)

    def give_up(self, why: str) -> None:
        """Count the CLI as lost: tell every user of the connection, and kill the process."""
        if self._why:
            return
        self._why = failures.clean(why) if why else "it ended"
        _log.warning("the Copilot CLI is lost: %s", printable(self._why))
        self._end = asyncio.get_running_loop().create_task(_kill(self.client))
        for told in list(self.losing):
            told()

    async def close(self) -> None:
        """End the CLI, by force if necessary; it is gone when this returns."""
        self._watch.cancel()
        await asyncio.wait([self._watch])
        if self._end is None:
            self._why = "it was closed"
            with _pipes(self.client):
                try:
                    async with asyncio.timeout(STOP_SECONDS):
                        await self.client.stop()
                except (Exception, ExceptionGroup):
                    await _kill(self.client)
        else:
            await self._end

    async def _look_after(self) -> None:
        while not self._why:
            await asyncio.sleep(BEAT)
            with contextlib.suppress(CliLost, TaskFailed):
                await self.call("answer", self.client.ping)


class Cli:
    """Starts the CLI when it is first needed, and again after it was lost.

    Args:
        path: See `find_cli`.
        home: The folder in which the CLI keeps its sessions.
        model: The model of its sessions; None for the CLI's own choice.
        base_url: The address of the sessions' provider, if they have one.
        offline: True if the CLI may reach only the provider.
        working_directory: The folder in which the CLI works; None for the current one.
        env: Variables that are added to this process's environment for the CLI.
    """

    def __init__(
        self,
        *,
        path: str | os.PathLike[str] | None,
        home: Path,
        model: str | None,
        base_url: str | None,
        offline: bool,
        working_directory: str | None,
        env: Mapping[str, str],
    ) -> None:
        self._path = path
        self._home = home
        self._working_directory = working_directory
        self._env = {key: value for key, value in os.environ.items() if key not in _WITHHELD}
        self._env |= env
        if model is not None:
            self._env["COPILOT_MODEL"] = model
        if base_url is not None:
            self._env["COPILOT_PROVIDER_BASE_URL"] = base_url
        if offline:
            self._env["COPILOT_OFFLINE"] = "true"
        self._connection: Connection | None = None
        self._closed = False
        self._lock = asyncio.Lock()
        self.starts = 0
        """The number of times that the CLI was started."""

    async def open(self) -> Connection:
        """Return the connection to the CLI; start the CLI if it does not run.

        Raises:
            CannotStart: The CLI is missing, has another version, or does not start; the message
                says what to do.
        """
        async with self._lock:
            if self._closed:
                raise CannotStart("this Host is closed; make a new one over the same store")
            if self._connection is not None and self._connection.lost:
                gone, self._connection = self._connection, None
                await gone.close()
            if self._connection is None:
                self._connection = await self._start()
            return self._connection

    async def begun(self, session: str) -> bool:
        """True if a session with this id was begun in the home, even if it left no log.

        The CLI makes the session's folder at once, and writes the log a moment later.
        """
        return await asyncio.to_thread((self._home / SESSIONS / session).is_dir)

    async def close(self) -> None:
        """End the CLI if it runs; it cannot be started again."""
        async with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
            if connection is not None:
                await connection.close()

    async def _start(self) -> Connection:
        path = find_cli(self._path)
        self.starts += 1
        client: CopilotClient | None = None
        try:
            await asyncio.to_thread(self._home.mkdir, parents=True, exist_ok=True)
            client = CopilotClient(
                connection=RuntimeConnection.for_stdio(path=str(path)),
                mode="empty",
                base_directory=str(self._home),
                working_directory=self._working_directory,
                env=dict(self._env),
                log_level="error",
            )
            async with asyncio.timeout(START_SECONDS):
                await client.start()
                version = (await client.get_status()).version
        except BaseException as error:
            if client is not None:
                await _kill(client)
            if not isinstance(error, Exception):
                raise
            said = failures.clean(str(error) or type(error).__name__)
            raise CannotStart(
                f"the Copilot CLI at {path} does not start: {said}; start it in a terminal to see "
                f"why, or run {INSTALL}"
            ) from error
        if version != CLI_VERSION:
            await _kill(client)
            raise CannotStart(
                f"the Copilot CLI at {path} has version {version}, and this package needs "
                f"{CLI_VERSION}; run {INSTALL}"
            )
        return Connection(client)


async def _kill(client: CopilotClient) -> None:
    with _pipes(client):
        try:
            await client.force_stop()
        except Exception as fault:
            log(_log, fault, "the Copilot CLI could not be ended")


@contextlib.contextmanager
def _pipes(client: CopilotClient) -> Iterator[None]:
    """Close the pipes to a process that has ended, because the SDK leaves some of them open."""
    process = client._cli_process
    try:
        yield
    finally:
        if process is not None and process.poll() is not None:
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()


def default_home(env: Mapping[str, Any] = os.environ) -> Path:
    """The folder in which the CLI keeps its sessions by default."""
    return Path(env.get("COPILOT_HOME") or Path.home() / ".copilot")
