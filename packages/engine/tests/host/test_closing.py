"""The state that a Host leaves when it drains, closes or is interrupted."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

import agentic_kernel_engine as engine
from agentic_kernel import CannotStart, Task, TaskStatus
from agentic_kernel_engine import Event, HostClosed, Job, StoreTraits
from agentic_kernel_engine.host import resolver

from ..closing import closed, draining
from ..conftest import Acting, NewTask, TappedStore

Host = partial(engine.Host, grace=0)

PROGRAM = """
import asyncio, sys
from agentic_kernel import Task
from agentic_kernel_engine import Host, drain_on_signals

class Counting:
    async def execute(self, job):
        n = 0
        while True:
            n += 1
            await asyncio.sleep(0)
            await job.checkpoint(n)

async def main(pause):
    async with Host(Counting()) as host, drain_on_signals(host, pause=pause) as stopping:
        task = Task.new(summary="", instructions="", runtime_kind="k")
        await host.dispatch(task)
        print("ready", flush=True)
        await stopping.drained.wait()
        record = await host.record(task.id)
        print(stopping.signal.name, record.task.status, record.owner, record.step > 0, flush=True)

asyncio.run(main(sys.argv[1] == "pause"))
"""


async def test_nobody_waits_for_ever_on_a_host_that_closes(
    new_task: NewTask, acting: type[Acting]
) -> None:
    async def act(job: Job) -> Any:
        await asyncio.Event().wait()

    host = Host(acting(act), max_in_flight=1, grace=0)
    running, queued = new_task(), new_task()
    waits: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(host.run(task)) for task in (running, queued)
    ]

    async def read() -> list[Event]:
        return [event async for event in host.stream(running.id)]

    await asyncio.sleep(0.01)
    waits.append(asyncio.ensure_future(host.wait(running.id, TaskStatus.PAUSED)))
    waits.append(asyncio.ensure_future(read()))
    await asyncio.sleep(0.01)
    await host.close()
    ends = await asyncio.gather(*waits, return_exceptions=True)
    assert [type(end) for end in ends] == [HostClosed, CannotStart, HostClosed, HostClosed]
    assert [task.id for task in await host.find()] == [running.id]


async def test_a_result_that_comes_while_the_host_closes_is_kept(
    new_task: NewTask, acting: type[Acting]
) -> None:
    go = asyncio.Event()

    async def act(job: Job) -> Any:
        await go.wait()
        return "in time"

    host = Host(acting(act), grace=5)
    task = new_task()
    await host.dispatch(task)
    closing = asyncio.ensure_future(host.close())
    await asyncio.sleep(0)
    go.set()
    await closing
    assert (await host.get(task.id)).result == "in time"


async def test_a_draining_host_takes_nothing_up_again(
    new_task: NewTask, acting: type[Acting]
) -> None:
    entries = []

    async def act(job: Job) -> Any:
        entries.append(job.state)
        while True:
            await asyncio.sleep(0)
            await job.checkpoint("here")

    async with Host(acting(act), interval=0.001) as host:
        task = new_task()
        await host.dispatch(task)
        await host.drain()
        await asyncio.sleep(0.05)
        assert entries == [None]
        assert await host.recover() == []
        await host.pause(task.id)
        assert (await host.resume(task.id)).changed
        assert (await host.record(task.id)).owner is None


async def test_a_closed_host_takes_nothing_up_and_joins_no_store(
    acting: type[Acting], tapped: TappedStore
) -> None:
    async def act(job: Job) -> Any:
        raise AssertionError

    host = Host(acting(act), tapped)
    await host.close()
    with pytest.raises(HostClosed):
        await host.recover()
    with pytest.raises(HostClosed):
        await host.wait("unknown")
    with pytest.raises(HostClosed):
        await anext(host.watch("unknown"))
    assert not tapped.count("join")


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("number", "mode", "status"),
    [(signal.SIGINT, "pause", "paused"), (signal.SIGTERM, "release", "running")],
)
def test_a_signal_leaves_every_task_able_to_go_on(
    number: signal.Signals, mode: str, status: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, mode], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        said, _ = process.communicate(timeout=30)
    assert said == f"{number.name} {status} None True\n"
    assert process.returncode == 0


@pytest.mark.rule("R9")
@pytest.mark.parametrize("verb", ["dispatch", "resume", "claim"])
async def test_what_was_acquired_while_the_host_began_to_drain_does_not_run(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore, verb: str
) -> None:
    """Its Task is left claimable, and nothing of the host's lives on."""
    go_on = asyncio.Event()
    entries = 0

    async def act(job: Job) -> Any:
        nonlocal entries
        entries += 1
        await job.pause("paused") if job.state is None else await asyncio.Event().wait()

    async def held_up(*_: Any) -> None:
        reached.set()
        await go_on.wait()

    reached = asyncio.Event()
    task = new_task()
    host = Host(acting(act), tapped, claims=False)
    if verb != "dispatch":
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
    if verb == "claim":
        async with Host(store=tapped) as control:
            await control.resume(task.id)
    before = entries
    tapped.before_commit = held_up
    tapped.before_insert = lambda: held_up()
    tapped.before_claim = held_up
    calls: dict[str, Any] = {
        "dispatch": lambda: host.dispatch(task),
        "resume": lambda: host.resume(task.id),
        "claim": lambda: host.claim(task.id),
    }
    call = asyncio.create_task(calls[verb]())
    await reached.wait()
    closing = asyncio.create_task(host.close())
    await closed(host)
    tapped.before_commit = tapped.before_insert = tapped.before_claim = None
    go_on.set()
    await asyncio.wait([call, closing])
    record = await tapped.load(task.id)
    assert (record.task.status, record.owner) == (TaskStatus.RUNNING, None)
    for _ in range(10):
        await asyncio.sleep(0)
    assert entries == before


