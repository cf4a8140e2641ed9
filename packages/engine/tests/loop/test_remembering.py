"""Memory in a run: what is recalled, what is remembered, and that no fault of it ends the run."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import CannotStart, InvalidValue, Task, TaskStatus
from agentic_kernel_engine import MemoryStore, Record, StoreError
from agentic_kernel_engine.loop import remembering
from agentic_kernel_engine.loop.action import AskUser, FinalAnswer, PushGoal, ToolCall
from agentic_kernel_engine.loop.context import Context, Principal
from agentic_kernel_engine.loop.ending import End
from agentic_kernel_engine.loop.limits import Limits
from agentic_kernel_engine.loop.reasons import StopReason
from agentic_kernel_engine.seams.compactor import WindowCompactor
from agentic_kernel_engine.seams.governor import MAX_PROPOSALS, Proposal, SessionMemoryGovernor
from agentic_kernel_engine.seams.memories import (
    InMemoryMemory,
    NoMemory,
)
from agentic_kernel_engine.seams.memory import Hit, Item, Query, Scope
from agentic_kernel_engine.seams.policies import BasicPolicy
from agentic_kernel_engine.seams.tools import Tool

from ..conftest import Crash, TappedStore
from .conftest import Runner, new_task
from .test_cost import counted

ANN = Principal("ann", "acme")
MONDAY = Scope("acme", "ann", "monday")
ADD = ToolCall("add", {"a": 1, "b": 2})


def in_session(name: str = "monday", instructions: str = "do it") -> Task:
    return new_task(instructions=instructions, metadata={"engine/session": name})


async def run(runner: Runner, task: Task, *script: Any, **options: Any) -> Task:
    options.setdefault("principal", ANN)
    async with runner.host(*script, **options) as host:
        return await host.run(task)


async def said(runner: Runner, task: Task, type: str) -> list[Any]:
    return [event.data for event in await runner.events(task) if event.type == type]


class Seen:
    """A rule of a planner that keeps what it was shown."""

    def __init__(self, *answers: Any) -> None:
        self.memories: list[list[str]] = []
        self._answers = answers or (FinalAnswer("done"),)

    async def plan(self, context: Context) -> Any:
        self.memories.append(list(context.memories))
        return self._answers[min(context.step, len(self._answers) - 1)]


class Governing(SessionMemoryGovernor):
    """Proposes what a test says, at every step."""

    def __init__(self, *proposals: Any, of_end: Any = ()) -> None:
        super().__init__()
        self._step: Any = proposals
        self._end = of_end

    async def of_step(self, *_: Any) -> Any:
        if isinstance(self._step[0] if self._step else None, BaseException):
            raise self._step[0]
        return self._step

    async def of_end(self, *_: Any) -> Any:
        return self._end


async def test_what_a_task_did_is_shown_to_the_next_one_of_its_session_and_to_no_other(
    runner: Runner,
) -> None:
    options: Any = {"memory": InMemoryMemory(), "governor": SessionMemoryGovernor()}
    await run(runner, in_session(instructions="add"), ADD, FinalAnswer("It is 3."), **options)
    for task, principal, sees in (
        (in_session(), ANN, True),
        (in_session("tuesday"), ANN, False),
        (in_session(), Principal("bob", "acme"), False),
        (in_session(), Principal("ann", "zeta"), False),
        (new_task(), ANN, False),
    ):
        planner = Seen()
        await run(runner, task, planner=planner, memory=options["memory"], principal=principal)
        shown = ["Asked: add\nAnswered: It is 3.", 'add({"a":1,"b":2}) gave 3']
        assert planner.memories == [shown if sees else []]


async def test_what_a_step_brought_is_in_memory_at_the_next_one_and_on_record(
    runner: Runner,
) -> None:
    planner = Seen(ADD, FinalAnswer("done"))
    task = in_session()
    await run(
        runner, task, planner=planner, memory=InMemoryMemory(), governor=SessionMemoryGovernor()
    )
    assert planner.memories == [[], ['add({"a":1,"b":2}) gave 3']]
    assert await said(runner, task, "memory.noted") == [
        {"items": [f"{task.id}:0:0"]},
        {"items": [f"{task.id}:2:0"]},
    ]
    ((hit,),) = [data["hits"] for data in await said(runner, task, "memory.recalled")]
    assert hit == {"id": f"{task.id}:0:0", "score": 0.0}


class Asked(InMemoryMemory):
    """Keeps what was looked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def recall(self, query: Query) -> Sequence[Hit]:
        self.asked.append(query.text)
        return await super().recall(query)


