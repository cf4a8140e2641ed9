"""A tool asks a person: the call ends, the Task pauses, and the repeated call has the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, MemoryStore
from agentic_kernel_engine.loop.loop import Loop
from agentic_kernel_engine.plans.action import FinalAnswer, ToolCall
from agentic_kernel_engine.principal import NOBODY
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import ScriptedPlanner
from agentic_kernel_engine.tools.exceptions import ToolError
from agentic_kernel_engine.tools.tool import MOST_QUESTIONS, Tool, ToolContext, tool

from ..conftest import Crash
from ..scripting import Runner, World, last_turn, new_task


def seen(context: Context) -> FinalAnswer:
    """The final answer is what the planner was told about each call."""
    return FinalAnswer([each.output or each.error for each in last_turn(context).observations])


async def question(host: Host, id: str) -> dict[str, Any]:
    paused = await host.wait(id, TaskStatus.PAUSED)
    assert paused.status is TaskStatus.PAUSED
    note: Any = paused.metadata["engine/waiting_for"]
    return dict(note)


def pay(world: World, **declared: Any) -> Tool:
    async def pay(amount: int, context: ToolContext) -> str:
        """Pay an amount from the account that a person names."""
        world.done.append(f"asked {context.key}")
        account = context.ask(f"Which account pays {amount}?")
        world.done.append(f"paid {amount} from {account}")
        return account

    return tool(pay, **declared)


@pytest.mark.parametrize("effect", ["none", "write", "destructive"])
async def test_the_call_that_asked_is_made_again_with_the_answer(
    runner: Runner, world: World, effect: str
) -> None:
    script = (ToolCall("pay", {"amount": 5}), seen)
    async with runner.host(*script, tools=[pay(world, effect=effect)]) as host:
        id = (await host.dispatch(new_task())).snapshot.id
        asks = await question(host, id)
        assert (asks["kind"], asks["tool"]) == ("question", "pay")
        assert asks["question"] == "Which account pays 5?"
        await host.answer(id, "savings", by="ann")
        done = await host.wait(id)
    assert done.result == ["savings"]
    first, second, paid = world.done
    assert first == second, "the call has the same key"
    assert paid == "paid 5 from savings"
    events = await runner.events(done)
    (handed,) = [each.data for each in events if each.type == "decision.handed_on"]
    assert (handed["tool"], handed["text"], handed["by"]) == ("pay", "savings", "ann")
    assert "question.answered" not in [each.type for each in events], "no model asked"


async def test_one_call_asks_several_questions(runner: Runner, world: World) -> None:
    @tool
    async def book(context: ToolContext) -> str:
        where, when = context.ask("Where?"), context.ask("When?")
        world.done.append("booked")
        return f"{where} {when}"

    async with runner.host(ToolCall("book", {}), seen, tools=[book]) as host:
        id = (await host.dispatch(new_task())).snapshot.id
        for text, answer in (("Where?", "Rome"), ("When?", "May")):
            assert (await question(host, id))["question"] == text
            await host.answer(id, answer)
            if text == "Where?":
                await until_asked(host, id, "When?")
        done = await host.wait(id)
    assert (done.result, world.done) == (["Rome May"], ["booked"])


async def until_asked(host: Host, id: str, text: str) -> None:
    async with asyncio.timeout(30):
        while True:
            note: Any = (await host.get(id)).metadata.get("engine/waiting_for") or {}
            if note.get("question") == text:
                return
            await asyncio.sleep(0.005)


async def test_the_other_calls_of_a_batch_are_made_once(runner: Runner, world: World) -> None:
    batch = [ToolCall("write", {"text": "a"}), ToolCall("pay", {"amount": 1}),
             ToolCall("pay", {"amount": 2})]  # fmt: skip
    async with runner.host(batch, seen, tools=[*world.tools(), pay(world)]) as host:
        id = (await host.dispatch(new_task())).snapshot.id
        for amount in (1, 2):
            await until_asked(host, id, f"Which account pays {amount}?")
            await host.answer(id, f"account {amount}")
        done = await host.wait(id)
    assert done.result == ["written", "account 1", "account 2"]
    assert [each for each in world.done if not each.startswith("asked")] == [
        "write a", "paid 1 from account 1", "paid 2 from account 2",
    ]  # fmt: skip


async def test_a_function_in_a_thread_asks(runner: Runner) -> None:
    @tool
    def choose(context: ToolContext) -> str:
        return context.ask("Which?")

    async with runner.host(ToolCall("choose", {}), seen, tools=[choose]) as host:
        id = (await host.dispatch(new_task())).snapshot.id
        await question(host, id)
        await host.answer(id, "this")
        assert (await host.wait(id)).result == ["this"]


async def test_an_answer_outlives_the_process(runner: Runner, world: World, crash: Crash) -> None:
    script = (ToolCall("pay", {"amount": 5}), seen)
    async with runner.mortal(*script, tools=[pay(world)]) as host:
        id = (await host.dispatch(new_task())).snapshot.id
        await question(host, id)
        await crash(host)
    async with Host(store=runner.store) as elsewhere:
        await elsewhere.answer(id, "savings")
    async with runner.host(*script, tools=[pay(world)]) as host:
        assert (await host.wait(id)).result == ["savings"]
    assert world.done.count("paid 5 from savings") == 1


async def test_a_crash_after_the_answer_leaves_an_effect_unknown(
    runner: Runner, world: World, crash: Crash
) -> None:
    """The answered call was begun, so nobody knows what it did: it is not made a third time."""
    begun = asyncio.Event()

    def hanging() -> Tool:
        @tool
        async def pay(context: ToolContext) -> str:
            context.ask("Which account?")
            world.done.append("paid")
            begun.set()
            await asyncio.Event().wait()
            return ""

        return pay

    script = (ToolCall("pay", {}), seen)
    async with runner.mortal(*script, tools=[hanging()]) as host:
        id = (await host.dispatch(new_task())).snapshot.id
        await question(host, id)
        await host.answer(id, "savings")
        await asyncio.wait_for(begun.wait(), 30)
        await crash(host)
    async with runner.host(*script, tools=[hanging()]) as host:
        assert (await host.wait(id)).result == ["indeterminate"]
    assert world.done == ["paid"]


async def test_a_resume_without_an_answer_asks_again(runner: Runner, world: World) -> None:
    async with runner.host(ToolCall("pay", {"amount": 5}), seen, tools=[pay(world)]) as host:
        id = (await host.dispatch(new_task())).snapshot.id
        first = await question(host, id)
        await host.resume(id)
        async with asyncio.timeout(30):
            while len(world.done) < 2:
                await asyncio.sleep(0.005)
        assert (await question(host, id))["digest"] == first["digest"]
        await host.answer(id, "savings")
        assert (await host.wait(id)).result == ["savings"]


async def test_a_killed_task_never_calls_again(runner: Runner, world: World) -> None:
    async with runner.host(ToolCall("pay", {"amount": 5}), seen, tools=[pay(world)]) as host:
        id = (await host.dispatch(new_task())).snapshot.id
        await question(host, id)
        await host.kill(id)
        assert (await host.wait(id)).status is TaskStatus.CANCELLED
    assert len(world.done) == 1


async def test_a_childs_tool_asks_at_the_root(world: World) -> None:
    store = MemoryStore()
    below = Loop(ScriptedPlanner(ToolCall("pay", {"amount": 5}), seen), [pay(world)])
    async with Host(below, store, runtime_kinds=["below"], grace=0, interval=0.01) as child:
        agent = child.as_tool(name="payer", description="")
        loop = Loop(ScriptedPlanner(ToolCall("payer", {"instructions": "pay"}), seen), [agent])
        async with Host(loop, store, grace=0, interval=0.01) as host:
            task: Task = new_task()
            await host.dispatch(task)
            asks = await question(host, task.id)
            assert asks["question"] == "Which account pays 5?"
            assert len(asks["children"]) == 1
            await host.answer(task.id, "savings")
            assert (await host.wait(task.id)).result == [["savings"]]
    assert world.done[-1] == "paid 5 from savings"


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "1 to 10,000"), ("?" * 10_001, "1 to 10,000"), (7, "1 to 10,000")],
)
async def test_a_question_that_is_none_is_refused(runner: Runner, text: Any, said: str) -> None:
    @tool
    async def ask(context: ToolContext) -> str:
        return context.ask(text)

    def told(context: Context) -> FinalAnswer:
        return FinalAnswer(last_turn(context).observations[0].message)

    done = await runner.run(ToolCall("ask", {}), told, tools=[ask])
    assert said in done.result


async def test_a_call_asks_a_bounded_number_of_questions() -> None:
    answers = {str(each): "" for each in range(MOST_QUESTIONS)}
    told = ToolContext("t", 0, 0, "k", NOBODY, print, answers=answers)
    with pytest.raises(ToolError, match=f"{MOST_QUESTIONS} questions"):
        told.ask("one more?")
    for question, came in (("", "0"), ("?" * 10_001, "10,001")):
        with pytest.raises(ToolError, match=f"text of 1 to 10,000 characters, not {came}"):
            told.ask(question)


async def test_nobody_is_asked_outside_of_a_loop() -> None:
    told = ToolContext("t", 0, 0, "k", NOBODY, print)
    with pytest.raises(ToolError, match="no person can be asked here") as raised:
        told.ask("which?")
    assert raised.value.code == "nobody_to_ask"
