"""R20 in the Loop: the text of a turn is that of the answer that was taken."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, InMemoryObserver
from agentic_kernel_engine.events import Event
from agentic_kernel_engine.loop.loop import Loop
from agentic_kernel_engine.plans.action import FinalAnswer, Thought, ToolCall
from agentic_kernel_engine.plans.ending import PlannerError
from agentic_kernel_engine.plans.plan import Delta, Usage
from agentic_kernel_engine.seams.middlewares import Fallback, Retry
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.planners import ScriptedPlanner, Streamed
from agentic_kernel_engine.texts import Texts

from ..conftest import Crash
from ..scripting import Runner, new_task

DONE = FinalAnswer("done")


class Stumbling:
    """A planner whose first call fails in the middle of its text."""

    def __init__(self, *then: Any, said: tuple[Delta, ...] = (Delta("Hello "),)) -> None:
        self.calls = 0
        self._said = said
        self._then = then

    async def plan(self, context: Context) -> Any:
        self.calls += 1
        pieces = self._said if self.calls == 1 else self._then
        for piece in pieces:
            yield piece
        if self.calls == 1:
            raise PlannerError("test/cut", "the connection was lost")
        yield DONE


def deltas(events: list[Event]) -> list[dict[str, Any]]:
    return [dict(event.data) for event in events if event.type == "run.delta"]


async def told(runner: Runner, task: Task) -> Texts:
    return Texts(await runner.events(task))


@pytest.mark.rule("R20")
async def test_a_retried_answer_replaces_the_text_of_the_one_it_retries(runner: Runner) -> None:
    """It used to leave "Hello Hello world"."""
    planner = Stumbling(Delta("Hello "), Delta("world"))
    done = await runner.run(planner=planner, middleware=[Retry(["test/cut"], first=0.0)])
    assert done.result == "done"
    events = await runner.events(done)
    assert Texts(events).text() == "Hello world"
    assert deltas(events) == [{"text": "Hello ", "at": 0}, {"text": "Hello world", "at": 0}]


@pytest.mark.rule("R20")
@pytest.mark.parametrize("streams", [True, False])
async def test_a_fallback_leaves_no_text_of_the_planner_that_failed(
    runner: Runner, streams: bool
) -> None:
    thought = Delta("hm", "reasoning")
    other = ScriptedPlanner(Streamed(thought, plan=DONE) if streams else DONE)
    planner = Stumbling(said=(Delta("Hello "), Delta("so", "reasoning")))
    done = await runner.run(planner=planner, middleware=[Fallback(other)])
    texts = await told(runner, done)
    assert texts.text() == ""
    assert texts.text("reasoning") == ("hm" if streams else "")


@pytest.mark.rule("R20")
async def test_each_answer_that_streams_is_a_turn_of_its_own(runner: Runner) -> None:
    script = [
        Streamed("I add. ", plan=ToolCall("add", {"a": 1, "b": 2})),
        Thought("no text"),
        Streamed("It is ", "3.", plan=FinalAnswer("3")),
    ]
    done = await runner.run(*script)
    events = await runner.events(done)
    streamed = [
        (event.type, event.data.get("text"), event.data.get("at"))
        for event in events
        if event.type in ("run.delta", "run.turn", "plan.made")
    ]
    made = [each[0] for each in streamed]
    assert made == [
        "run.delta", "run.turn", "plan.made", "plan.made", "run.delta", "run.turn", "plan.made",
    ]  # fmt: skip
    assert [each[1:] for each in streamed if each[0] == "run.delta"] == [
        ("I add. ", 0), ("It is 3.", 0),
    ]  # fmt: skip


@pytest.mark.rule("R20")
async def test_after_a_crash_the_answer_begins_anew_and_its_reservation_stays_spent(
    runner: Runner, crash: Crash
) -> None:
    """The text was flushed: the record is not fresh any more, and the state is that of before."""
    spoken = asyncio.Event()

    async def slowly() -> None:
        if spoken.is_set():
            await asyncio.Event().wait()
        spoken.set()

    worst = Usage(100, 50, cost=1.0)
    answers = ScriptedPlanner(Streamed("Hello ", "wor", plan=DONE, pause=slowly), worst=worst)
    task = new_task()
    first = runner.mortal(planner=answers)
    await first.dispatch(task)
    while (await told(runner, task)).text() != "Hello ":
        await asyncio.sleep(0.001)
    record = await runner.store.load(task.id)
    assert record.attempts == 1
    await crash(first)
    again = ScriptedPlanner(Streamed("Hello ", "world", plan=DONE), worst=worst)
    async with runner.host(planner=again) as second:
        done = await second.wait(task.id)
        outcome = await second.outcome(task.id)
    assert done.result == "done"
    assert (await told(runner, task)).text() == "Hello world"
    types = [event.type for event in outcome.events]
    assert types.count("run.started") == types.count("run.entered") == 1
    assert outcome.usage == worst


@pytest.mark.rule("R20")
async def test_text_of_an_entry_that_died_does_not_outlive_the_turn(
    runner: Runner, crash: Crash
) -> None:
    async def for_ever() -> None:
        if not runner_said:
            runner_said.append(1)
            return
        await asyncio.Event().wait()

    runner_said: list[int] = []
    task = new_task()
    first = runner.mortal(Streamed("Hello ", "x", plan=DONE, pause=for_ever))
    await first.dispatch(task)
    while (await told(runner, task)).text() != "Hello ":
        await asyncio.sleep(0.001)
    await crash(first)
    async with runner.host(DONE) as second:
        await second.wait(task.id)
    assert (await told(runner, task)).text() == ""


@pytest.mark.rule("R20")
async def test_after_a_crash_a_planner_is_given_the_durable_text(
    runner: Runner, crash: Crash
) -> None:
    given: list[str] = []

    async def for_ever() -> None:
        if runner_said:
            await asyncio.sleep(60)
        runner_said.append(1)

    def answer(context: Context) -> Any:
        given.append(context.continuation)
        if len(given) == 1:
            return Streamed("Hello ", "x", plan=DONE, pause=for_ever)
        return Streamed(Delta("world", at=len(context.continuation)), plan=DONE)

    runner_said: list[int] = []
    task = new_task()
    first = runner.mortal(answer)
    await first.dispatch(task)
    while (await told(runner, task)).text() != "Hello ":
        await asyncio.sleep(0.001)
    await crash(first)
    async with runner.host(answer) as second:
        await second.wait(task.id)
    assert given == ["", "Hello "]
    assert (await told(runner, task)).text() == "Hello world"


@pytest.mark.rule("R20")
async def test_after_an_extra_the_answer_to_come_is_another_one(runner: Runner) -> None:
    given: list[str] = []
    spoken = asyncio.Event()

    async def slowly() -> None:
        spoken.set()
        await asyncio.sleep(0.002)

    def answer(context: Context) -> Any:
        given.append(context.continuation)
        return DONE if len(given) > 1 else Streamed(*["more "] * 500, plan=DONE, pause=slowly)

    async with runner.host(answer) as host:
        task = new_task()
        await host.dispatch(task)
        await spoken.wait()
        await host.pause(task.id)
        await host.wait(task.id, TaskStatus.PAUSED)
        await host.resume(task.id, "Make it short.")
        await host.wait(task.id)
    assert given == ["", ""]


@pytest.mark.rule("R20")
@pytest.mark.parametrize("continues", [True, False])
async def test_after_a_pause_a_planner_says_if_it_continues(
    runner: Runner, continues: bool
) -> None:
    spoken = asyncio.Event()

    async def slowly() -> None:
        spoken.set()
        await asyncio.sleep(0.002)

    def answer(context: Context) -> Any:
        begun = context.continuation
        if not begun:
            return Streamed(*["more "] * 500, plan=DONE, pause=slowly)
        if continues:
            return Streamed(Delta("and ", at=len(begun)), "more", plan=DONE)
        return Streamed("All ", "anew", plan=DONE)

    async with runner.host(answer) as host:
        task = new_task()
        await host.dispatch(task)
        await spoken.wait()
        await asyncio.sleep(0.2)
        await host.pause(task.id)
        paused = await host.wait(task.id, TaskStatus.PAUSED)
        begun = (await told(runner, task)).text()
        assert paused.status is TaskStatus.PAUSED
        assert begun.startswith("more more ")
        await host.resume(task.id)
        await host.wait(task.id)
    assert (await told(runner, task)).text() == (begun + "and more" if continues else "All anew")


@pytest.mark.rule("R20")
@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ((Delta("Hello"), Delta("p", at=3)), "Help"),
        ((Delta("Hello"), Delta("Bye", at=0), Delta(" now")), "Bye now"),
        ((Delta("a", "arguments", at=7), Delta("Hello")), "Hello"),
    ],
)
async def test_a_planner_may_take_text_back(
    runner: Runner, pieces: tuple[Delta, ...], text: str
) -> None:
    observer = InMemoryObserver()
    loop = Loop(ScriptedPlanner(Streamed(*pieces, plan=DONE)))
    async with Host(loop, runner.store, observer=observer) as host:
        done = await host.run(new_task())
    assert (await told(runner, done)).text() == text
    assert Texts(event for _, event in observer.events if event.id is None).text() == text


@pytest.mark.rule("R20")
@pytest.mark.parametrize("at", [-1, 2, 1.0, True, "0"])
async def test_a_piece_without_a_possible_place_is_a_bad_plan(runner: Runner, at: Any) -> None:
    done = await runner.run(Streamed("a", Delta("b", at=at), plan=DONE))
    assert done.failure is not None
    assert done.failure.code == "engine/bad_plan"
    assert "Delta.at" in done.failure.message
