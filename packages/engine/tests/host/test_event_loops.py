"""A Host belongs to one event loop: its runs, its polling and its connections are there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from agentic_kernel import Failure, Task, TaskStatus
from agentic_kernel_engine import Host, Job, MemoryStore, WrongEventLoop


class Work:
    """Counts its runs."""

    runs = 0

    async def execute(self, job: Job) -> str:
        self.runs += 1
        return job.task.instructions


def new_task() -> Task:
    return Task.new(summary="", instructions="do it", runtime_kind="count")


def test_a_host_that_has_written_is_refused_in_a_second_event_loop() -> None:
    store, work = MemoryStore(), Work()
    host = Host(work, store)
    first, second = new_task(), new_task()
    assert asyncio.run(host.run(first)).result == "do it"
    for verb in (host.run, host.dispatch):
        with pytest.raises(WrongEventLoop, match=r"make all calls in one asyncio\.run\(\)"):
            asyncio.run(verb(second))
    with pytest.raises(WrongEventLoop):
        asyncio.run(host.kill(first.id))
    assert asyncio.run(host.get(first.id)).status is TaskStatus.SUCCESS
    assert work.runs == 1
    assert asyncio.run(host.get_many([second.id])) == {}
    assert asyncio.run(Host(work, store).run(second)).result == "do it"


def test_a_host_that_has_only_read_belongs_to_no_event_loop() -> None:
    host = Host(Work(), MemoryStore())
    for _ in range(2):
        assert asyncio.run(host.get_many(["none"])) == {}
    assert asyncio.run(host.run(new_task())).result == "do it"


FAILURE = Failure(code="acme/failed", message="failed")
DECISION = {"type": "acme/decision"}
VERBS: dict[str, Callable[[Host, Task], Awaitable[Any] | AsyncIterator[Any]]] = {
    "account": lambda host, task: host.account(task.id),
    "answer": lambda host, task: host.answer(task.id, "yes"),
    "approve": lambda host, task: host.approve(task.id, "0" * 64),
    "claim": lambda host, task: host.claim(task.id),
    "close": lambda host, task: host.close(),
    "complete": lambda host, task: host.complete(task.id, "done"),
    "decide": lambda host, task: host.decide(task.id, DECISION),
    "deny": lambda host, task: host.deny(task.id, "0" * 64),
    "dispatch": lambda host, task: host.dispatch(new_task()),
    "drain": lambda host, task: host.drain(),
    "fail": lambda host, task: host.fail(task.id, FAILURE),
    "fence": lambda host, task: host.fence(new_task().id, task),
    "kill": lambda host, task: host.kill(task.id),
    "pause": lambda host, task: host.pause(task.id),
    "post": lambda host, task: host.post(task.id, DECISION),
    "recover": lambda host, task: host.recover(),
    "regrant": lambda host, task: host.regrant(task.id, {"tokens": 1}, 1),
    "rerun": lambda host, task: host.rerun(task),
    "resume": lambda host, task: host.resume(task.id),
    "retune": lambda host, task: host.retune(task.id, max_iterations=2),
    "run": lambda host, task: host.run(new_task()),
    "run_stream": lambda host, task: host.run_stream(new_task()),
    "spawn": lambda host, task: host.spawn(new_task(), task.id),
    "step": lambda host, task: host.step(new_task()),
    "stream": lambda host, task: host.stream(task.id),
    "wait": lambda host, task: host.wait(task.id),
    "watch": lambda host, task: host.watch(task.id),
}
"""The public methods of a Host that belong to its event loop."""
READS = {"find", "get", "get_many", "outcome", "record"}
"""Those that only read the store, which every event loop may do."""
WITHOUT_LOOP = {"as_tool", "meters", "name", "runs_tasks", "runtime_kinds", "store"}


async def called(host: Host, task: Task, verb: str) -> None:
    call = VERBS[verb](host, task)
    if isinstance(call, AsyncIterator):
        async for _ in call:
            pass
    else:
        await call


def test_each_public_method_of_a_host_says_to_which_event_loop_it_belongs() -> None:
    public = {name for name in dir(Host) if not name.startswith("_")}
    assert public == {*VERBS, *READS, *WITHOUT_LOOP}


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_a_verb_in_a_second_event_loop_is_refused_and_does_nothing(verb: str) -> None:
    with asyncio.Runner() as runner:
        host, held = Host(Work(), MemoryStore()), new_task()
        runner.run(host.run(held))
        with pytest.raises(WrongEventLoop, match=r"make all calls in one asyncio\.run\(\)"):
            asyncio.run(called(host, held, verb))
        assert runner.run(host.run(new_task())).result == "do it", "the Host works on in its own"
        runner.run(host.close())


def test_a_host_whose_event_loop_is_gone_is_not_closed_in_another_one() -> None:
    host = Host(Work(), MemoryStore())
    asyncio.run(host.run(new_task()))
    for verb in ("close", "drain"):
        with pytest.raises(WrongEventLoop):
            asyncio.run(called(host, new_task(), verb))


def test_a_host_that_is_closing_is_not_closed_in_a_second_event_loop() -> None:
    class Slow(MemoryStore):
        async def leave(self, host: str) -> None:
            leaving.set()
            await asyncio.sleep(0)
            await gone.wait()
            await super().leave(host)

    with asyncio.Runner() as runner:
        leaving, gone = asyncio.Event(), asyncio.Event()
        host = Host(Work(), Slow())
        runner.run(host.run(new_task()))

        async def begin() -> asyncio.Task[None]:
            closing = asyncio.create_task(host.close())
            await leaving.wait()
            return closing

        closing = runner.run(begin())
        with pytest.raises(WrongEventLoop):
            asyncio.run(host.close())
        gone.set()
        runner.run(asyncio.wait_for(closing, 10))
    asyncio.run(host.close())  # It is closed, so no event loop has anything to do.


def test_a_host_that_never_wrote_is_closed_in_any_event_loop() -> None:
    host = Host(Work(), MemoryStore())
    asyncio.run(host.find())
    asyncio.run(host.close())
    asyncio.run(host.close())