class Thinking:
    """A substrate that thinks over whether it accepts a Task, until it is to go on."""

    def __init__(self) -> None:
        self.thinks = asyncio.Event()
        self.go_on = asyncio.Event()

    async def accept(self, task: Task) -> None:
        self.thinks.set()
        await self.go_on.wait()

    async def execute(self, job: Job) -> str:
        return "done"


@pytest.mark.parametrize("verb", ["dispatch", "run"])
@pytest.mark.parametrize("shielded", [False, True])
async def test_what_the_substrate_accepts_when_the_host_drains_already_is_refused(
    new_task: NewTask, *, verb: str, shielded: bool
) -> None:
    substrate = Thinking()
    store = TappedStore() if shielded else engine.MemoryStore()
    host = Host(substrate, store, unwind_timeout=1, max_in_flight=1)
    starting = asyncio.ensure_future(getattr(host, verb)(new_task()))
    await substrate.thinks.wait()
    closing = asyncio.ensure_future(host.close())
    await draining(host, new_task())
    substrate.go_on.set()
    with pytest.raises(CannotStart, match="draining"):
        await starting
    await closing
    assert await store.find() == []


@pytest.mark.rule("R4")
@pytest.mark.parametrize("shielded", [False, True])
async def test_a_caller_who_gives_up_while_the_substrate_thinks_leaves_nothing(
    new_task: NewTask, *, shielded: bool
) -> None:
    substrate = Thinking()
    store = TappedStore() if shielded else engine.MemoryStore()
    async with Host(substrate, store, max_in_flight=1) as host:
        starting = asyncio.create_task(host.dispatch(new_task()))
        await substrate.thinks.wait()
        starting.cancel()
        await asyncio.wait([starting])
        substrate.go_on.set()
        assert await store.find() == []
        assert (await host.run(new_task())).result == "done", "a slot was lost"


async def test_a_host_that_closed_is_gone_from_its_store() -> None:
    store = engine.MemoryStore()
    async with engine.Host(store=store) as host:
        await host.recover()
        assert await store.alive(f"{host.name}:1")
    assert not await store.alive(f"{host.name}:1")


async def test_after_a_signal_the_caller_hears_when_the_host_has_drained() -> None:
    async with engine.Host() as host, engine.drain_on_signals(host) as stopping:
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(stopping.drained.wait(), 10)
        assert stopping.signal is signal.SIGTERM


async def test_a_signal_that_the_parent_had_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        async with engine.Host() as host, engine.drain_on_signals(host) as stopping:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0)
            assert (stopping.signal, signal.getsignal(signal.SIGINT)) == (None, signal.SIG_IGN)
            assert signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.rule("R1")
