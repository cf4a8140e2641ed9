"""Approvals: bound to the exact action, used once, decided by people in any process."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel import IllegalTransition, InvalidValue, Task
from agentic_kernel_engine import Host
from agentic_kernel_engine.plans.action import Action, FinalAnswer, ToolCall, digest
from agentic_kernel_engine.plans.decision import ALLOW, Decision, require_approval
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.policies import PermissionPolicy, PolicyPipeline
from agentic_kernel_engine.tools.tool import ToolContext, Tools, tool

from ..approving import AskForWrites, paused, write
from ..scripting import Runner, World, last_turn, new_task


async def test_an_approved_action_is_done_once(runner: Runner, world: World) -> None:
    script = (write("a"), FinalAnswer("done"))
    async with runner.host(*script, policy=AskForWrites()) as host, Host(store=runner.store) as two:
        task = new_task()
        await host.dispatch(task)
        (request,) = await paused(host, id=task.id)
        assert request["action"] == {
            "type": "tool_call", "tool": "write", "arguments": {"text": "a"}
        }  # fmt: skip
        assert world.done == []
        await two.approve(task.id, request["digest"], by="ann", why="fine")
        done = await host.wait(task.id)
    assert (done.result, world.done) == ("done", ["write a"])
    (given,) = [e.data for e in await runner.events(task) if e.type == "approval.given"]
    assert given == {"digest": request["digest"], "by": "ann", "why": "fine"}


async def test_a_tool_learns_for_which_task_it_is_called_and_who_approved_the_call(
    runner: Runner,
) -> None:
    told: dict[str, tuple[str, str | None]] = {}

    def known(context: ToolContext) -> tuple[str, str | None]:
        assert context.task is not None
        assert context.task.id == context.task_id
        return context.task.instructions, context.approved_by

    @tool(effect="write")
    async def write(text: str, context: ToolContext) -> None:
        told[text] = known(context)

    @tool(effect="write", name="put")
    def aside(text: str, context: ToolContext) -> None:
        told[text] = known(context)

    @tool(effect="read")
    async def look(text: str, context: ToolContext) -> None:
        told[text] = known(context)

    calls = [ToolCall("write", {"text": "a"}), ToolCall("put", {"text": "b"})]
    script = ([*calls, ToolCall("look", {"text": "c"})], FinalAnswer("done"))
    options = {"policy": AskForWrites(), "tools": Tools(write, aside, look)}
    async with runner.host(*script, **options) as host:
        task = new_task()
        await host.dispatch(task)
        first, second = await paused(host, id=task.id)
        await host.approve(task.id, first["digest"], by="ann")
        (left,) = await paused(host, id=task.id)
        assert left["digest"] == second["digest"]
        await host.approve(task.id, second["digest"])
        assert (await host.wait(task.id)).result == "done"
    work = task.instructions
    assert told == {"a": (work, "ann"), "b": (work, ""), "c": (work, None)}


async def test_a_refused_action_is_an_observation(runner: Runner, world: World) -> None:
    seen: list[str] = []

    def look(context: Context) -> Any:
        seen.extend(o.message for o in last_turn(context).observations)
        return FinalAnswer("done")

    async with runner.host(write("a"), look, policy=AskForWrites()) as host:
        task = new_task()
        await host.dispatch(task)
        (request,) = await paused(host, id=task.id)
        await host.deny(task.id, request["digest"], by="bob", why="too late")
        assert (await host.wait(task.id)).result == "done"
    assert seen == ["bob refused it: too late"]
    assert world.done == []


async def test_a_refusal_may_end_the_run(runner: Runner) -> None:
    options = {"policy": AskForWrites(), "on_deny": "end"}
    async with runner.host(write("a"), FinalAnswer("done"), **options) as host:
        task = new_task()
        await host.dispatch(task)
        (request,) = await paused(host, id=task.id)
        await host.deny(task.id, request["digest"], by="bob")
        done = await host.wait(task.id)
    assert done.failure is not None
    assert done.failure.code == "engine/denied"


async def test_a_batch_is_approved_in_part(runner: Runner, world: World) -> None:
    batch = [write("a"), ToolCall("add", {"a": 1, "b": 1}), write("b"), write("c")]
    async with runner.host(batch, FinalAnswer("done"), policy=AskForWrites()) as host:
        task = new_task()
        await host.dispatch(task)
        requests = await paused(host, id=task.id)
        assert len(requests) == 3
        await host.approve(task.id, requests[0]["digest"])
        left = await paused_again(host, task)
        assert [each["digest"] for each in left] == [each["digest"] for each in requests[1:]]
        assert world.done == [], "nothing is begun before all is decided"
        await host.deny(task.id, requests[1]["digest"])
        await paused_again(host, task)
        await host.approve(task.id, requests[2]["digest"])
        assert (await host.wait(task.id)).result == "done"
    assert world.done == ["write a", "add 1 1", "write c"]


async def paused_again(host: Host, task: Task) -> list[dict[str, Any]]:
    return await paused(host, id=task.id)


@pytest.mark.parametrize("other", [write("b"), write("a "), ToolCall("put", {"text": "a"})])
async def test_an_approval_fits_no_other_action(
    runner: Runner, world: World, other: ToolCall
) -> None:
    async with runner.host(write("a"), FinalAnswer("done"), policy=AskForWrites()) as host:
        task = new_task()
        await host.dispatch(task)
        await paused(host, id=task.id)
        await host.approve(task.id, digest(other, f"{task.id}:0:0"), by="mallory")
        await paused(host, id=task.id)
    assert world.done == []
    ignored = [e.data["by"] for e in await runner.events(task) if e.type == "approval.ignored"]
    assert ignored == ["mallory"]


async def test_an_approval_is_used_once(runner: Runner, world: World) -> None:
    """The same action again needs an approval again, also one given k times at once."""
    script = (write("a"), write("a"), FinalAnswer("done"))
    async with runner.host(*script, policy=AskForWrites()) as host:
        task = new_task()
        await host.dispatch(task)
        (first,) = await paused(host, id=task.id)
        for _ in range(3):
            await host.approve(task.id, first["digest"], by="ann")
        (second,) = await paused(host, id=task.id)
        assert second["digest"] != first["digest"], "it is asked for again"
        assert world.done == ["write a"]
        await host.approve(task.id, second["digest"])
        assert (await host.wait(task.id)).result == "done"
    assert world.done == ["write a", "write a"]


async def test_a_policy_that_raises_denies(runner: Runner, world: World) -> None:
    class Broken:
        async def authorize(self, action: Action, context: Context) -> Decision:
            if isinstance(action, FinalAnswer):
                return ALLOW
            raise RuntimeError("no rules loaded")

    task = await runner.run(write("a"), FinalAnswer("done"), policy=Broken())
    assert (task.result, world.done) == ("done", [])


async def test_decisions_about_what_has_ended_are_refused(runner: Runner) -> None:
    async with runner.host(FinalAnswer("done")) as host:
        task = await host.run(new_task())
        with pytest.raises(IllegalTransition):
            await host.approve(task.id, "0" * 64)
        with pytest.raises(InvalidValue):
            await host.approve(task.id, "")


@pytest.mark.rule("R12")
async def test_the_first_decision_about_an_action_counts_and_a_later_one_is_ignored(
    runner: Runner, world: World
) -> None:
    """Both wait in the inbox before a Host looks at them."""
    async with runner.host(write("a"), FinalAnswer("done"), policy=AskForWrites()) as host:
        await host.dispatch(task := new_task())
        (request,) = await paused(host, id=task.id)
    about = {"type": "engine/approval", "digest": request["digest"]}
    async with Host(store=runner.store) as plane:
        await plane.post(task.id, {**about, "granted": False, "by": "bob"})
        await plane.post(task.id, {**about, "granted": True, "by": "ann"})
        await plane.resume(task.id)
    async with runner.host(write("a"), FinalAnswer("done"), policy=AskForWrites()) as host:
        assert (await host.wait(task.id)).result == "done"
    assert world.done == []
    types = [event.type for event in await runner.events(task)]
    assert types.count("approval.refused") == types.count("approval.ignored") == 1
    assert "approval.given" not in types


async def test_people_are_not_asked_about_a_call_that_cannot_be_made(runner: Runner) -> None:
    """The policy hides the tool from the planner, which calls it all the same."""

    class Asks:
        async def authorize(self, action: Any, context: Any) -> Decision:
            return require_approval("every call") if isinstance(action, ToolCall) else ALLOW

    @tool(scopes=["notes"])
    async def note() -> None:
        """Take a note."""

    policy = PolicyPipeline(PermissionPolicy(), Asks())
    for call in (ToolCall("note", {}), ToolCall("unknown", {})):
        task = await runner.run(call, FinalAnswer(1), policy=policy, tools=[note])
        assert task.result == 1
        (observed,) = [e for e in await runner.events(task) if e.type == "step.observed"][:1]
        assert observed.data["observations"][0]["error"] == "unknown_tool"