async def test_a_plan_that_is_at_hand_already_needs_no_memory(runner: Runner) -> None:
    memory = Asked()
    options: Any = {"memory": memory, "policy": BasicPolicy(approve=["add"]), "principal": ANN}
    async with runner.host(ADD, FinalAnswer("done"), **options) as host:
        task = in_session()
        await host.dispatch(task)
        paused = await host.wait(task.id, TaskStatus.PAUSED)
        waiting: Any = paused.metadata["engine/waiting_for"]
        await host.approve(task.id, waiting["requests"][0]["digest"], by="ann")
        assert (await host.wait(task.id)).result == "done"
    assert memory.asked == ["do it"] * 2, "one for each call of the planner"


async def test_the_current_goal_and_the_last_words_of_the_user_are_what_is_recalled(
    runner: Runner,
) -> None:
    memory = Asked()
    task = in_session(instructions="plan the trip")
    script = (PushGoal("book a train"), AskUser("When?"), FinalAnswer("done"))
    async with runner.host(*script, memory=memory, principal=ANN) as host:
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        await host.answer(task.id, "on Friday", by="ann")
        await host.wait(task.id)
    assert memory.asked == [
        "plan the trip",
        "book a train\nplan the trip",
        "book a train\non Friday",
    ]


async def test_what_is_shown_is_bounded_in_number_and_in_size(runner: Runner) -> None:
    memory = InMemoryMemory()
    for number in range(50):
        await memory.propose(Item(str(number), MONDAY, f"{number} " * 10))
    for number in range(3):
        await memory.propose(Item(f"big {number}", MONDAY, f"{number}" * 5_000))
    planner = Seen()
    await run(runner, in_session(), planner=planner, memory=memory)
    (shown,) = planner.memories
    assert len(shown) == 6
    assert sum(map(len, shown)) <= remembering.CHARACTERS
    assert shown[0] == "2" * 5_000
    assert shown[1:] == [f"{number} " * 10 for number in range(49, 44, -1)]


async def test_seed_memory_is_shown_at_every_step_before_the_rest(runner: Runner) -> None:
    for memory in (None, NoMemory(), InMemoryMemory()):
        planner = Seen(ADD, FinalAnswer("done"))
        if memory is not None:
            await memory.propose(Item("a", MONDAY, "recalled"))
        options: Any = {} if memory is None else {"memory": memory}
        await run(runner, in_session(), planner=planner, seed_memory=["it is Monday"], **options)
        rest = ["recalled"] if isinstance(memory, InMemoryMemory) else []
        assert planner.memories == [["it is Monday", *rest]] * 2


@pytest.mark.parametrize(
    "bad", ["a text", [5], ["a\0"], ["\ud800"], ["x"] * 65, ["x" * 8_001]], ids=range(6)
)
def test_seed_memory_that_is_too_much_or_no_text_is_refused(runner: Runner, bad: Any) -> None:
    with pytest.raises(InvalidValue, match="seed_memory"):
        runner.host(seed_memory=bad)


def test_a_governor_needs_a_memory(runner: Runner) -> None:
    with pytest.raises(InvalidValue, match="no memory to govern"):
        runner.host(governor=SessionMemoryGovernor())


@pytest.mark.parametrize("bad", [5, "", "x" * 1_000, ["monday"], "a\ufeff" * 400], ids=range(5))
async def test_a_session_that_is_none_is_refused_before_anything_is_written(
    runner: Runner, bad: Any
) -> None:
    task = new_task(metadata={"engine/session": bad})
    async with runner.host(FinalAnswer(1), memory=InMemoryMemory()) as host:
        with pytest.raises(CannotStart, match="engine/session"):
            await host.dispatch(task)
        assert await host.get_many([task.id]) == {}


