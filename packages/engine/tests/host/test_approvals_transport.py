"""The Approvals transport: told after the pause is durable, at least once, and never in the way."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Host, Loop, Record
from agentic_kernel_engine.host.approvals_transport import Approvals, InMemoryApprovals, Request
from agentic_kernel_engine.host.desk import Desk
from agentic_kernel_engine.plans.action import FinalAnswer
from agentic_kernel_engine.seams.planners import ScriptedPlanner

from ..approving import AskForWrites, write
from ..conftest import Crash, TappedStore, Until
from ..crashing import Line
from ..delegating import Roles
from ..families import LEAVES, Spawning
from ..scripting import World, new_task


class Told:
    """A transport that takes note of what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Request]] = []

    async def wanted(self, request: Request) -> None:
        self.calls.append(("wanted", request))

    async def settled(self, request: Request) -> None:
        self.calls.append(("settled", request))

    async def withdrawn(self, request: Request) -> None:
        self.calls.append(("withdrawn", request))

    @property
    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.calls]


class Desks:
    """Hosts over one store, each with a transport of its own."""

    def __init__(self, world: World) -> None:
        self.store = TappedStore()
        self._world = world

    def host(self, approvals: Approvals | None, planner: Any = None, **options: Any) -> Host:
        planner = planner or ScriptedPlanner(write("a"), FinalAnswer("done"))
        loop = Loop(planner, self._world.tools(), AskForWrites())
        return Host(loop, Line(self.store), approvals=approvals, grace=0, interval=0.01, **options)

    def watcher(self, approvals: Approvals) -> Host:
        """A Host that runs nothing."""
        return Host(store=self.store, approvals=approvals, interval=0.001)


@pytest.fixture
def desks(world: World) -> Desks:
    return Desks(world)


async def test_a_request_says_what_why_and_where(desks: Desks, until: Until) -> None:
    told = Told()
    async with desks.host(told) as host:
        task = new_task()
        await host.dispatch(task)
        await until(lambda: told.calls)
        ((verb, request),) = told.calls
        paused = await host.get(task.id)
        note: Any = paused.metadata["engine/waiting_for"]
        assert verb == "wanted"
        assert request == Request(
            task.id, note["requests"][0]["digest"], "approval", task.id,
            action={"type": "tool_call", "tool": "write", "arguments": {"text": "a"}},
            reason="it writes",
        )  # fmt: skip
        await host.approve(request.task_id, request.digest)
        await host.wait(task.id)
        await until(lambda: len(told.calls) == 2)
    assert told.calls[1] == ("settled", request)


async def test_it_is_told_after_the_pause_is_durable_and_not_before(
    desks: Desks, until: Until
) -> None:
    told, landing, go = Told(), asyncio.Event(), asyncio.Event()

    async def hold(record: Record) -> None:
        if record.task.status is TaskStatus.PAUSED:
            landing.set()
            await go.wait()

    desks.store.before_commit = hold
    async with desks.host(told) as host:
        await host.dispatch(new_task())
        await landing.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        assert told.calls == []
        go.set()
        await until(lambda: told.calls)


async def test_a_question_is_a_request_too(desks: Desks, until: Until) -> None:
    told = Told()
    async with desks.host(told, Roles(**LEAVES)) as host:
        task = new_task(instructions="asks")
        await host.dispatch(task)
        await until(lambda: told.calls)
        request = told.calls[0][1]
        assert (request.kind, request.question) == ("question", "which?")
        await host.answer(task.id, "this")
        await host.wait(task.id)
        await until(lambda: told.verbs == ["wanted", "settled"])


async def test_what_was_read_before_it_was_asked_does_not_settle_it(
    desks: Desks, until: Until
) -> None:
    """The answer of the store may be late: of a pause that was answered, and another follows."""
    told = Told()
    planner = ScriptedPlanner(write("a"), write("b"), FinalAnswer("done"))
    async with desks.host(told, planner) as host:
        task = new_task()
        await host.dispatch(task)
        first = await host.wait(task.id, TaskStatus.PAUSED)
        await until(lambda: told.calls)
        late = await desks.store.load(task.id)
        assert late.task == first
        await host.approve(task.id, told.calls[0][1].digest)
        await until(lambda: told.verbs == ["wanted", "settled", "wanted"])
        assert host._desk is not None
        host._desk.saw(late)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(told.calls) == 3
        await host.approve(task.id, told.calls[2][1].digest)
        await host.wait(task.id)
        await until(lambda: len(told.calls) == 4)
    assert told.calls[3] == ("settled", told.calls[2][1])


