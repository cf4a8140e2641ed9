"""World: the store, the marks and the worker processes of one test."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agentic_kernel import Task
from agentic_kernel_engine import Host, HostGone, MemoryStore, Record, StoreTraits, task_to_json
from agentic_kernel_engine.stored import decode_record, encode_record

from . import substrate_left as left
from .mark import ADDRESS, RUN
from .rules import broken
from .substrate_bounds import Bounds
from .substrate_factory import SubstrateFactory
from .substrate_pool import Forks, forks
from .substrate_script import Script, tokens
from .substrate_trial import Trial, held
from .substrate_wire import Peer
from .substrate_worker import INTERVAL, Orders

_ANSWERS = {
    200: b"HTTP/1.1 200 OK\r\n",
    404: b"HTTP/1.1 404 Not Found\r\n",
    409: b"HTTP/1.1 409 Conflict\r\n",
    410: b"HTTP/1.1 410 Gone\r\n",
}


class WatchedStore(MemoryStore):
    """A `MemoryStore` that tells the kit of each record that it wrote."""

    traits = StoreTraits()

    def __init__(self, tell: Callable[[Record], None]) -> None:
        super().__init__()
        self._tell = tell

    async def insert(self, record: Record, events: Sequence[bytes] = ()) -> None:
        await super().insert(record, events)
        self._tell(record)

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        await super().commit(before, after, events)
        self._tell(after)

    async def claim(self, task_id: str, host: str, events: Sequence[bytes] = ()) -> Record | None:
        claimed = await super().claim(task_id, host, events)
        if claimed is not None:
            self._tell(claimed)
        return claimed


class Worker:
    """One worker process, as the kit sees it."""

    def __init__(self, world: World, number: int, folder: Path) -> None:
        self._world = world
        self.number = number
        self.folder = folder
        """The process's folder for temporary files."""
        self.secret = secrets.token_hex(8)
        self.run = secrets.token_hex(16)
        self.pid = 0
        self.host = ""
        """The name of the worker's Host, once it is ready."""
        self.peer: Peer | None = None
        self.ready = asyncio.Event()
        """Set when the worker's Host is ready, and when the worker can no longer become ready."""
        self.fault = ""
        """The reason why the worker cannot become ready; "" if there is none."""
        self.alive = True
        self.held = asyncio.Event()
        """Set when the watchdog has found the event loop held."""
        self.stack = ""
        """The innermost calls that held it."""

    async def call(self, name: str, *arguments: Any) -> Any:
        """Give the worker an order, and return its answer.

        Raises:
            RuleError: The worker's event loop is held, so no answer can come.
        """
        assert self.peer is not None
        order = asyncio.ensure_future(self.peer.call(name, *arguments))
        blocked = asyncio.ensure_future(self.held.wait())
        both: list[asyncio.Future[Any]] = [order, blocked]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not order.done():
                raise held(self.stack)
            return order.result()
        finally:
            order.cancel()
            blocked.cancel()

    async def dispatch(self, task: Task) -> None:
        """Dispatch a Task in the worker.

        Raises:
            CannotStart: The worker's Host, or its substrate, refuses the Task.
        """
        await self.call("dispatch", task_to_json(task))

    async def kill(self) -> None:
        """End the worker as ``kill -9`` does, and every process that it left."""
        if self.alive:
            self.alive = False
            self._world.forks.kill(self.pid)
            await self._world.buried(self)

    def ended(self) -> None:
        """Take note that the connection has ended; no worker becomes ready after that."""
        if not self.ready.is_set():
            self.fault = f"a worker process ended before it was ready; it wrote:\n{self.said()}"
            self.ready.set()

    def said(self) -> str:
        """Return the end of what the process wrote to its standard output and error."""
        path = self.folder.with_suffix(".txt")
        return path.read_text(errors="replace")[-2_000:] if path.exists() else ""

    def processes(self) -> dict[int, str]:
        """Return the processes that the worker's substrate has started."""
        return left.processes(self.run, self.pid)


