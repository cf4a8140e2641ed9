"""Load on server processes and a database that are killed at random, and what must hold then.

``python -m integration.server_chaos file:FOLDER|postgres MINUTES SEED``
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import rebuno

from .postgres_server import Server as Database
from .programs import parser
from .server_chaos_client import EFFECTS, lines_of
from .server_histories import Histories
from .test_server import ROOT, process

GRACE = 2.0
"""Seconds in which an agent may come back."""
TIMEOUT = 60.0
"""The longest an execution may take: so long waits one whose handler the client has given up."""
AGENTS, RUNNERS = 2, 6
"""More runners than are needed: each lost report takes one out until its step's deadline."""
SETTLING = 120.0
"""Seconds after the last kill within which every execution has to end."""
CUT = (
    "peer closed connection",
    "Server disconnected",
    "All connection attempts failed",
    "ReadError",
)
"""What the client says of a request that was cut in flight, which it does not send again."""
AWAY = "SERVICE_UNAVAILABLE"
"""The error of the client after its retries, while the database or an owner does not answer."""


@dataclass
class Report:
    """What happened, and what must not have."""

    created: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    cut: int = 0
    """Executions whose handler failed because the client does not repeat a cut request."""
    away: int = 0
    """Executions whose handler failed because the client's retries end after seven seconds."""
    indeterminate: int = 0
    """Executions that ended because a runner had vanished."""
    given_up: int = 0
    """Ends that the client could not report, because the request was cut: it says so in its log."""
    unreported: int = 0
    """Results that a runner could not report, because the request was cut: it says so in its log.
    The runner then counts as busy until the step's deadline."""
    late_steps: int = 0
    """Executions that ended because a step reached its deadline."""
    timed_out: int = 0
    """Executions that reached their deadline; not more than were given up."""
    late: Counter[str] = field(default_factory=Counter)
    """The last events of the executions that reached their deadline."""
    effects: int = 0
    twice: list[str] = field(default_factory=list)
    """Effects of remote steps that happened twice."""
    lost: list[str] = field(default_factory=list)
    """Executions that were acknowledged and are not there."""
    stuck: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Ends that nothing of the above explains."""
    histories: int = 0
    """Executions whose calls were recorded for the kit's checker."""
    calls: int = 0
    impossible: list[str] = field(default_factory=list)
    """Histories that no order of their calls explains."""

    @property
    def good(self) -> bool:
        """True if all that must hold holds."""
        bad = self.twice or self.lost or self.stuck or self.wrong or self.impossible
        # Each runner that is out may delay the steps that wait for it. A killed one logs nothing.
        slow = self.late_steps > RUNNERS * self.unreported + self.kills["runner"]
        return not bad and not slow and self.timed_out <= self.given_up

    def text(self) -> str:
        """The report as JSON."""
        return json.dumps({name: _plain(value) for name, value in vars(self).items()}, indent=1)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Counter) else value