async def test_what_was_decided_in_vain_is_wanted_again(desks: Desks, until: Until) -> None:
    """The decision is gone from the inbox, and the Task asks for the same once more."""
    told = Told()
    async with desks.host(told) as host:
        task = new_task()
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        asking = await desks.store.load(task.id)
        await until(lambda: told.calls)
        digest = told.calls[0][1].digest
        await host.approve(task.id, digest)
        await until(lambda: told.verbs == ["wanted", "settled"])
        desk = host._desk
        assert desk is not None
        for version in (asking.version, asking.version + 1, asking.version + 2):
            desk.saw(asking.changed(version=version))
        await until(lambda: len(told.calls) > 2)
        assert told.calls[2] == told.calls[0]


async def test_a_kill_withdraws_the_request(desks: Desks, until: Until) -> None:
    told = Told()
    async with desks.host(told) as host:
        task = new_task()
        await host.dispatch(task)
        await until(lambda: told.calls)
        await host.kill(task.id)
        await until(lambda: told.verbs == ["wanted", "withdrawn"])


async def test_what_is_not_asked_any_more_after_a_part_is_settled(
    desks: Desks, until: Until
) -> None:
    told = Told()
    async with desks.host(told, Roles(**LEAVES)) as host:
        task = new_task(instructions="writes a batch")
        await host.dispatch(task)
        await until(lambda: len(told.calls) == 2)
        one, other = (request for _, request in told.calls)
        await host.approve(task.id, one.digest)
        await until(lambda: ("settled", one) in told.calls)
        await host.wait(task.id, TaskStatus.PAUSED)
        await host.resume(task.id)
        await host.wait(task.id, TaskStatus.PAUSED)
        assert told.verbs == ["wanted", "wanted", "settled"], "a resume settles nothing"
        await host.deny(task.id, other.digest)
        await host.wait(task.id)
        await until(lambda: ("settled", other) in told.calls)
    assert len(told.calls) == 4


async def test_a_pause_by_a_process_that_died_is_told_by_the_next_that_looks(
    desks: Desks, crash: Crash, until: Until
) -> None:
    """Also by a Host that only watches; and it learns what others decided."""
    lost, seen = Told(), Told()
    first = desks.host(lost)
    task = new_task()
    await first.dispatch(task)
    await first.wait(task.id, TaskStatus.PAUSED)
    await crash(first)
    async with desks.watcher(seen) as watcher:
        await watcher.get(task.id)
        await until(lambda: seen.calls)
        async with desks.host(None) as second:
            await second.approve(task.id, seen.calls[0][1].digest)
            await second.wait(task.id)
        await until(lambda: seen.verbs == ["wanted", "settled"])


async def test_a_childs_request_is_told_for_the_root_in_the_end(desks: Desks, until: Until) -> None:
    approvals = InMemoryApprovals()
    async with desks.host(approvals, Spawning(3)) as host:
        task = new_task(instructions="writes")
        await host.dispatch(task)
        await until(lambda: [each.task_id for each in approvals.open] == [task.id])
        (request,) = approvals.open
        assert request.origin != task.id
        await host.approve(request.task_id, request.digest)
        assert (await host.wait(task.id)).result[0] == ""
        await until(lambda: approvals.open == [])


@pytest.mark.parametrize("times", range(5))
async def test_who_decides_at_once_for_a_child_leaves_no_parent_behind(
    desks: Desks, world: World, times: int
) -> None:
    """The parents may be on their way to a pause that nobody has to decide about any more."""

    class AtOnce(Told):
        async def wanted(self, request: Request) -> None:
            await host.approve(request.task_id, request.digest)

    async with desks.host(AtOnce(), Spawning(times % 4)) as host:
        task = new_task(instructions="writes twice")
        async with asyncio.timeout(20):
            assert (await host.run(task)).result == "both"
    assert world.done == ["write a", "write b"]