class World:
    """The kit's side of one test; an asynchronous context manager.

    Args:
        factory: Makes the substrate in each worker.
        bounds: The bounds that the substrate declares.
        patience: Seconds to wait for anything that must happen in finite time.
        folder: An empty folder for the workers' temporary files.
    """

    def __init__(
        self, factory: SubstrateFactory, bounds: Bounds, patience: float, folder: Path
    ) -> None:
        self.bounds, self.patience = bounds, patience
        self._factory = factory
        self._folder = folder
        self._trials: dict[str, Trial] = {}
        self._tokens: dict[str, list[Trial]] = {}
        self._workers: dict[str, Worker] = {}
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.StreamWriter] = set()
        self.forks: Forks = forks(factory.path)
        self.store = WatchedStore(self._wrote)
        self.control = Host(store=self.store, interval=INTERVAL)
        """A Host without a substrate: the kit pauses, resumes and kills with it."""
        self.numbers = 0
        self.gone = set[str]()
        """The Hosts whose leases ended; they claim nothing any more."""

    async def __aenter__(self) -> Self:
        for serve in (self._take_calls, self._take_marks):
            self._servers.append(await asyncio.start_server(serve, "127.0.0.1", 0))
        await self.control.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for worker in list(self._workers.values()):
            await worker.kill()
        for trial in self._trials.values():
            trial.let_all_go()
        await self.control.close()
        for server in self._servers:
            server.close()
        for writer in list(self._connections):
            writer.transport.abort()
        for server in self._servers:
            await server.wait_closed()

    async def worker(self) -> Worker:
        """Start a worker, and wait until its Host is ready.

        Raises:
            RuleError: It did not become ready; the message holds what the process wrote.
        """
        self.numbers += 1
        folder = self._folder / f"worker-{self.numbers}"
        folder.mkdir()
        worker = Worker(self, self.numbers, folder)
        calls, marks = (server.sockets[0].getsockname()[1] for server in self._servers)
        worker.pid = self.forks.start(
            Orders(
                self._factory.path, self._factory.arguments, calls, worker.secret, self.bounds.held
            ),
            {
                ADDRESS: f"http://127.0.0.1:{marks}/{worker.secret}",
                RUN: worker.run,
                **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder)),
            },
            str(folder.with_suffix(".txt")),
        )
        # Only now: to kill process 0 would be to kill every process of this one's group.
        self._workers[worker.secret] = worker
        try:
            async with asyncio.timeout(self.patience):
                await worker.ready.wait()
        except TimeoutError:
            raise broken(
                "kit",
                f"a worker process was not ready within {self.patience:g} s; it wrote:\n"
                f"{worker.said()}",
            ) from None
        if worker.fault:
            raise broken("kit", worker.fault)
        return worker

    def trial(
        self,
        script: Script,
        task: Task,
        extras: Collection[str] = (),
        twin: Trial | None = None,
    ) -> Trial:
        """Begin to watch a Task, and the marks of its script and of these extras.

        Args:
            twin: A trial of the same script that goes on at the same time. A mark counts for the
                trial that has fewer of its token, because nothing else tells the two apart.
        """
        trial = Trial(script, task, self.patience)
        self._trials[task.id] = trial
        for token in dict.fromkeys([*tokens(script), *extras]):
            self._tokens[token] = [trial] if twin is None else [twin, trial]
        return trial

    async def expire(self, worker: Worker) -> None:
        """Declare a living worker's Host dead, as the end of its lease does."""
        self.gone.add(worker.host)
        await self.store.leave(worker.host)

    async def buried(self, worker: Worker) -> None:
        """Settle everything that a dead worker had begun."""
        if worker.peer is not None:
            worker.peer.close()
        if worker.host:
            await self.store.leave(worker.host)
        for trial in self._trials.values():
            trial.refuse(worker)
        left.end(worker.run, worker.pid)

    def _wrote(self, record: Record) -> None:
        trial = self._trials.get(record.task.id)
        if trial is not None:
            trial.wrote(record)

    async def _take_calls(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        link = _Link(self)
        link.peer = Peer(reader, writer, link.answer)
        try:
            await link.peer.serve()
        finally:
            self._connections.discard(writer)
            if link.worker is not None and link.worker.alive:
                link.worker.ended()
                await self.store.leave(link.worker.host)

    def greet(self, secret: str, peer: Peer) -> Worker:
        """Return the worker that says this secret."""
        worker = self._workers[secret]
        worker.peer = peer
        return worker

    def trial_of(self, task_id: str) -> Trial | None:
        """Return the trial of a Task."""
        return self._trials.get(task_id)

    async def _take_marks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, *fields = head.split("\r\n")
            length = next(
                (
                    int(f.partition(":")[2])
                    for f in fields
                    if f.lower().startswith("content-length")
                ),
                0,
            )
            body = await reader.readexactly(length)
            method, path, *_ = line.split(" ")
            _, secret, what, *rest = [*path.split("/"), ""]
            status = 404
            worker = self._workers.get(secret)
            if worker is not None and method == "POST":
                status = await self._do(worker, what, rest[0], body, reader)
            writer.write(_ANSWERS[status] + b"Content-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _do(
        self, worker: Worker, what: str, token: str, body: bytes, reader: asyncio.StreamReader
    ) -> int:
        if what == "held":
            worker.stack = body.decode(errors="replace")
            worker.held.set()
            for each in self._trials.values():
                each.held(worker.stack)
            return 200
        trials = self._tokens.get(token)
        if what != "mark" or trials is None:
            return 404
        trial = min(trials, key=lambda each: each.count(token))
        if not worker.alive:
            return 410
        trial.tell("asked", token, worker)  # At once, so that the next mark is counted right.
        answer = asyncio.ensure_future(trial.answer(worker, token))
        gone = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait([answer, gone], return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                trial.left(token, worker)
                answer.cancel()
                return 410
            return 200 if answer.result() else 409
        finally:
            for future in (answer, gone):
                future.cancel()
                with contextlib.suppress(asyncio.CancelledError, OSError):
                    await future


class _Link:
    """Answers the calls of one worker."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.worker: Worker | None = None
        self.peer: Peer | None = None

    async def answer(self, name: str, arguments: Sequence[Any]) -> Any:
        return await getattr(self, f"do_{name}")(*arguments)

    async def do_hello(self, secret: str) -> None:
        assert self.peer is not None
        self.worker = self._world.greet(secret, self.peer)

    async def do_failed(self, trace: str) -> None:
        assert self.worker is not None
        self.worker.fault = f"the factory failed in a worker process:\n{trace[-2_000:]}"
        self.worker.ready.set()

    async def do_ready(self, host: str) -> None:
        assert self.worker is not None
        self.worker.host = host
        self.worker.ready.set()

    async def do_join(self, host: str) -> None:
        assert self.worker is not None
        self.worker.host = host
        await self._world.store.join(host)

    async def do_leave(self, host: str) -> None:
        await self._world.store.leave(host)

    async def do_alive(self, owner: str) -> bool:
        return await self._world.store.alive(owner)

    async def do_insert(self, record: bytes, events: list[bytes]) -> None:
        await self._world.store.insert(decode_record(record), events)

    async def do_load(self, task_id: str) -> bytes:
        return encode_record(await self._world.store.load(task_id))

    async def do_load_many(self, task_ids: list[str]) -> list[bytes]:
        found = await self._world.store.load_many(task_ids)
        return [encode_record(record) for record in found.values()]

    async def do_commit(self, before: bytes, after: bytes, events: list[bytes]) -> None:
        worker, store = self.worker, self._world.store
        assert worker is not None
        earlier, later = decode_record(before), decode_record(after)
        trial = self._world.trial_of(later.task.id)
        if trial is None:
            await store.commit(earlier, later, events)
            return
        await trial.before(worker)
        if not worker.alive:
            return
        current = await store.load(later.task.id)
        await store.commit(earlier, later, events)
        trial.landed(worker, current, later, events)
        await trial.after(worker)

    async def do_claim(self, task_id: str, host: str, events: list[bytes]) -> bytes | None:
        worker = self.worker
        assert worker is not None
        if host in self._world.gone:
            raise HostGone(host)
        claimed = await self._world.store.claim(task_id, host, events)
        trial = self._world.trial_of(task_id)
        if claimed is not None and trial is not None:
            trial.claim(worker)
        return None if claimed is None else encode_record(claimed)

    async def do_events(
        self, task_id: str, after: list[int] | None, limit: int
    ) -> list[tuple[tuple[int, int], bytes]]:
        cursor = None if after is None else (after[0], after[1])
        found = await self._world.store.events(task_id, cursor, limit)
        return [((place[0], place[1]), text) for place, text in found]

    async def do_changed(self, versions: Mapping[str, int]) -> dict[str, int]:
        return dict(await self._world.store.changed(versions))

    async def do_find(self, options: dict[str, Any]) -> list[bytes]:
        if isinstance(options.get("after"), list):
            options["after"] = tuple(options["after"])
        return [encode_record(record) for record in await self._world.store.find(**options)]

    async def do_bury(
        self, task_id: str, version: int, events: list[bytes], force: bool, at: datetime | None
    ) -> bytes:
        store = self._world.store
        return encode_record(await store.bury(task_id, version, events, force=force, at=at))

    async def do_prune(self, ended_before: datetime, limit: int) -> int:
        return await self._world.store.prune(ended_before, limit)
