"""Contest: a recorded history of one Task, with several Hosts over one store and racing callers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from agentic_kernel import Failure, Task
from agentic_kernel_engine import Host, Job, Receipt, Record, RunEnded, Store, StoreError

from .history import UNKNOWN, Operation, Recorder, Told, View, snapshot, succeeded_with, view_of
from .races import Script
from .wire import Wire

KIND = "contest"
STEP = "contest.step"
"""The event in every commit of a run; it names the run and its step."""
_NEVER = 3600.0
_STEPS = 10_000
"""The most safe points of a run after the history is over; its Host stops it much earlier."""
_ABANDONED = 10.0
"""The most seconds that the callers and Hosts of a history with an error get to end."""


class Contest:
    """One history over a store; `run` plays it and returns the record that it leaves.

    The contest itself waits for no clock. So over a store in memory the same seed nearly always
    gives the same history; only the waits and the stamps of the Hosts can differ.

    Args:
        store: The store of the Task; contests on other Tasks may share it.
        script: The race, its sizes, and all random decisions of the history.
        clock: Shared by all recorders of one history; None makes a counter.
        part: A prefix of the names, unique among the contests on one Task.
        host: Makes the Hosts; only the kit's own tests pass another factory than `Host`.
    """

    def __init__(
        self,
        store: Store,
        script: Script,
        *,
        clock: Callable[[], int] | None = None,
        part: str = "",
        host: Callable[..., Host] = Host,
    ) -> None:
        self.store = store
        self.script = script
        self.recorder = Recorder(clock, unknown=(StoreError,))
        self.given: list[tuple[str, int, View]] = []
        """The snapshots that callers got: the rule that each must keep, its version, its view."""
        self.dead: set[str] = set()
        """The names of the Hosts that were declared dead during the history."""
        self.task = Task.new(
            summary="", instructions="", runtime_kind=KIND, id=f"contest-{script.seed}"
        )
        wire = Wire(store, script)
        self._host = partial(
            host, self, wire, interval=_NEVER, claims=False, grace=5.0, unwind_timeout=5.0,
            max_attempts=None,  # No limit: no history is about a Task that ends its workers.
        )  # fmt: skip
        self._part = part
        self._extras = count()
        self._runs = count()
        self._born, self._over = asyncio.Event(), asyncio.Event()

    @property
    def history(self) -> list[Operation]:
        """The recorded operations, in order of their calls."""
        return self.recorder.operations

    async def run(self) -> Record:
        """Play the history and return the last record of the Task.

        Every Host is closed when `run` returns or raises, so that no task of this history is left
        to a closing event loop.
        """
        hosts = await self._open(self.script.hosts)
        try:
            await self._play(hosts, self.script.race.dispatchers)
            if self.script.happens(0.8):
                await self._do("the last", "kill", None, hosts[0].kill(self.task.id))
            await self._close(hosts)
        except BaseException:
            await self._abandon(hosts)
            raise
        control = Host(store=self.store, interval=_NEVER)
        await self._read("at the end", control)
        await control.close()
        return await self.store.load(self.task.id)

    async def join(self, *, dispatches: bool) -> None:
        """Play one part of a history that several processes share."""
        hosts = await self._open(1)
        try:
            if not dispatches:
                await self._until_stored()
            await self._play(hosts, int(dispatches))
            await self._close(hosts)
        except BaseException:
            await self._abandon(hosts)
            raise

    async def _open(self, many: int) -> list[Host]:
        hosts = [self._host() for _ in range(many)]
        for host in hosts:
            await host.__aenter__()
        return hosts

    async def _play(self, hosts: list[Host], dispatchers: int) -> None:
        if dispatchers != 1:
            self._born.set()
        names = (f"{self._part}caller {n}" for n in range(self.script.callers))
        callers = [
            asyncio.create_task(self._caller(name, hosts, n < dispatchers))
            for n, name in enumerate(names)
        ]
        try:
            await asyncio.gather(*callers)
        except BaseException:
            for caller in callers:
                caller.cancel()
            await asyncio.wait(callers, timeout=_ABANDONED)
            raise

    async def _close(self, hosts: list[Host]) -> None:
        closing = [asyncio.create_task(host.close()) for host in hosts]
        await asyncio.sleep(0)
        self._over.set()
        await asyncio.gather(*closing)

    async def _abandon(self, hosts: list[Host]) -> None:
        """Close the Hosts of a history that ended with an error, whatever else they raise."""
        self._over.set()  # no substrate waits for the end any more
        closing = [asyncio.create_task(host.close()) for host in hosts]
        done, late = await asyncio.wait(closing, timeout=_ABANDONED)
        for each in late:
            each.cancel()
        for each in done:
            if not each.cancelled():
                each.exception()  # the error that ended the history is the finding

    async def _until_stored(self) -> None:
        while not await self.store.load_many([self.task.id]):  # noqa: ASYNC110
            await asyncio.sleep(0.0005)

    async def execute(self, job: Job) -> Any:
        """Execute as the substrate: record safe points and commits, then return the run's name."""
        run = next(self._runs)
        name, entry = f"{self._part}run {run}", tuple(job.task.supplements)
        stubborn, interrupted = self.script.happens(0.2), False
        last = self.script.chance.randint(0, self.script.race.steps)
        step = job.state or 0
        while step < last:
            step += 1
            try:
                for _ in range(self.script.stride()):
                    await asyncio.sleep(0)
                await self._step(job, name, entry, step, interrupted)
            except asyncio.CancelledError:
                if not stubborn or interrupted:
                    raise
                interrupted = True  # a substrate that swallows its cancellation, once
        if len(self.recorder) >= self.script.size or self.script.happens(0.4):
            await self._over.wait()  # the Host may stop the run first
            for _ in range(_STEPS):
                step += 1
                await self._step(job, name, entry, step, interrupted)
        for _ in range(self.script.lingers()):
            await asyncio.sleep(0)
        self.recorder.begin(name, "finish", (entry, succeeded_with(name)))
        return name

    async def _step(
        self, job: Job, name: str, entry: tuple[str, ...], step: int, interrupted: bool
    ) -> None:
        safe = self.script.happens(0.8)
        verb, write = ("checkpoint", job.checkpoint) if safe else ("commit", job.commit)
        number = self.recorder.begin(name, verb, entry)
        try:
            await write(step, [{"type": STEP, "run": name, "step": step}])
        except RunEnded as ended:
            # After a swallowed cancellation the reason belongs to an earlier call.
            told = {"paused": "paused", "released": "kept"}.get(ended.reason, "lost")
            self.recorder.end(number, "lost" if interrupted else told)
            raise
        except StoreError:
            return  # the outcome is unknown; a substrate may go on
        self.recorder.end(number, "kept")

    async def _caller(self, name: str, hosts: list[Host], dispatches: bool) -> None:
        script = self.script
        if dispatches:
            told = UNKNOWN
            while told in (UNKNOWN, "lost"):
                host = script.chance.choice(hosts)
                told = await self._do(name, "dispatch", None, host.dispatch(self.task))
            self._born.set()
        await self._born.wait()
        while len(self.recorder) < script.size:
            for _ in range(script.turns()):
                await asyncio.sleep(0)
            host = script.chance.choice(hosts)
            if len(self.dead) < len(hosts) - 1 and script.happens(script.race.deaths):
                await self._lose(script.chance.choice(hosts))
            await self._verb(name, script.verb(len(self.recorder)), host)

    async def _lose(self, host: Host) -> None:
        """Declare the Host dead to the others; the Host does not know, and goes on."""
        if host.name not in self.dead:
            self.dead.add(host.name)
            await self.store.leave(host.name)

    async def _verb(self, name: str, verb: str, host: Host) -> None:
        task_id = self.task.id
        if verb == "get":
            await self._read(name, host)
        elif verb == "claim":
            await self._claim(name, host)
        elif verb == "resume":
            extra = f"{self._part}{next(self._extras)}"
            await self._do(name, verb, extra, host.resume(task_id, extra))
        elif verb == "complete":
            result = f"by {name}"
            identity = succeeded_with(result)
            await self._do(name, verb, identity, host.complete(task_id, result))
        elif verb == "fail":
            code = f"contest/{name.replace(' ', '_')}"
            await self._do(name, verb, code, host.fail(task_id, Failure(code, "as it goes")))
        else:
            await self._do(name, verb, None, getattr(host, verb)(task_id))

    async def _do(self, name: str, verb: str, argument: Any, call: Any) -> str:
        """Record one verb and return its effect; it is `UNKNOWN` if there was no answer."""
        if (self.dead or self._part) and verb == "pause":
            # The Host that takes over from a dead Host commits a pause that still waits.
            self.recorder.begin("a heir", "honour")
        number = self.recorder.begin(name, verb, argument)
        recorded = asyncio.create_task(self.recorder.settle(number, call, self._receipt))
        # The call has not started if the history ended before the task began.
        recorded.add_done_callback(lambda _: call.close())
        if self.script.happens(self.script.race.cancelled):
            for _ in range(self.script.chance.randint(1, 6)):
                await asyncio.sleep(0)
            recorded.cancel()
        try:
            await asyncio.wait([recorded])
        except asyncio.CancelledError:
            recorded.cancel()
            await asyncio.wait([recorded], timeout=_ABANDONED)
            raise
        if not recorded.cancelled():
            recorded.result()
        return self.recorder.effect(number)

    async def _read(self, name: str, host: Host) -> None:
        record = await self.recorder.call(
            name, "get", None, host.record(self.task.id), lambda record: snapshot(record.task)
        )
        if record is not None:
            self.given.append(("C3", record.version, view_of(record.task)))

    async def _claim(self, name: str, host: Host) -> None:
        self.recorder.begin("a heir", "honour")
        await self.recorder.call(
            name, "get", None, host.claim(self.task.id), lambda receipt: self._claimed(receipt)
        )

    def _claimed(self, receipt: Receipt) -> Told:
        self.given.append(("C2", receipt.version, view_of(receipt.snapshot)))
        return snapshot(receipt.snapshot)

    def _receipt(self, receipt: Receipt) -> Told:
        self.given.append(("C2", receipt.version, view_of(receipt.snapshot)))
        return receipt.effect, receipt.snapshot
