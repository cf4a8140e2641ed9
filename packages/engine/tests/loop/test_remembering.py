"""Memory in a run: what is recalled, what is remembered, and that no fault of it ends the run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import CannotStart, InvalidValue, TaskStatus
from agentic_kernel_engine import MemoryStore, Record, TaskFailed
from agentic_kernel_engine.loop import remembering
from agentic_kernel_engine.plans.action import AskUser, FinalAnswer, PushGoal, ToolCall
from agentic_kernel_engine.plans.limits import Limits
from agentic_kernel_engine.principal import Principal
from agentic_kernel_engine.seams.compactor import WindowCompactor
from agentic_kernel_engine.seams.memories import (
    InMemoryMemory,
    NoMemory,
)
from agentic_kernel_engine.seams.memory import Hit, Item, Query
from agentic_kernel_engine.seams.memory_governor import SessionMemoryGovernor
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.policies import BasicPolicy
from agentic_kernel_engine.tools.tool import Tool

from ..scripting import Runner, new_task
from .counting import counted
from .remembering import ADD, ANN, MONDAY, Asked, Seen, in_session, run, said


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


def test_a_refused_seed_memory_or_session_has_its_length_and_the_limit(runner: Runner) -> None:
    with pytest.raises(InvalidValue, match="is 8,001 characters long in all, and at most 8,000"):
        runner.host(seed_memory=["x" * 8_000, "x"])
    for name, came in (("x" * 641, "641 characters"), (5, "5")):
        with pytest.raises(TaskFailed, match=f"1 to 640 characters, not {came}"):
            remembering.session_of(new_task(metadata={"engine/session": name}))


def test_a_governor_needs_a_memory(runner: Runner) -> None:
    with pytest.raises(InvalidValue, match="no memory to govern"):
        runner.host(governor=SessionMemoryGovernor())


@pytest.mark.parametrize("bad", [5, "", "x" * 1_000, ["monday"], "a\ufeff" * 400], ids=range(5))
@pytest.mark.parametrize("memory", [InMemoryMemory(), None], ids=["memory", "none"])
async def test_a_session_that_is_none_is_refused_before_anything_is_written(
    runner: Runner, bad: Any, memory: Any
) -> None:
    task = new_task(metadata={"engine/session": bad})
    async with runner.host(FinalAnswer(1), memory=memory) as host:
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