class Hostile(Told):
    """A transport that raises, is cancelled from within, or never returns."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self._way = way

    async def wanted(self, request: Request) -> None:
        await super().wanted(request)
        if self._way == "raises":
            raise RuntimeError("no connection")
        if self._way == "is cancelled":
            raise asyncio.CancelledError
        await asyncio.Event().wait()


@pytest.mark.parametrize("way", ["raises", "is cancelled", "blocks"])
async def test_a_transport_that_fails_never_touches_the_run(
    desks: Desks, way: str, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    told = Hostile(way)
    with caplog.at_level(logging.ERROR):
        async with desks.host(told) as host:
            task = new_task()
            await host.dispatch(task)
            await until(lambda: told.calls)
            await host.approve(task.id, told.calls[0][1].digest)
            assert (await host.wait(task.id)).result == "done"
    failures = [record for record in caplog.records if "transport" in record.message]
    assert len(failures) == (0 if way == "blocks" else 1)


@pytest.mark.parametrize("way", ["raises", "is cancelled"])
async def test_what_could_not_be_told_is_told_again(desks: Desks, way: str, until: Until) -> None:
    told = Hostile(way)
    async with desks.host(None) as host:
        task = new_task()
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        async with desks.watcher(told):
            await until(lambda: len(told.calls) >= 2)
    assert len({request.digest for _, request in told.calls}) == 1


async def test_a_host_tells_of_its_own_kinds_only(desks: Desks, until: Until) -> None:
    told = Told()
    async with desks.host(None) as host:
        paused = [new_task(), new_task(runtime_kind="other")]
        for task in paused:
            await host.dispatch(task)
            await host.wait(task.id, TaskStatus.PAUSED)
        async with desks.host(told, runtime_kinds=["other"], claims=False) as other:
            await other.get(paused[1].id)
            await until(lambda: told.calls)
    assert [request.task_id for _, request in told.calls] == [paused[1].id]


async def test_the_next_request_is_one_that_is_still_open(desks: Desks) -> None:
    approvals = InMemoryApprovals()
    async with desks.host(approvals, Roles(**LEAVES)) as host:
        task = new_task(instructions="writes twice")
        await host.dispatch(task)
        first = await approvals.next()
        assert approvals.open == [first]
        await host.approve(first.task_id, first.digest)
        second = await approvals.next()
        assert second.digest != first.digest
        await approvals.wanted(second)
        waiting = asyncio.create_task(approvals.next())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done(), "a request that is repeated is no news"
        waiting.cancel()
        await host.approve(second.task_id, second.digest)
        await host.wait(task.id)


async def test_a_transport_that_will_not_be_interrupted_keeps_no_host_open(
    desks: Desks, until: Until
) -> None:
    go = asyncio.Event()

    class Stubborn(Told):
        async def wanted(self, request: Request) -> None:
            await super().wanted(request)
            while not go.is_set():
                with suppress(asyncio.CancelledError):
                    await go.wait()

    told = Stubborn()
    host = desks.host(told, unwind_timeout=0.01)
    async with asyncio.timeout(10), host:
        await host.dispatch(new_task())
        await until(lambda: told.calls)
    go.set()


async def test_what_others_ask_for_costs_a_commit_nothing(desks: Desks) -> None:
    """However many requests are open."""
    desk = Desk(InMemoryApprovals(), desks.store, None, None)
    async with desks.host(None) as host:
        tasks = [new_task() for _ in range(3)]
        for task in tasks:
            await host.dispatch(task)
            await host.wait(task.id, TaskStatus.PAUSED)
            desk.saw(await host.record(task.id))
        record = await host.record(tasks[0].id)

    class Untouched(dict[str, Any]):
        def values(self) -> Any:
            raise AssertionError("all requests were gone through")

    desk._open = Untouched(desk._open)
    desk.saw(record)
    assert len(desk._open) == 3


async def test_a_transport_that_fails_is_logged_without_what_steers_a_terminal(
    desks: Desks, caplog: pytest.LogCaptureFixture
) -> None:
    class Rude(InMemoryApprovals):
        async def wanted(self, request: Request) -> None:
            told.set()
            raise RuntimeError("no \x1b[2J\u202e \u2028")

    told = asyncio.Event()
    async with desks.host(Rude()) as host:
        task = new_task()
        await host.dispatch(task)
        await told.wait()
    (record,) = [each for each in caplog.records if "approvals transport" in each.getMessage()]
    assert record.exc_text is not None
    assert "RuntimeError: no" in record.exc_text
    assert record.exc_text.replace("\n", "").isprintable()


async def test_what_was_read_while_it_was_asked_does_not_open_it_again(
    desks: Desks, until: Until
) -> None:
    """The answer of the store may be late: of a commit between the pause and the decision."""
    told = Told()
    async with desks.host(told) as host:
        task = new_task()
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        await until(lambda: told.calls)
        await host.post(task.id, {"type": "acme/remark"})
        late = await desks.store.load(task.id)
        await host.approve(task.id, told.calls[0][1].digest)
        await host.wait(task.id)
        await until(lambda: len(told.calls) == 2)
        assert host._desk is not None
        host._desk.saw(late)
        for _ in range(20):
            await asyncio.sleep(0)
    assert told.verbs == ["wanted", "settled"]
