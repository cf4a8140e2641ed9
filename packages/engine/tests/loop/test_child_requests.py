"""A child asks people: its request surfaces at the root, and their answer reaches the child."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Loop
from agentic_kernel_engine.plans.action import FinalAnswer, ToolCall
from agentic_kernel_engine.seams.planner import Context

from ..approving import AskForWrites, write
from ..delegating import Roles, last, told
from ..families import (
    DEPTHS,
    WAYS,
    Family,
    approval,
    asks,
    ignored,
)
from ..scripting import World, new_task


@WAYS
@DEPTHS
@pytest.mark.parametrize("granted", [True, False])
async def test_an_approval_is_asked_for_and_decided_at_the_root(
    way: str, depth: int, granted: bool, world: World
) -> None:
    family = Family(way, depth, world)
    async with family.hosts() as (host, *_), Host(store=family.store) as control:
        task = new_task(instructions="writes")
        await host.dispatch(task)
        note = await asks(host, task)
        everybody = await family.tasks()
        assert [each.status for each in everybody] == [TaskStatus.PAUSED] * (depth + 1)
        (request,) = note["requests"]
        assert (note["kind"], note["children"]) == ("approval", [everybody[1].id])
        assert request["task"] == everybody[-1].id
        assert request["action"]["arguments"] == {"text": "a"}
        (own,) = everybody[-1].metadata["engine/waiting_for"]["requests"]
        assert request["digest"] == own["digest"]
        decide = control.approve if granted else control.deny
        await decide(task.id, request["digest"], by="ann", why="so")
        done = await host.wait(task.id)
        leaf = (await host.outcome(everybody[-1].id)).events
    assert done.status is TaskStatus.SUCCESS
    assert done.result[0] == ("" if granted else "policy_denied")
    assert world.done == (["write a"] if granted else [])
    said = [e.data for e in leaf if e.type in ("approval.given", "approval.refused")]
    assert said == [{"digest": request["digest"], "by": "ann", "why": "so"}]
    assert done.metadata["engine/waiting_for"] is None


@WAYS
@DEPTHS
async def test_a_question_is_answered_at_the_root(way: str, depth: int, world: World) -> None:
    family = Family(way, depth, world)
    async with family.hosts() as (host, *_), Host(store=family.store) as control:
        task = new_task(instructions="asks")
        await host.dispatch(task)
        note = await asks(host, task)
        assert (note["kind"], note["question"]) == ("question", "which?")
        assert note["task"] == (await family.tasks())[-1].id
        await control.answer(task.id, "that one", by="ann")
        assert (await host.wait(task.id)).result == ["that one"]
        events = (await host.outcome(task.id)).events
    assert "question.answered" not in [event.type for event in events], "it was not the root's"
    (on,) = [event.data for event in events if event.type == "decision.handed_on"]
    assert (on["digest"], on["by"]) == (note["digest"], "ann")


@WAYS
async def test_one_request_after_the_other_surfaces(way: str, world: World) -> None:
    family = Family(way, 2, world)
    async with family.hosts() as (host, *_):
        task = new_task(instructions="writes twice")
        await host.dispatch(task)
        known: set[str] = set()
        for _ in range(2):
            (request,) = (await asks(host, task, known))["requests"]
            known.add(request["digest"])
            await host.approve(task.id, request["digest"])
        assert (await host.wait(task.id)).result == "both"
    assert world.done == ["write a", "write b"]


@WAYS
async def test_a_childs_batch_is_approved_in_part(way: str, world: World) -> None:
    family = Family(way, 1, world)
    async with family.hosts() as (host, *_):
        task = new_task(instructions="writes a batch")
        await host.dispatch(task)
        one, other = (await asks(host, task))["requests"]
        await host.approve(task.id, one["digest"])
        await until_open(host, task, [other["digest"]])
        assert world.done == []
        await host.deny(task.id, other["digest"])
        assert (await host.wait(task.id)).result == "both"
    assert world.done == ["write a"]


async def until_open(host: Host, task: Task, digests: list[str]) -> None:
    """Wait until the Task waits for these and no other decisions."""
    async with asyncio.timeout(30):
        async for _ in host.stream(task.id):
            paused = await host.get(task.id)
            note: Any = paused.metadata.get("engine/waiting_for") or {}
            found = [each["digest"] for each in note.get("requests", ())]
            if paused.status is TaskStatus.PAUSED and found == digests:
                return
    raise AssertionError("the Task ended")


@WAYS
async def test_an_answer_said_twice_answers_one_question(way: str, world: World) -> None:
    """The second one is for what the Task showed at the time, which is answered by then."""
    family = Family(way, 1, world)
    async with family.hosts() as (host, *_), Host(store=family.store) as control:
        task = new_task(instructions="asks twice")
        await host.dispatch(task)
        first = await asks(host, task)
        entry = {"type": "engine/answer", "text": "this", "by": "ann"}
        await control.post(task.id, entry)
        await control.answer(task.id, "this", by="bob")
        second = await asks(host, task, {first["digest"]})
        assert second["question"] == "and then?"
        await control.answer(task.id, "that")
        assert (await host.wait(task.id)).result == ["this", "that"]


@WAYS
async def test_a_resume_without_a_decision_asks_again(way: str, world: World) -> None:
    family = Family(way, 1, world)
    async with family.hosts() as (host, *_):
        task = new_task(instructions="writes")
        await host.dispatch(task)
        note = await asks(host, task)
        await host.resume(task.id)
        await host.wait(task.id, TaskStatus.PAUSED)
        again = await asks(host, task)
        assert again == note
        await host.approve(task.id, "0" * 64, by="mallory")
        await host.wait(task.id, TaskStatus.PAUSED)
        assert await asks(host, task) == note
        assert world.done == []
        await host.approve(task.id, note["requests"][0]["digest"], by="ann")
        await host.wait(task.id)
        assert await ignored(host, task) == ["mallory"], "once no child may ask for it any more"
    assert world.done == ["write a"]


@WAYS
async def test_a_child_that_is_decided_about_directly_lets_its_parents_go_on(
    way: str, world: World
) -> None:
    family = Family(way, 2, world)
    async with family.hosts() as (host, *_), Host(store=family.store) as control:
        task = new_task(instructions="writes")
        await host.dispatch(task)
        (request,) = (await asks(host, task))["requests"]
        await control.approve(request["task"], request["digest"])
        assert (await host.wait(task.id)).result[0] == ""
    assert world.done == ["write a"]


@WAYS
async def test_a_child_that_is_killed_lets_its_parents_go_on(way: str, world: World) -> None:
    family = Family(way, 1, world)
    async with family.hosts() as (host, *_), Host(store=family.store) as control:
        task = new_task(instructions="writes")
        await host.dispatch(task)
        (request,) = (await asks(host, task))["requests"]
        await control.kill(request["task"])
        assert (await host.wait(task.id)).result["code"] == "cancelled"


@WAYS
async def test_a_kill_of_the_root_withdraws_it_all(way: str, world: World) -> None:
    family = Family(way, 3, world)
    async with family.hosts() as (host, *_), Host(store=family.store) as control:
        task = new_task(instructions="writes")
        await host.dispatch(task)
        await asks(host, task)
        await control.kill(task.id)
        for each in await family.tasks():
            assert (await host.wait(each.id)).status is TaskStatus.CANCELLED


@WAYS
async def test_other_processes_take_it_up_where_it_was(way: str, world: World) -> None:
    """All hosts are gone while it waits; it is decided without any, and run on by new ones."""
    family = Family(way, 3, world)
    task = new_task(instructions="writes")
    async with family.hosts() as (host, *_):
        await host.dispatch(task)
        (request,) = (await asks(host, task))["requests"]
    async with Host(store=family.store) as control:
        await control.approve(task.id, request["digest"])
    async with family.hosts() as (host, *_):
        assert (await host.wait(task.id)).result[0] == ""
    assert world.done == ["write a"]


async def test_agents_that_ask_side_by_side_ask_together(world: World) -> None:
    """Each gets its own decision; what one waits for does not keep the other from its work."""
    first, second = (
        Host(
            Loop(Roles(it=[write(text), told]), world.tools(), AskForWrites()),
            runtime_kinds=["expert"], grace=0, interval=0.01,
        )
        for text in ("a", "b")
    )  # fmt: skip

    class Asking:
        async def plan(self, context: Context) -> Any:
            if context.step == 0:
                return [ToolCall(name, {"instructions": "it"}) for name in ("one", "two")]
            return FinalAnswer([observation.output[0] for observation in last(context)])

    async with first, second:
        tools = [first.as_tool(name="one", description=""),
                 second.as_tool(name="two", description="")]  # fmt: skip
        async with Host(Loop(Asking(), tools), grace=0, interval=0.01) as host:
            task = new_task()
            await host.dispatch(task)
            seen: dict[str, str] = {}
            while len(seen) < 2:
                note = await asks(host, task, set(seen))
                for request in note["requests"]:
                    seen.setdefault(request["digest"], request["action"]["arguments"]["text"])
                if len(seen) < 2:
                    await host.resume(task.id)
            verdicts = {text: digest for digest, text in seen.items()}
            await host.post(task.id, approval(verdicts["a"], True))
            await host.decide(task.id, approval(verdicts["b"], False))
            assert (await host.wait(task.id)).result == ["", "policy_denied"]
    assert world.done == ["write a"]