@pytest.mark.parametrize("pause", [False, True])
@pytest.mark.parametrize("meanwhile", [None, "resume", "kill"])
async def test_a_drain_writes_nothing_for_a_run_that_has_let_its_task_go_and_still_cleans_up(
    new_task: NewTask,
    acting: type[Acting],
    caplog: pytest.LogCaptureFixture,
    *,
    pause: bool,
    meanwhile: str | None,
) -> None:
    cleaning, go_on = asyncio.Event(), asyncio.Event()

    async def act(job: Job) -> Any:
        try:
            await job.pause("acme/asked")
        finally:
            cleaning.set()
            await go_on.wait()

    store = engine.MemoryStore()
    task = new_task()
    async with Host(acting(act), store) as host, Host(store=store) as control:
        await host.dispatch(task)
        await cleaning.wait()
        if meanwhile is not None:
            await getattr(control, meanwhile)(task.id)
        before = await store.load(task.id)
        draining = asyncio.create_task(host.drain(pause=pause, timeout=0))
        await asyncio.sleep(0.01)
        go_on.set()
        await draining
        assert await store.load(task.id) == before
    assert not caplog.records


class Gated(TappedStore):
    """A store whose joins and leaves wait until they are to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()

    async def join(self, host: str) -> None:
        await super().join(host)
        await self.go_on.wait()

    async def leave(self, host: str) -> None:
        await self.go_on.wait()
        await super().leave(host)


async def turns() -> None:
    """Let the coroutines that can go on do so."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("verb", ["dispatch", "recover", "wait"])
async def test_a_host_that_is_closed_while_it_joins_its_store_does_not_live_on(
    new_task: NewTask, acting: type[Acting], verb: str
) -> None:
    async def act(job: Job) -> Any:
        raise AssertionError

    store = Gated()
    host = Host(acting(act), store)
    calls: dict[str, Any] = {
        "dispatch": lambda: host.dispatch(new_task()),
        "recover": host.recover,
        "wait": lambda: host.wait("unknown"),
    }
    others = asyncio.all_tasks()
    call = asyncio.create_task(calls[verb]())
    await turns()
    closing = asyncio.create_task(host.close())
    await turns()
    store.go_on.set()
    await closing
    with pytest.raises(HostClosed):
        await call
    await turns()
    assert asyncio.all_tasks() == others
    assert not await store.alive(f"{host.name}:1")
    assert await store.find() == []


async def test_a_host_whose_join_outlasts_its_close_leaves_the_store_again() -> None:
    class Late(engine.MemoryStore):
        async def join(self, host: str) -> None:
            await go_on.wait()
            self._left.discard(host)  # The store began the join before the leave.
            await super().join(host)

    go_on, store = asyncio.Event(), Late()
    host = Host(store=store, unwind_timeout=0.01)
    others = asyncio.all_tasks()
    call = asyncio.create_task(host.recover())
    await turns()
    await host.close()
    go_on.set()
    with pytest.raises(HostClosed):
        await call
    await turns()
    assert asyncio.all_tasks() == others
    assert not await store.alive(f"{host.name}:1")


@pytest.mark.parametrize("verb", ["dispatch", "run", "spawn", "step"])
async def test_a_host_that_is_closed_while_its_resolver_thinks_joins_no_store(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore, verb: str
) -> None:
    async def act(job: Job) -> Any:
        raise AssertionError

    async def acts_for(name: str, tenant: str) -> engine.Principal:
        asked.set()
        await go_on.wait()
        return user

    asked, go_on, user = asyncio.Event(), asyncio.Event(), engine.Principal("user:1")
    host = Host(acting(act), tapped, acts_for=acts_for)
    given = [new_task(), "parent"] if verb == "spawn" else [new_task()]
    call = asyncio.ensure_future(getattr(host, verb)(*given, principal=user))
    await asked.wait()
    await host.close()
    go_on.set()
    with pytest.raises(HostClosed):
        await call
    assert await tapped.find() == []
    assert not tapped.count("join")


async def test_every_close_waits_until_the_host_has_left_its_store() -> None:
    store = Gated()
    host = Host(store=store)
    store.go_on.set()
    await host.recover()
    store.go_on.clear()
    calls = [asyncio.create_task(host.close()) for _ in range(2)]
    await closed(host)
    calls.append(asyncio.create_task(host.close()))
    await turns()
    assert not any(call.done() for call in calls)
    store.go_on.set()
    await asyncio.gather(*calls)
    assert not await store.alive(f"{host.name}:1")


