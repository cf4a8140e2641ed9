"""Scout: finds the executions and the remote steps that this process is to take.

A Task that waits for an agent or a runner is paused and due. The processes of one server look for
such Tasks; one of them takes each, by a conditional write. A store that reports writes makes the
next look come sooner.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from agentic_kernel import KernelError, TaskStatus
from agentic_kernel_engine import Record, StoreError
from agentic_kernel_engine.faults import log, said

from .agents.consumers import Consumer, Key
from .executions import requests as r
from .executions.encoding import KIND, TOOL_KIND, input_of
from .executions.run import key_of
from .executions.state import State, decoded
from .executions.taking import PATIENCE, held, take, wish
from .executions.vigil import Vigil
from .identity import agent_id, agent_name, tool_id
from .parts import Parts
from .tools import jobs

_log = logging.getLogger(__name__)
_PAGE: Final = 200
_GAP: Final = 0.002
"""The least number of seconds between two looks."""
_OVERDUE: Final = 2.0
"""Seconds after which any process takes a Task whose time is over."""
_OFTEN: Final = 2
_SELDOM: Final = 5
"""Intervals between two searches: of a store that reports writes, fewer searches are enough."""
_REMEMBERED: Final = 10_000
_PRUNE_EVERY: Final = 600.0


class Scout:
    """Looks for Tasks that this process is to take.

    Args:
        parts: The parts that the server shares.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._heard = asyncio.Event()
        self._named: set[str] = set()
        """The Tasks that the store reported since the last look."""
        self._searches = True
        """True if the next look is to search the store, and not only to read these Tasks."""
        self._after: dict[str, str | None] = {}
        self._seen: dict[str, float] = {}
        """The moment at which a Task without an owner was first seen, by id."""
        self._deaf: Callable[[], None] | None = None

    def hurry(self) -> None:
        """Search at once."""
        self._searches = True
        self._heard.set()

    async def keep(self) -> None:
        """Look until the server stops."""
        parts = self._parts
        self._listen()
        listens = parts.store.traits.listens
        pause = parts.settings.interval * (_SELDOM if listens else _OFTEN)
        pruned, searched = parts.now(), 0.0
        try:
            while not parts.draining:
                try:
                    if self._searches or time.monotonic() - searched >= pause:
                        self._searches, searched = False, time.monotonic()
                        await self._look()
                    else:
                        await self._look_at_named()
                    if parts.now() - pruned >= _PRUNE_EVERY:
                        pruned = parts.now()
                        before = datetime.now(UTC) - timedelta(seconds=parts.settings.retention)
                        await parts.store.prune(before)
                except KernelError as fault:
                    _log.warning(
                        "the store could not be searched and is tried again: %s", said(fault)
                    )
                except Exception as fault:
                    log(_log, fault, "a look of the server failed; it looks again")
                # News that comes in a burst makes one look after the first.
                await asyncio.sleep(_GAP)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._heard.wait()
                self._heard.clear()
        finally:
            if self._deaf is not None:
                self._deaf()

    def _listen(self) -> None:
        store = self._parts.store
        if not store.traits.listens:
            return
        loop = asyncio.get_running_loop()

        parts = self._parts

        def tell(task_id: str) -> None:
            # A Task that runs here is no news for the scout.
            if task_id not in parts.runs and task_id not in parts.jobs and not loop.is_closed():
                loop.call_soon_threadsafe(self._hear, task_id)

        self._deaf = store.listen(tell)  # type: ignore[attr-defined]

    def _hear(self, task_id: str) -> None:
        if len(self._named) < _PAGE:
            self._named.add(task_id)
        else:
            self._searches = True
        self._heard.set()

    async def _look_at_named(self) -> None:
        """Read the Tasks that the store reported: a search may have to pass over many others."""
        named, self._named = self._named, set()
        for record in (await self._parts.store.load_many(named)).values():
            status, due = record.task.status, record.due_at
            waits = status is TaskStatus.PAUSED and due is not None and due <= datetime.now(UTC)
            if waits or (status is TaskStatus.RUNNING and record.owner is None):
                await self.consider(record)

    async def _look(self) -> None:
        now = datetime.now(UTC)
        for name, options in (
            ("due", {"status": TaskStatus.PAUSED, "due": now}),
            ("claimable", {"claimable": True}),
        ):
            page = await self._parts.store.find(
                kinds={KIND, TOOL_KIND}, after=self._after.get(name), limit=_PAGE,
                **options,
            )  # fmt: skip
            self._after[name] = page[-1].task.id if len(page) == _PAGE else None
            for record in page:
                await self.consider(record)

    async def consider(self, record: Record) -> None:
        """Take a Task that waits for a process, if it is for this one."""
        task = record.task
        if task.id in self._parts.runs or task.id in self._parts.jobs:
            return
        try:
            wanted = (
                self._wants_job(record) if task.runtime_kind == TOOL_KIND else (self._wants(record))
            )
        except ValueError as damage:
            _log.warning("the state of %s cannot be read: %s", task.id, said(damage))
            return
        if wanted:
            self._seen.pop(task.id, None)
            await take(self._parts, record)

    def _wants(self, record: Record) -> bool:
        state = decoded(record.state)
        key = key_of(record.task, state)
        agents = self._parts.agents
        if key is not None and agents.find(key) is not None:
            return True
        if self._overdue(record, state):
            return True
        if record.inbox and self._waited(record, 0.0 if key is None else _OVERDUE):
            return True  # A request waits, and every process can carry it out.
        agent = agent_id(record.task.agent_name)
        if not agents.of(record.realm, agent):
            return False
        if key is None:
            return True
        return self._patient(record, key, agents.vanished)

    def _overdue(self, record: Record, state: State | None) -> bool:
        if state is None:
            given = record.task.metadata.get("server/timeout")
            seconds = self._parts.settings.execution_timeout
            if isinstance(given, (int, float)):
                seconds = float(given)
            until = record.task.created_at.timestamp() + seconds
        else:
            until = state.next_deadline()
        return self._parts.now() >= until + (0.0 if state is None else _OVERDUE)

    def _patient(self, record: Record, key: Key, lost: Callable[[Key], None]) -> bool:
        """True if the consumer that has the Task did not come back within the grace."""
        if not self._waited(record, self._parts.settings.agent_timeout):
            return False
        lost(key)
        return True

    def _waited(self, record: Record, seconds: float) -> bool:
        """True if the Task was first seen without an owner so many seconds ago."""
        now, task_id = self._parts.now(), record.task.id
        if task_id not in self._seen and len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        return now - self._seen.setdefault(task_id, now) >= seconds

    def _wants_job(self, record: Record) -> bool:
        runners, tenant = self._parts.runners, record.realm
        state = _job_state(record)
        if state is not None and state.attempt is not None:
            key = Key(tenant, state.attempt.runner, state.attempt.consumer)
            if runners.find(key) is not None:
                return True
            return self._patient(record, key, runners.vanished)
        if record.inbox and self._waited(record, 0.0 if state is None else _OVERDUE):
            return True
        tool = tool_id(record.task.agent_name)
        if runners.find_idle(tenant, tool) is not None:
            return True
        if record.task.status is TaskStatus.RUNNING:
            return self._patient(record, Key(tenant, "", ""), lambda key: None)
        return self._parts.now() >= _deadline(record)

    async def agent_came(self, consumer: Consumer) -> None:
        """Take the executions of the consumer that opened a stream, and those that wait."""
        await self._patiently(consumer, self._agent_came)

    async def runner_came(self, consumer: Consumer) -> None:
        """Take the jobs of the consumer that opened a stream."""
        await self._patiently(consumer, self._runner_came)

    async def _patiently(
        self, consumer: Consumer, work: Callable[[Consumer], Awaitable[None]]
    ) -> None:
        """Do work for a stream, also if the store fails for a while."""
        for delay in PATIENCE:
            try:
                await work(consumer)
                return
            except StoreError as fault:
                _log.warning("work for %s is done later: %s", consumer.key.consumer, said(fault))
            await asyncio.sleep(delay)
            if not consumer.open:
                return

    async def _agent_came(self, consumer: Consumer) -> None:
        key = consumer.key
        for status in (TaskStatus.RUNNING, TaskStatus.PAUSED):
            after: str | None = None
            while not self._parts.draining:
                page = await self._parts.store.find(
                    kinds={KIND}, realms={key.tenant}, agent=agent_name(key.group), status=status,
                    after=after, limit=_PAGE,
                )  # fmt: skip
                for record in page:
                    await self._reconnect(record, consumer)
                if len(page) < _PAGE:
                    break
                after = page[-1].task.id

    async def _reconnect(self, record: Record, consumer: Consumer) -> None:
        parts, task_id, key = self._parts, record.task.id, consumer.key
        run = parts.runs.get(task_id)
        state = decoded(record.state)
        if run is not None:
            if run.key == key and run.stream is not consumer:
                run.box.put(r.Reconnected(key.consumer))
            elif run.key != key and key.consumer in run.state.former:
                consumer.push("execution.cancelled", {"execution_id": task_id})
            return
        if key_of(record.task, state) != key:
            if state is not None and key.consumer in state.former:
                # Its session is lost, and its handler may still run.
                consumer.push("execution.cancelled", {"execution_id": task_id})
            if record.owner is None and (state is None or state.session is None):
                await take(parts, record)
            return
        if record.owner is not None and await parts.store.alive(record.owner):
            Vigil.begin(parts, task_id, key, current=False)
            return
        vigil = parts.vigils.get(task_id)
        if vigil is not None:
            vigil.current = False  # The new stream may have missed something.
        if held(record):
            # A person lets it go on, or cancels it, which this consumer is then told.
            Vigil.begin(parts, task_id, key, current=False)
            return
        await take(parts, record)

    async def _runner_came(self, consumer: Consumer) -> None:
        key = consumer.key
        after: str | None = None
        while not self._parts.draining:
            page = await self._parts.store.find(
                kinds={TOOL_KIND}, realms={key.tenant}, status=TaskStatus.RUNNING,
                after=after, limit=_PAGE,
            )  # fmt: skip
            for record in page:
                state = _job_state(record)
                if state is None or state.attempt is None or record.task.id in self._parts.jobs:
                    continue
                if state.attempt.consumer == key.consumer and record.owner is not None:
                    back = jobs.to_decision(jobs.Return(key.consumer), "")
                    await wish(self._parts, record.task.id, back)
            if len(page) < _PAGE:
                return
            after = page[-1].task.id


def _job_state(record: Record) -> jobs.JobState | None:
    return jobs.decoded(record.state)


def _deadline(record: Record) -> float:
    return float(input_of(record.task)["deadline"])
