"""What a child asks people for surfaces at the root, and what they say there reaches the child."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Loop, MemoryStore, Store
from agentic_kernel_engine.plans.action import AskUser, FinalAnswer, ToolCall
from agentic_kernel_engine.plans.transcript import UserMessage
from agentic_kernel_engine.seams.planner import Context

from .conftest import World, new_task
from .delegating import Roles, join, last, spawn, told
from .test_approvals import AskForWrites, write


def heard(context: Context) -> FinalAnswer:
    """The final answer is what people said."""
    return FinalAnswer([e.text for e in context.transcript[1:] if isinstance(e, UserMessage)])


LEAVES: dict[str, list[Any]] = {
    "writes": [write("a"), told],
    "writes twice": [write("a"), write("b"), FinalAnswer("both")],
    "writes a batch": [[write("a"), write("b")], FinalAnswer("both")],
    "asks": [AskUser("which?"), heard],
    "asks twice": [AskUser("which?"), AskUser("and then?"), heard],
}


class Family:
    """A chain of Tasks, each of which gives its work to the next and returns what came of it.

    Args:
        way: ``spawn``, on one Host; or ``tool``, on a Host of its own for each.
        depth: How many Tasks are above the one that works.
    """

    def __init__(self, way: str, depth: int, world: World, store: Store | None = None) -> None:
        self.store = store or MemoryStore()
        self._way = way
        self._depth = depth
        self._world = world

    @asynccontextmanager
    async def hosts(self) -> AsyncIterator[list[Host]]:
        """The Hosts, the root's first."""
        async with AsyncExitStack() as stack:
            if self._way == "spawn":
                yield [await stack.enter_async_context(self._one())]
                return
            hosts: list[Host] = []
            for level in reversed(range(self._depth + 1)):
                below = [hosts[-1].as_tool(name="below", description="")] if hosts else []
                planner = Roles(**LEAVES) if not hosts else Calling()
                loop = Loop(planner, [*self._world.tools(), *below], AskForWrites())
                kinds = ["loop" if level == 0 else f"level{level}"]
                made = Host(loop, self.store, runtime_kinds=kinds, grace=0, interval=0.01)
                hosts.append(await stack.enter_async_context(made))
            yield hosts[::-1]

    def _one(self) -> Host:
        loop = Loop(Spawning(self._depth), self._world.tools(), AskForWrites())
        return Host(loop, self.store, grace=0, interval=0.01)

    async def tasks(self) -> list[Task]:
        """All Tasks, the root first."""
        found = [record.task for record in await self.store.find()]
        return sorted(found, key=lambda task: task.metadata.get("engine/depth", 0))


class Calling:
    """A planner that has a tool do it all."""

    async def plan(self, context: Context) -> Any:
        if context.step == 0:
            return ToolCall("below", {"instructions": context.task.instructions})
        return FinalAnswer(last(context)[0].output)


class Spawning:
    """A planner that has a child do it all, down to the lowest."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._leaf = Roles(**LEAVES)

    async def plan(self, context: Context) -> Any:
        if context.task.metadata.get("engine/depth", 0) == self._depth:
            return await self._leaf.plan(context)
        match context.step:
            case 0:
                return spawn(context.task.instructions)
            case 1:
                return join(context)
        output = last(context)[0].output
        return FinalAnswer(output.get("result", output))


WAYS = pytest.mark.parametrize("way", ["spawn", "tool"])
DEPTHS = pytest.mark.parametrize("depth", [1, 3])


async def asks(host: Host, task: Task, digests: set[str] | None = None) -> Any:
    """What the Task waits for, once that is something new."""
    async with asyncio.timeout(30):
        async for _ in host.stream(task.id):
            now = await host.get(task.id)
            note: Any = now.metadata.get("engine/waiting_for")
            if now.status is TaskStatus.PAUSED and note is not None:
                found = {each["digest"] for each in note.get("requests", [note])}
                if found - (digests or set()):
                    return note
    raise AssertionError(await host.get(task.id))


async def ignored(host: Host, task: Task) -> list[str]:
    """Whose decisions came to nothing."""
    events = (await host.outcome(task.id)).events
    return [event.data["by"] for event in events if event.type == "approval.ignored"]


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


def approval(digest: str, granted: bool) -> dict[str, Any]:
    return {"type": "engine/approval", "digest": digest, "granted": granted, "by": "", "why": ""}