async def test_a_resolver_that_ignores_its_cancellation_does_not_hold_up_a_close(
    new_task: NewTask, acting: type[Acting]
) -> None:
    async def act(job: Job) -> Any:
        await asyncio.Event().wait()

    async def acts_for(name: str, tenant: str) -> None:
        asked.set()
        while not go_on.is_set():
            with suppress(asyncio.CancelledError):
                await go_on.wait()

    asked, go_on, store = asyncio.Event(), asyncio.Event(), engine.MemoryStore()
    async with Host(acting(act), store) as first:
        await first.dispatch(new_task(), principal=engine.Principal("user:1"))
    host = Host(acting(act), store, acts_for=acts_for, unwind_timeout=0.01)
    others = asyncio.all_tasks()
    await host.__aenter__()
    await asked.wait()
    try:
        async with asyncio.timeout(5):
            await host.close()
        assert not await store.alive(f"{host.name}:1")
    finally:
        go_on.set()
    await asyncio.wait(asyncio.all_tasks() - others)


@pytest.mark.rule("R9")
async def test_a_clock_that_fails_at_a_dispatch_costs_no_slot(
    new_task: NewTask, acting: type[Acting]
) -> None:
    async def act(job: Job) -> Any:
        return "done"

    def clock() -> datetime:
        if faults:
            raise faults.pop()
        return datetime.now(UTC)

    faults: list[Exception] = []
    async with engine.Host(acting(act), clock=clock, max_in_flight=1) as host:
        faults.append(OSError("no clock"))
        with pytest.raises(OSError, match="no clock"):
            await host.dispatch(new_task())
        assert (await host.dispatch(new_task())).changed


class Failing(engine.MemoryStore):
    """A store whose leaves and commits raise these faults, one at each call."""

    def __init__(self) -> None:
        super().__init__()
        self.at_leave: list[BaseException] = []
        self.at_commit: list[BaseException] = []

    async def leave(self, host: str) -> None:
        if self.at_leave:
            raise self.at_leave.pop()
        await super().leave(host)

    async def commit(self, *given: Any) -> None:
        if self.at_commit:
            raise self.at_commit.pop()
        await super().commit(*given)


async def test_a_close_leaves_a_store_that_fails_for_a_moment() -> None:
    store = Failing()
    async with Host(store=store) as host:
        store.at_leave.append(engine.StoreError("no answer"))
    assert not await store.alive(f"{host.name}:1")


@pytest.mark.parametrize(
    ("faults", "raised"),
    [
        ([partial(engine.StoreError, "no answer")] * 6, engine.StoreError),
        ([asyncio.CancelledError] * 6, engine.UnknownOutcome),
        ([SystemExit] * 6, engine.UnknownOutcome),
        ([OSError] * 2, OSError),
    ],
    ids=["StoreError", "CancelledError", "SystemExit", "OSError"],
)
async def test_a_close_that_could_not_leave_the_store_raises_and_can_be_tried_again(
    faults: list[Callable[[], BaseException]], raised: type[Exception]
) -> None:
    store = Failing()
    host = Host(store=store)
    await host.recover()
    store.at_leave = [fault() for fault in faults]
    for _ in range(2):
        with pytest.raises(raised):
            await host.close()
        assert await store.alive(f"{host.name}:1")
    await host.close()
    assert not await store.alive(f"{host.name}:1")
    await host.close()


@pytest.mark.parametrize(
    "fault", [asyncio.CancelledError, RuntimeError], ids=["CancelledError", "RuntimeError"]
)
async def test_a_store_that_faults_while_a_close_lets_a_run_go_does_not_end_the_close(
    new_task: NewTask,
    acting: type[Acting],
    caplog: pytest.LogCaptureFixture,
    fault: type[BaseException],
) -> None:
    async def act(job: Job) -> Any:
        await asyncio.Event().wait()

    store, task = Failing(), new_task()
    host = Host(acting(act), store)
    others = asyncio.all_tasks()
    await host.dispatch(task)
    await turns()
    store.at_commit.append(fault())
    await host.close()
    assert asyncio.all_tasks() == others
    assert not await store.alive(f"{host.name}:1")
    assert ("letting the Task go failed" in caplog.text) is (fault is RuntimeError)