class Front:
    """A port before the servers, which come and go; a new connection goes to a living one."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        self._next = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on."""
        for _ in range(20):
            with suppress(OSError, ZeroDivisionError):
                self._next += 1
                target = urlsplit(self.urls[self._next % len(self.urls)])
                far = await asyncio.open_connection(target.hostname, target.port)
                break
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
        ways = {
            asyncio.ensure_future(_pass_on(reader, far[1])),
            asyncio.ensure_future(_pass_on(far[0], writer)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            writer.close()
            far[1].close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()


class Chaos:
    """One run: load, kills, and the account of both.

    Args:
        place: The store.
        seed: Decides which process is killed when.
        folder: An empty folder, for what the agents and runners write down.
        database: Is killed too, if it is given.
    """

    def __init__(
        self, place: str, seed: int, folder: Path, database: Database | None = None
    ) -> None:
        self.report = Report()
        self._place = place
        self._database = database
        self._chance = random.Random(seed)
        self._front = Front()
        self._folder = folder
        self._url = ""
        self._ids: list[str] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, seconds: float, servers: int = 2) -> Report:
        """Kill at random for so many seconds, then let everything end, and look."""
        listening = await asyncio.start_server(self._front.connected, "127.0.0.1", 0)
        self._url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        until = time.monotonic() + seconds
        async with AsyncExitStack() as stack:
            for _ in range(servers):
                self._start(self._lives("server", self._server, until))
            while len(self._front.urls) < servers:  # noqa: ASYNC110 (of other processes)
                await asyncio.sleep(0.1)
            for n in range(RUNNERS):
                self._start(self._lives("runner", partial(self._client, "runner", f"r{n}"), until))
            for _ in range(AGENTS):
                self._start(self._lives("agent", partial(self._client, "agent", "swe"), until))
            outages = asyncio.ensure_future(self._outages(until))
            histories = Histories(self._url, self._chance)
            self._start(histories.agent())
            making = asyncio.ensure_future(histories.make())
            client = await stack.enter_async_context(rebuno.Client(self._url))
            self._start(self._signals(client))
            await self._load(client, until)
            making.cancel()
            await asyncio.wait({making})
            await outages
            await self._settle(client)
            told = await histories.judge()
            self.report.histories, self.report.calls, self.report.impossible = told
            for task in self._tasks:
                if task.done():
                    task.result()  # It should have gone on.
                task.cancel()
            await asyncio.wait(self._tasks)
        listening.close()
        return self.report

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)

    async def _lives(
        self, what: str, start: Callable[[], Awaitable[Callable[[], Awaitable[None]]]], until: float
    ) -> None:
        """Start a process again and again, each time after it was killed."""
        while True:
            try:
                kill = await start()
            except AssertionError:
                continue  # It found the database away, and ended.
            try:
                wait = self._chance.uniform(5, 15) * (1 if what == "server" else 2)
                if time.monotonic() + wait > until:
                    await asyncio.Event().wait()
                await asyncio.sleep(wait)
                self.report.kills[what] += 1
            finally:
                await kill()

    async def _outages(self, until: float) -> None:
        """Kill the database, if there is one, from time to time, and start it again."""
        database = self._database
        while database is not None and time.monotonic() + 25 < until:
            await asyncio.sleep(self._chance.uniform(12, 25))
            self.report.kills["database"] += 1
            await asyncio.to_thread(database.kill)
            await asyncio.sleep(self._chance.uniform(0, 2))
            await asyncio.to_thread(database.start)

    async def _server(self) -> Callable[[], Awaitable[None]]:
        stack = AsyncExitStack()
        url, made = await stack.enter_async_context(process(self._place, GRACE, TIMEOUT))
        self._front.urls.append(url)

        async def kill() -> None:
            made.kill()
            await made.wait()
            self._front.urls.remove(url)
            await stack.aclose()

        return kill

    async def _client(self, what: str, name: str) -> Callable[[], Awaitable[None]]:
        """Start an agent or a runner."""
        words = "-m", "integration.server_chaos_client", what, name, self._url, self._folder
        made = await asyncio.create_subprocess_exec(
            sys.executable, *words, cwd=ROOT,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip

        async def kill() -> None:
            made.kill()
            await made.communicate()

        assert made.stdout is not None
        try:
            await made.stdout.readline()  # Its life begins when it is up.
        except asyncio.CancelledError:
            await kill()
            raise

        return kill

    async def _load(self, client: rebuno.Client, until: float) -> None:
        while time.monotonic() < until:
            with suppress(rebuno.errors.RebunoError):
                made = await client.create("swe", {"n": len(self._ids)})
                self._ids.append(made.id)
            await asyncio.sleep(0.25)
        self.report.created = len(self._ids)

    async def _signals(self, client: rebuno.Client) -> None:
        """Send every execution the signal that it waits for."""
        sent = 0
        while True:
            while sent < len(self._ids):
                try:
                    await client.send_signal(self._ids[sent], "go", sent)
                except rebuno.errors.ConflictError:
                    pass
                except rebuno.errors.RebunoError:
                    await asyncio.sleep(0.2)
                    continue
                sent += 1
            await asyncio.sleep(0.1)

    async def _settle(self, client: rebuno.Client) -> None:
        until = time.monotonic() + SETTLING
        open_ids = set(self._ids)
        while open_ids and time.monotonic() < until:
            for id in sorted(open_ids):
                try:
                    found = await client.get(id)
                except rebuno.errors.NotFoundError:
                    self.report.lost.append(id)
                    open_ids.discard(id)
                    continue
                except rebuno.errors.RebunoError:
                    continue  # It was cut by the last kill.
                if found.status in ("completed", "failed", "cancelled"):
                    with suppress(rebuno.errors.RebunoError):
                        await self._judge(client, found)
                        open_ids.discard(id)
            await asyncio.sleep(0.2)
        self.report.stuck = sorted(open_ids)
        for name in ("given_up", "unreported"):
            setattr(self.report, name, lines_of(self._folder, name).total())
        effects = lines_of(self._folder, EFFECTS)
        self.report.effects = effects.total()
        self.report.twice = sorted(token for token, n in effects.items() if n > 1)

    async def _judge(self, client: rebuno.Client, found: Any) -> None:
        told: Any = await client.events_snapshot(found.id, limit=1_000)
        self.report.ends[found.status] += 1
        last = told[-1]
        if found.status == "completed":
            n = self._ids.index(found.id)
            if found.output != [2 * (n + 2), n]:
                self.report.wrong.append(f"{found.id}: {found.output}")
            return
        error = str(last.payload.get("error"))
        if last.payload.get("code") == "server/execution_timeout":
            self.report.timed_out += 1
            told = [each for each in told if each.type not in ("step.cancelled", last.type)]
            self.report.late[" ".join(each.type for each in told[-2:])] += 1
            if os.environ.get("CHAOS_SHOWS"):
                lines = [
                    f"{each.timestamp} {each.type} {each.step_id or ''} {each.payload}"
                    for each in [*told, last]
                ]
                sys.stderr.write("\n  ".join([found.id, *lines]) + "\n")
        elif "its deadline" in error:
            self.report.late_steps += 1
        elif error.startswith("indeterminate"):
            self.report.indeterminate += 1
        elif "without a message" in error or any(each in error for each in CUT):
            self.report.cut += 1
        elif AWAY in error:
            self.report.away += 1
        else:
            self.report.wrong.append(f"{found.id}: {error}")


async def chaos(place: str, minutes: float, seed: int) -> Report:
    """One run on files, or on a database of its own that is killed too."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        database = None
        if place == "postgres":
            database = stack.enter_context(Database())
            place = f"postgres:chaos:{database.place}"
        return await Chaos(place, seed, folder, database).run(60 * minutes)


def main(arguments: Sequence[str] | None = None) -> int:
    """One run, and its report; the exit code is 1 if something did not hold."""
    words = parser("integration.server_chaos", __doc__)
    words.add_argument("place", metavar="PLACE", help="file:FOLDER, or postgres")
    words.add_argument("minutes", type=float, metavar="MINUTES", help="how long the load lasts")
    words.add_argument(
        "seed", type=int, metavar="SEED", help="which processes are killed, and when"
    )
    asked = words.parse_args(arguments)
    ended = asyncio.run(chaos(asked.place, asked.minutes, asked.seed))
    sys.stdout.write(ended.text() + "\n")
    return 0 if ended.good else 1


if __name__ == "__main__":
    sys.exit(main())