async def test_without_a_memory_nothing_of_it_is_called(runner: Runner) -> None:
    called: list[str] = []
    where = {str(Path(remembering.__file__))}

    def watch(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename in where:
            called.append(frame.f_code.co_name)

    async def watched(**options: Any) -> None:
        called.clear()
        host = runner.host(ADD, FinalAnswer(1), **options)
        sys.setprofile(watch)
        try:
            async with host:
                await host.run(new_task())
        finally:
            sys.setprofile(None)

    await watched(memory=NoMemory())
    assert "inject" in called, "the watch sees calls"
    await watched()
    assert called == []


async def test_a_turn_with_memory_makes_few_calls_and_no_more_of_them_later(
    runner: Runner,
) -> None:
    calls = [0]

    class Turning:
        async def plan(self, context: Context) -> Any:
            calls.append(0)
            call = ToolCall("add", {"a": context.step, "b": 1})
            return FinalAnswer(None) if context.step == 150 else call

    governor = SessionMemoryGovernor(max_items=20)
    with counted(calls):
        await run(
            runner, in_session(), planner=Turning(), memory=InMemoryMemory(), governor=governor
        )
    early, late = calls[30:40], calls[130:140]
    assert max(early) <= 200, early
    assert sorted(late)[5] <= sorted(early)[5] + 2, (early, late)


class Sized(MemoryStore):
    """Notes how long every state is that is committed."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        self.sizes.append(len(after.state or b""))
        await super().commit(before, after, events)


async def test_over_a_thousand_steps_neither_the_state_nor_the_work_of_a_step_grows(
    runner: Runner,
) -> None:
    runner.store = store = Sized()
    memory, calls, longest = InMemoryMemory(), [0], [0]

    class Turning:
        async def plan(self, context: Context) -> Any:
            calls.append(0)
            longest.append(len(context.transcript))
            call = ToolCall("add", {"a": context.step, "b": 1})
            return FinalAnswer(None) if context.step == 1_000 else call

    with counted(calls):
        await run(
            runner, in_session(), planner=Turning(), memory=memory,
            governor=SessionMemoryGovernor(max_items=20), limits=Limits(max_iterations=1_001),
            compactor=WindowCompactor(max_entries=40, max_bytes=8_000, keep=10, summary=1_000),
        )  # fmt: skip
    assert max(longest) <= 40
    early, late = calls[100:140], calls[950:990]  # More than one compaction is in either.
    assert sum(late) <= 1.05 * sum(early), (sum(early), sum(late))
    assert max(store.sizes[950:1_000]) <= max(store.sizes[50:100]) + 50
    assert len(await memory.recall(Query(MONDAY, limit=100))) == 20


class Gated(InMemoryMemory):
    """Holds up the first write of a run, before it or behind it."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self.when = when
        self.reached = asyncio.Event()
        self.held = True
        self.proposed: list[str] = []

    async def _hold(self, when: str) -> None:
        if self.held and when == self.when:
            self.reached.set()
            await asyncio.Event().wait()

    async def propose(self, item: Item) -> bool:
        self.proposed.append(item.id)
        await self._hold("before")
        new = await super().propose(item)
        await self._hold("after")
        return new


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_between_the_write_and_the_next_commit_leaves_one_item(
    runner: Runner, crash: Crash, when: str
) -> None:
    memory = Gated(when)
    script = (ADD, FinalAnswer("done"))
    options: Any = {
        "memory": memory, "principal": ANN, "governor": Governing(Proposal("learned", "key")),
    }  # fmt: skip
    task = in_session()
    host = runner.host(*script, **options)
    await host.dispatch(task)
    await memory.reached.wait()
    await crash(host)
    exported = await memory.export(MONDAY)
    assert len(exported["items"]) == (when == "after")
    memory.held = False
    async with runner.host(*script, **options) as second:
        done = await second.wait(task.id)
    assert done.result == "done"
    # Brought in again after the crash, under the same id; the second step's took its place.
    assert memory.proposed[:2] == [f"{task.id}:0:0"] * (2 if when == "before" else 1)
    first, second_item = (await memory.export(MONDAY))["items"]
    assert (first["id"], first["successor"]) == (f"{task.id}:0:0", f"{task.id}:1:0")
    assert (second_item["id"], second_item["predecessor"]) == (f"{task.id}:1:0", f"{task.id}:0:0")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_between_the_write_and_the_end_ends_the_run_as_it_was_about_to(
    runner: Runner, crash: Crash, when: str
) -> None:
    """A planner that says something else every time is not asked again."""
    memory, count = Gated(when), itertools.count(1)
    ends: list[str] = []

    class Counting:
        async def plan(self, context: Context) -> Any:
            return FinalAnswer(f"answer {next(count)}")

    class Ending:
        async def on_run_end(self, state: Any, end: End) -> None:
            ends.append(end.output)

    options: Any = {
        "planner": Counting(), "memory": memory, "governor": SessionMemoryGovernor(),
        "principal": ANN, "middleware": [Ending()],
    }  # fmt: skip
    task = in_session()
    host = runner.host(**options)
    await host.dispatch(task)
    await memory.reached.wait()
    await crash(host)
    memory.held = False
    async with runner.host(**options) as second:
        done = await second.wait(task.id)
    assert done.status is TaskStatus.SUCCESS
    assert done.result == "answer 1"
    assert ends == ["answer 1"]
    (item,) = (await memory.export(MONDAY))["items"]
    assert item["text"] == "Asked: do it\nAnswered: answer 1"
    stops = await said(runner, task, "run.stopped")
    assert [data["reason"] for data in stops] == ["final"]
    assert len(await said(runner, task, "plan.made")) == 1


async def test_a_failure_is_put_on_record_before_memory_is_written_too(
    runner: Runner, crash: Crash
) -> None:
    memory = Gated("after")
    options: Any = {
        "memory": memory, "principal": ANN, "limits": Limits(max_iterations=1),
        "governor": Governing(of_end=[Proposal("it was too much")]),
    }  # fmt: skip
    task = in_session()
    host = runner.host(ADD, ADD, **options)
    await host.dispatch(task)
    await memory.reached.wait()
    await crash(host)
    memory.held = False
    async with runner.host(ADD, ADD, **options) as second:
        done = await second.wait(task.id)
    assert done.failure is not None
    assert done.failure.code == "engine/max_iterations"
    assert [item["text"] for item in (await memory.export(MONDAY))["items"]] == ["it was too much"]


async def test_a_step_that_was_never_committed_is_not_remembered(
    runner: Runner, crash: Crash
) -> None:
    store = TappedStore()
    runner.store = store
    memory, reached = InMemoryMemory(), asyncio.Event()

    async def hold(record: Any) -> None:
        reached.set()
        await asyncio.Event().wait()

    store.before_commit = hold
    options: Any = {"memory": memory, "governor": SessionMemoryGovernor(), "principal": ANN}
    host = runner.host(ADD, FinalAnswer(1), **options)
    task = in_session()
    await host.dispatch(task)
    await reached.wait()
    await crash(host)
    assert (await memory.export(MONDAY))["items"] == []
    store.before_commit = None
    async with runner.host(ADD, FinalAnswer(1), **options) as second:
        await second.wait(task.id)
    assert len((await memory.export(MONDAY))["items"]) == 2


async def test_what_waits_at_a_pause_is_in_memory_when_the_task_goes_on(runner: Runner) -> None:
    memory = InMemoryMemory()
    options: Any = {"memory": memory, "governor": SessionMemoryGovernor(), "principal": ANN}
    script = ([ADD, AskUser("Which?")], FinalAnswer("done"))
    async with runner.host(*script, **options) as host:
        task = in_session()
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
        await host.answer(task.id, "this", by="ann")
        await host.wait(task.id)
    assert len((await memory.export(MONDAY))["items"]) == 2


class Broken:
    """A memory whose calls fail in one way or another, as long as it is told to."""

    def __init__(self, fault: Any, *calls: str) -> None:
        self.real = InMemoryMemory()
        self.fault = fault
        self.calls = calls

    def __getattr__(self, name: str) -> Any:
        if name not in self.calls:
            return getattr(self.real, name)

        async def fail(*_: Any) -> Any:
            if isinstance(self.fault, BaseException):
                raise self.fault
            if callable(self.fault):
                return await self.fault()
            return self.fault

        return fail


class Unreadable(Exception):
    def __str__(self) -> str:
        raise ValueError("not even that")


async def _for_ever() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    "fault",
    [
        ConnectionError("gone"),
        Unreadable(),
        End(StopReason.FINAL, output="usurped"),
        asyncio.CancelledError(),
        None,
        "text",
        ["text"],
        [Hit(Item("a", Scope("zeta", "ann", "monday"), "somebody else's"), 1.0, "")],
        [Hit(Item("a", MONDAY, "a"), float("nan"), "")],
        [Hit("a", 1.0, "")],  # type: ignore[arg-type]
        _for_ever,
    ],
    ids=range(11),
)
async def test_a_recall_that_fails_is_recorded_and_the_run_goes_on_without(
    runner: Runner, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault is _for_ever:
        monkeypatch.setattr(remembering, "PATIENCE", 0.01)
    memory: Any = Broken(fault, "recall")
    planner, task = Seen(ADD, FinalAnswer("done")), in_session()
    done = await run(runner, task, planner=planner, memory=memory, seed_memory=["a seed"])
    assert done.result == "done"
    assert planner.memories == [["a seed"]] * 2
    failed = await said(runner, task, "memory.failed")
    assert [data["doing"] for data in failed] == ["recall"] * 2
    assert all(data["message"] for data in failed)


async def test_a_memory_that_fails_for_a_while_gets_everything_in_the_end(runner: Runner) -> None:
    memory: Any = Broken(ConnectionError("gone"), "propose", "supersede")
    seen: list[int] = []

    class Mending:
        async def plan(self, context: Context) -> Any:
            seen.append(len((await memory.real.export(MONDAY))["items"]))
            if context.step == 3:
                memory.calls = ()
            call = ToolCall("add", {"a": context.step, "b": 1})
            return FinalAnswer("done") if context.step == 5 else call

    task = in_session()
    done = await run(
        runner, task, planner=Mending(), memory=memory, governor=Governing(Proposal("learned"))
    )
    assert done.result == "done"
    assert seen == [0, 0, 0, 0, 4, 5]
    ids = [item["id"] for item in (await memory.real.export(MONDAY))["items"]]
    assert ids == [f"{task.id}:{step}:0" for step in range(6)]
    failed = await said(runner, task, "memory.failed")
    assert [data["doing"] for data in failed] == ["keep"] * 3
    assert failed[0]["message"] == "ConnectionError: gone"
    assert await said(runner, task, "memory.lost") == []


async def test_what_a_memory_never_takes_is_bounded_and_said_to_be_lost(runner: Runner) -> None:
    memory: Any = Broken(ConnectionError("gone"), "propose")
    governor = Governing(*(Proposal(f"p {number}") for number in range(MAX_PROPOSALS)))
    task, waiting = in_session(), []

    class Watching:
        async def on_run_start(self, state: Any) -> None:
            self.state = state

        async def before_model(self, context: Context) -> None:
            waiting.append(len(self.state.remembering))

    script = [ToolCall("add", {"a": n, "b": n}) for n in range(4)]
    done = await run(
        runner, task, *script, FinalAnswer("done"), memory=memory, governor=governor,
        middleware=[Watching()],
    )  # fmt: skip
    assert done.result == "done"
    assert waiting == [0, 16, 32, 32, 32]
    lost = [id for data in await said(runner, task, "memory.lost") for id in data["items"]]
    assert lost == [f"{task.id}:{step}:{index}" for step in range(5) for index in range(16)]


async def test_an_item_that_a_memory_refuses_keeps_no_other_from_it(runner: Runner) -> None:
    class Picky(InMemoryMemory):
        async def propose(self, item: Item) -> bool:
            if item.text == "bad":
                raise ValueError("not this one")
            return await super().propose(item)

    memory = Picky()
    governor = Governing(Proposal("bad"), Proposal("good"))
    await run(runner, in_session(), FinalAnswer(1), memory=memory, governor=governor)
    assert [item["text"] for item in (await memory.export(MONDAY))["items"]] == ["good"]


@pytest.mark.parametrize(
    "proposals",
    [
        [ConnectionError("no model today")],
        [asyncio.CancelledError()],
        [End(StopReason.STOPPED)],
        ["text"],
        [Proposal("")],
        [Proposal("good"), Proposal("a\0")],
        [Proposal("\ud800")],
        [Proposal("x" * 10_000_000)],
        [Proposal(float("nan"))],  # type: ignore[arg-type]
        [Proposal("good", key=5)],  # type: ignore[arg-type]
        [Proposal("x")] * (MAX_PROPOSALS + 1),
    ],
    ids=range(11),
)
async def test_a_governor_that_fails_is_recorded_and_nothing_is_remembered(
    runner: Runner, proposals: Any
) -> None:
    memory, task = InMemoryMemory(), in_session()
    done = await run(
        runner, task, ADD, FinalAnswer("done"), memory=memory, governor=Governing(*proposals)
    )
    assert done.result == "done"
    assert (await memory.export(MONDAY))["items"] == []
    failed = await said(runner, task, "memory.failed")
    assert [data["doing"] for data in failed] == ["of_step"] * 2


async def test_a_governor_that_is_no_coroutine_function_fails_like_any_other(
    runner: Runner,
) -> None:
    class Plain(SessionMemoryGovernor):
        def of_step(self, *_: Any) -> Any:
            raise ConnectionError("at once")

    task, memory = in_session(), InMemoryMemory()
    done = await run(runner, task, ADD, FinalAnswer("done"), memory=memory, governor=Plain())
    assert done.result == "done"
    assert [data["doing"] for data in await said(runner, task, "memory.failed")] == ["of_step"] * 2
    assert len((await memory.export(MONDAY))["items"]) == 1, "what the end brought"


async def test_what_waits_for_a_governor_that_is_gone_is_said_to_be_lost(
    runner: Runner, crash: Crash
) -> None:
    memory = Gated("before")
    options: Any = {"memory": memory, "principal": ANN}
    task = in_session()
    host = runner.host(ADD, FinalAnswer(1), governor=SessionMemoryGovernor(), **options)
    await host.dispatch(task)
    await memory.reached.wait()
    await crash(host)
    async with runner.host(ADD, FinalAnswer(1), **options) as second:
        assert (await second.wait(task.id)).status is TaskStatus.SUCCESS
    assert await said(runner, task, "memory.lost") == [{"items": [f"{task.id}:0:0"]}]


async def test_an_end_that_cannot_be_put_on_record_is_kept_and_nothing_remembered(
    runner: Runner,
) -> None:
    store = TappedStore()
    runner.store = store

    async def refuse(record: Any) -> None:
        if record.state is not None and b'"ended"' in record.state:
            raise StoreError("no space left")

    store.before_commit = refuse
    memory, task = InMemoryMemory(), in_session()
    done = await run(
        runner, task, ADD, FinalAnswer("done"), memory=memory, governor=SessionMemoryGovernor()
    )
    assert done.result == "done"
    texts = [item["text"] for item in (await memory.export(MONDAY))["items"]]
    assert texts == ['add({"a":1,"b":2}) gave 3']
    events = await runner.events(task)
    assert [event.type for event in events][-4:] == [
        "memory.failed", "memory.lost", "run.stopped", "task.completed",
    ]  # fmt: skip
    assert len([event for event in events if event.type == "plan.made"]) == 2


async def test_a_fault_ends_the_run_with_what_was_learned_before_it(runner: Runner) -> None:
    memory, asked = InMemoryMemory(), []

    class Asked(SessionMemoryGovernor):
        async def of_end(self, *_: Any) -> Any:
            asked.append(True)
            return ()

    done = await run(runner, in_session(), ADD, KeyError("x"), memory=memory, governor=Asked())
    assert done.failure is not None
    assert asked == []
    assert len((await memory.export(MONDAY))["items"]) == 1


async def test_a_killed_run_writes_nothing_more(runner: Runner) -> None:
    memory, planner = Gated("before"), Seen(ADD, FinalAnswer(1))
    options: Any = {"memory": memory, "governor": SessionMemoryGovernor(), "principal": ANN}
    async with runner.host(planner=planner, **options) as host:
        task = in_session()
        await host.dispatch(task)
        await memory.reached.wait()
        await host.kill(task.id)
        assert (await host.wait(task.id)).status is TaskStatus.CANCELLED
    assert len(planner.memories) == 1, "the planner is not asked any more"
    assert (await memory.export(MONDAY))["items"] == []


async def test_a_newer_result_of_the_same_call_takes_the_older_ones_place(
    runner: Runner,
) -> None:
    memory, governor = InMemoryMemory(), SessionMemoryGovernor()
    values = iter([1, 2])
    read = ToolCall("read")

    async def value(arguments: Any) -> int:
        return next(values)

    tools = [Tool("read", value, input_schema={"type": "object"}, effect="read")]
    script = (read, read, FinalAnswer("2"))
    await run(runner, in_session(), *script, tools=tools, memory=memory, governor=governor)
    old, new, answer = (await memory.export(MONDAY))["items"]
    assert (old["text"], old["successor"]) == ("read({}) gave 1", new["id"])
    assert (new["text"], new["predecessor"]) == ("read({}) gave 2", old["id"])
    assert answer["text"] == "Asked: do it\nAnswered: 2"


async def test_a_session_keeps_its_newest_items_and_forgets_the_rest_with_a_reason(
    runner: Runner,
) -> None:
    memory, governor = InMemoryMemory(), SessionMemoryGovernor(max_items=3, max_characters=20)
    calls = [ToolCall("put", {"text": "x" * n}) for n in range(6)]
    fails = ToolCall("fail")
    script = (*calls, fails, FinalAnswer("y" * 5_000))
    await run(runner, in_session(), *script, memory=memory, governor=governor)
    hits = await memory.recall(Query(MONDAY, limit=100))
    assert [hit.item.text for hit in hits] == [
        "Asked: do it\nAnswer…", 'put({"text":"xxxxx"…', 'put({"text":"xxxx"}…',
    ]  # fmt: skip
    assert all(len(hit.item.text) <= 20 for hit in hits)
    items = (await memory.export(MONDAY))["items"]
    assert len(items) == 7, "a call that failed is nothing to remember"
    assert [item.get("forgotten") for item in items[:4]] == ["older than the newest 3 items"] * 4


async def test_keeping_twice_is_keeping_once(runner: Runner) -> None:
    memory, governor = InMemoryMemory(), SessionMemoryGovernor(max_items=2)
    items = [Item(str(n), MONDAY, f"text {n}", f"key {n % 3}") for n in range(5)]
    for item in items:
        await governor.keep(memory, item)
    before = await memory.export(MONDAY)
    for item in [*items, *reversed(items)]:
        await governor.keep(memory, item)
    assert await memory.export(MONDAY) == before
    assert len(await memory.recall(Query(MONDAY))) == 2


async def test_runs_side_by_side_in_one_session_keep_one_item_of_a_key(runner: Runner) -> None:
    class Slow(InMemoryMemory):
        """Lets the others go first between looking and writing."""

        async def recall(self, query: Query) -> Sequence[Hit]:
            hits = await super().recall(query)
            await asyncio.sleep(0)
            return hits

    memory, governor = Slow(), SessionMemoryGovernor()
    items = [Item(str(n), MONDAY, f"text {n}", "key") for n in range(4)]
    await asyncio.gather(*(governor.keep(memory, item) for item in items))
    await governor.keep(memory, Item("last", MONDAY, "the last word", "key"))
    hits = await memory.recall(Query(MONDAY))
    assert [hit.item.text for hit in hits] == ["the last word"]
    assert len((await memory.export(MONDAY))["items"]) == 5


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "10", 10**9])
def test_bounds_of_a_governor_that_are_none_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidValue, match="max_items"):
        SessionMemoryGovernor(max_items=bad)
    with pytest.raises(InvalidValue, match="max_characters"):
        SessionMemoryGovernor(max_characters=bad)