async def test_a_store_that_cannot_stop_its_notifications_does_not_end_a_close(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Loud(engine.MemoryStore):
        traits = StoreTraits(listens=True)

        def listen(self, tell: Callable[[str], None]) -> Callable[[], None]:
            return stop

    def stop() -> None:
        raise OSError("odd")

    store = Loud()
    others = asyncio.all_tasks()
    async with Host(store=store) as host:
        pass
    assert asyncio.all_tasks() == others
    assert not await store.alive(f"{host.name}:1")
    assert any("could not stop its notifications" in record.message for record in caplog.records)


class Deaf:
    """A resolver that ignores its cancellation until it is to go on."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.asked = asyncio.Event()

    async def __call__(self, name: str, tenant: str) -> None:
        self.asked.set()
        while not self.go_on.is_set():
            with suppress(asyncio.CancelledError):
                await self.go_on.wait()


async def stored_for(
    user: engine.Principal, store: engine.MemoryStore, task: Task, verb: str
) -> None:
    """Leave a Task of this principal in a store, on which the verb can act."""

    class Pausing:
        async def execute(self, job: Job) -> None:
            await job.pause("acme/asked")

    async with Host(Pausing(), store) as host:
        await host.dispatch(task, principal=user)
        await host.wait(task.id, TaskStatus.PAUSED)
    if verb in ("claim", "recover"):
        async with Host(store=store) as control:
            await control.resume(task.id)


def called(
    host: engine.Host, verb: str, stored: Task, new: Task, user: engine.Principal
) -> asyncio.Future[Any]:
    """A call of a verb of the Host that asks the resolver."""
    calls: dict[str, Any] = {
        "claim": lambda: host.claim(stored.id),
        "dispatch": lambda: host.dispatch(new, principal=user),
        "recover": host.recover,
        "resume": lambda: host.resume(stored.id),
        "run": lambda: host.run(new, principal=user),
    }
    call: asyncio.Future[Any] = asyncio.ensure_future(calls[verb]())
    return call


@pytest.mark.rule("R19")
@pytest.mark.parametrize("verb", ["claim", "dispatch", "recover", "resume", "run"])
async def test_a_resolver_that_ignores_its_cancellation_counts_as_none_when_its_time_is_up(
    new_task: NewTask, acting: type[Acting], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    async def act(job: Job) -> Any:
        raise AssertionError

    monkeypatch.setattr(resolver, "RESOLVING", 0.02)
    user, store, task, deaf = engine.Principal("user:1"), engine.MemoryStore(), new_task(), Deaf()
    await stored_for(user, store, task, verb)
    others = asyncio.all_tasks()
    host = Host(acting(act), store, acts_for=deaf, claims=False, unwind_timeout=0.01)
    call = called(host, verb, task, new_task(), user)
    try:
        await asyncio.wait([call], timeout=2)
        assert deaf.asked.is_set()
        assert call.done()
    finally:
        deaf.go_on.set()
        await asyncio.wait([call])
    if verb == "recover":
        assert call.result() == []
    elif verb == "resume":
        assert call.result().changed
    else:
        assert isinstance(call.exception(), CannotStart)
    await host.close()
    await turns()
    assert asyncio.all_tasks() == others


@pytest.mark.parametrize("verb", ["claim", "dispatch", "recover", "resume", "run"])
async def test_a_close_ends_what_waits_for_a_resolver_that_ignores_its_cancellation(
    new_task: NewTask, acting: type[Acting], verb: str
) -> None:
    async def act(job: Job) -> Any:
        raise AssertionError

    user, store, task, deaf = engine.Principal("user:1"), engine.MemoryStore(), new_task(), Deaf()
    await stored_for(user, store, task, verb)
    before = await store.load(task.id)
    host = Host(acting(act), store, acts_for=deaf, claims=False, unwind_timeout=0.5)
    call = called(host, verb, task, new_task(), user)
    await deaf.asked.wait()
    try:
        await host.close()
        await asyncio.wait([call], timeout=0.5)
        assert call.done()
        if verb == "recover":
            assert call.result() == []
        else:
            assert isinstance(call.exception(), HostClosed)
        assert await store.load(task.id) == before
    finally:
        deaf.go_on.set()
        await asyncio.wait([call])
