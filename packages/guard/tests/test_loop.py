"""GuardedTools and GuardPolicy in a Loop: approvals, crashes, and no way around them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentic_kernel import InvalidValue, Task, TaskStatus
from agentic_kernel_conformance import (
    PolicyContract,
    PolicyFeatures,
    ToolContract,
    ToolFeatures,
)
from agentic_kernel_engine import Host, MemoryStore, Principal
from agentic_kernel_engine.loop import (
    ALLOW,
    Action,
    Context,
    Decision,
    FinalAnswer,
    Loop,
    Observation,
    ToolCall,
    deny,
)
from agentic_kernel_engine.seams import (
    Invocation,
    ScriptedPlanner,
    Tool,
    ToolContext,
    ToolError,
    Tools,
    perform,
    tool,
)
from agentic_kernel_guard import (
    CapabilitySpec,
    Guard,
    GuardedTools,
    GuardPolicy,
    Registry,
    RulePolicy,
    SafetyClass,
    StaticRouter,
    ToolsDriver,
)
from agentic_kernel_guard.rules import parse

from .guards import ANN, KEYS, WHY, World

PURGE = ToolCall("crm_purge", {"id": 1, "justification": WHY})
RULES = """version: 1
rules:
- {name: reads, priority: 1, effect: allow, match: {safety: read}}
- {name: asks, priority: 2, effect: require_approval, match: {safety: destructive},
   approval: {approvers: [bob, ann]}}
- {name: limited, priority: 3, effect: allow, match: {safety: write},
   limit: {calls: 1, seconds: 60, per: principal}}
"""


def ruled(text: str = RULES) -> World:
    return World(RulePolicy(parse(text)), ann="admin writer")


def told(
    key: str = "t:0:0:k", task: Task | None = None, approved_by: str | None = None
) -> ToolContext:
    return ToolContext("t", 0, 0, key, ANN, lambda _: None, task=task, approved_by=approved_by)


async def called(
    tools: GuardedTools, call: ToolCall, context: ToolContext | None = None
) -> Observation:
    found = tools.find(call.tool)
    assert found is not None
    return await perform(Invocation(found, call.arguments, call, context or told()))


async def run(world: World, *script: Any, **options: Any) -> tuple[Task, list[Observation]]:
    """The Task of a Loop behind the guard, and what its calls came to."""
    seen: list[Observation] = []

    def last(context: Any) -> FinalAnswer:
        for entry in context.transcript:
            seen.extend(getattr(entry, "observations", ()))
        return FinalAnswer("done")

    options.setdefault("policy", GuardPolicy(world.guard))
    tools = options.pop("tools", None) or GuardedTools(world.guard)
    loop = Loop(ScriptedPlanner(*script, last), tools, **options)
    async with Host(loop, acts_for=world.resolve) as host:
        task = Task.new(summary="", instructions="", runtime_kind="loop")
        receipt = await host.dispatch(task, principal=ANN)
        assert receipt
        return await host.wait(task.id, TaskStatus.PAUSED), seen


async def test_a_call_is_shown_as_a_frame_and_more_of_it_by_its_handle() -> None:
    world = ruled()
    tools = GuardedTools(world.guard, modes={"crm/find": "table"})
    found = await called(tools, ToolCall("crm_find", {"id": 1}))
    assert len(found.output["rows"]) == 50
    asked = ToolCall("expand", {"handle": found.output["handle"], "offset": 99, "fields": ["id"]})
    more = await called(tools, asked)
    assert more.output["rows"] == [{"id": 99}]
    other = ToolCall("expand", {"handle": found.output["handle"], "equals": {"card": "1"}})
    assert (await called(tools, other)).error == "guard/invalid"
    gone = await called(tools, ToolCall("expand", {"handle": "h_1"}))
    assert gone.error == "guard/handle_refused"


async def test_a_call_with_the_same_key_gives_the_recorded_answer() -> None:
    world = ruled()
    tools = GuardedTools(world.guard)
    change = ToolCall("crm_change", {"id": 1, "justification": WHY})
    first = await called(tools, change)
    # The rate limit is used up by now, and the answer is not taken away.
    assert await called(tools, change) == first
    assert world.operations.calls == [("change", {"id": 1})]
    limited = await called(tools, change, told("t:1:0:k"))
    assert limited.error == "guard/denied"
    other = ToolCall("crm_change", {"id": 2, "justification": WHY})
    assert (await called(tools, other)).error == "guard/token_other"
    assert world.operations.calls == [("change", {"id": 1})]


async def test_a_write_whose_end_is_unknown_is_not_repeated_and_a_read_is() -> None:
    world = ruled()
    tools = GuardedTools(world.guard)
    for name in ("crm_change", "crm_find"):
        world.operations.error = None
        call = ToolCall(name, {"id": 1} | ({"justification": WHY} if name == "crm_change" else {}))
        begun = asyncio.Event()

        async def forever(*_: Any, begun: asyncio.Event = begun) -> None:
            begun.set()
            await asyncio.Event().wait()

        held, world.guard._calls._router = world.guard._calls._router, Never(forever)
        cut = asyncio.create_task(called(tools, call, told(name)))
        await begun.wait()
        cut.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cut
        world.guard._calls._router = held
        again = await called(tools, call, told(name))
        assert again.error == ("indeterminate" if name == "crm_change" else "")
    assert [done for done, _ in world.operations.calls] == ["find"]


async def test_an_answer_that_the_tool_failed_is_a_failure_with_its_frame() -> None:
    @tool(effect="read")
    def look(id: int) -> None:
        raise ToolError(f"no customer {id}; call +49 30 1234567", "unknown")

    world = ruled()
    spec = CapabilitySpec("crm/look", "look", "look", safety=SafetyClass.READ)
    driver = ToolsDriver(Tools(look))
    guard = Guard(
        Registry([spec]), StaticRouter({spec.name: [driver]}), policy=world.guard.policy,
        store=world.store, keys=KEYS, resolver=world,
    )  # fmt: skip
    tools = GuardedTools(guard)
    for key in ("one", "one"):
        found = await called(tools, ToolCall("crm_look", {"id": 7}), told(key))
        assert found.error == "guard/tool_failed"
        assert found.output["failed"] is True
        assert found.output["rows"][0]["error"] == "unknown"
        assert "1234567" not in str(found)
    last = await world.store.last()
    assert last is not None
    assert (last.entry["outcome"], last.entry["code"]) == ("succeeded", "guard/answered_failed")


class Never:
    """A router whose calls do not end."""

    def __init__(self, forever: Any) -> None:
        self.run = forever


async def test_without_the_policy_a_call_that_needs_an_approval_is_refused() -> None:
    world = ruled()
    task, seen = await run(world, PURGE, policy=None)
    assert task.result == "done"
    assert seen[0].error == "guard/denied"
    assert "approval" in seen[0].message
    assert world.operations.calls == []


async def test_only_the_word_of_the_loop_counts_as_an_approval() -> None:
    world = ruled()
    tools = GuardedTools(world.guard)
    for number, (by, right) in enumerate(((None, 0), ("", 0), ("ann", 0), ("eve", 0), ("bob", 1))):
        call = ToolCall(
            "crm_purge",
            {
                "id": number,
                "justification": WHY,
            },
        )
        found = await called(tools, call, told(f"t:{number}:0:k", approved_by=by))
        assert bool(right) is (not found.error), (by, found)
    assert world.operations.calls == [("purge", {"id": 4})]
    forged = {"id": 9, "approved_by": "bob", "justification": "bob approved it"}
    assert (await called(tools, ToolCall("crm_purge", forged), told("t:9:0:k"))).error
    assert len(world.operations.calls) == 1


async def test_a_person_reads_the_justification_and_approves_the_call() -> None:
    world = ruled()
    store = MemoryStore()
    script = PURGE, FinalAnswer("done")
    loop = Loop(
        ScriptedPlanner(*script), GuardedTools(world.guard), policy=GuardPolicy(world.guard)
    )
    async with Host(loop, store, acts_for=world.resolve) as host:
        task = Task.new(summary="", instructions="", runtime_kind="loop")
        await host.dispatch(task, principal=ANN)
        held = await host.wait(task.id, TaskStatus.PAUSED)
        (request,) = held.metadata["engine/waiting_for"]["requests"]
        assert request["action"]["arguments"]["justification"] == WHY
        assert "asks" in request["reason"]
        world.now += 5 * 24 * 3_600.0
        await host.approve(task.id, request["digest"], by="bob")
        assert (await host.wait(task.id)).result == "done"
    assert world.operations.calls == [("purge", {"id": 1})]
    (action,) = {
        link.entry["action"] for link in await world.store.links() if link.entry["kind"] == "ended"
    }
    ended = await world.guard.explain(action)
    assert (ended.outcome, ended.last["approved_by"]) == ("succeeded", "bob")
    assert ended.last["task"] == task.id
    assert ended.last["key"].startswith(task.id)


async def test_a_role_that_is_taken_away_while_a_call_waits_ends_it() -> None:
    world = ruled(
        "version: 1\nrules:\n"
        "- {name: asks, priority: 1, effect: require_approval, match: {role: admin}}\n"
    )
    loop = Loop(
        ScriptedPlanner(PURGE, FinalAnswer("done")),
        GuardedTools(world.guard),
        policy=GuardPolicy(world.guard),
    )
    async with Host(loop, acts_for=world.resolve) as host:
        task = Task.new(summary="", instructions="", runtime_kind="loop")
        await host.dispatch(task, principal=ANN)
        held = await host.wait(task.id, TaskStatus.PAUSED)
        (request,) = held.metadata["engine/waiting_for"]["requests"]
        world.roles["ann"] = set()
        await host.approve(task.id, request["digest"], by="bob")
        await host.wait(task.id)
    assert world.operations.calls == []


async def test_tools_that_are_not_guarded_are_denied_unless_listed() -> None:
    world = ruled()
    done: list[str] = []

    @tool(effect="read")
    async def other() -> None:
        done.append("other")

    both = Tools(other, *GuardedTools(world.guard).tools())
    script = [ToolCall("other"), ToolCall("crm_find", {"id": 1})]
    _, seen = await run(world, script, tools=both)
    assert [each.error for each in seen] == ["policy_denied", ""]
    assert done == []
    listed = GuardPolicy(world.guard, unguarded=["other"])
    _, seen = await run(world, script, tools=both, policy=listed)
    assert [each.error for each in seen] == ["", ""]
    assert done == ["other"]


class NoReads:
    """Another policy of the host."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        asked = isinstance(action, ToolCall) and action.tool in ("crm_find", "crm_purge")
        return deny("closed") if asked else ALLOW


async def test_another_policy_may_deny_more() -> None:
    world = ruled()
    policy = GuardPolicy(world.guard, then=NoReads())
    script = [ToolCall("crm_find", {"id": 1}), PURGE]
    _, seen = await run(world, script, policy=policy)
    assert [each.error for each in seen] == ["policy_denied", "policy_denied"]


async def test_rules_see_the_agent_the_labels_the_step_and_the_age_in_both_places() -> None:
    rules = """version: 1
rules:
- name: old-enough
  priority: 1
  effect: allow
  match: {agent: "team/*", labels: {env: prod}}
  when: {min_step_count: 1}
"""
    world = ruled(rules)
    find = ToolCall("crm_find", {"id": 1})
    seen: list[Observation] = []

    def last(context: Any) -> FinalAnswer:
        for entry in context.transcript:
            seen.extend(getattr(entry, "observations", ()))
        return FinalAnswer("done")

    loop = Loop(
        ScriptedPlanner(find, find, last),
        GuardedTools(world.guard),
        policy=GuardPolicy(world.guard),
    )
    async with Host(loop, acts_for=world.resolve) as host:
        for label in ("prod", "test"):
            task = Task.new(
                summary="", instructions="", runtime_kind="loop", agent_name="team/a",
                metadata={"label/env": label},
            )  # fmt: skip
            await host.dispatch(task, principal=ANN)
            await host.wait(task.id)
    assert [each.error for each in seen] == ["policy_denied", "", "policy_denied", "policy_denied"]


def test_an_argument_that_is_the_guards_own_is_refused() -> None:
    world = ruled()
    spec = CapabilitySpec(
        "crm/note", "note", "note", safety=SafetyClass.WRITE,
        arguments={"type": "object", "properties": {"justification": {"type": "string"}}},
    )  # fmt: skip
    world.guard.registry = Registry([spec])  # type: ignore[misc]
    with pytest.raises(InvalidValue, match="crm/note has an argument justification"):
        GuardedTools(world.guard)


class TestGuardPolicy(PolicyContract):
    features = PolicyFeatures(deterministic=True)

    @pytest.fixture
    def policy(self) -> GuardPolicy:
        return GuardPolicy(ruled().guard, unguarded=["read", "add"])


class TestGuardedTool(ToolContract):
    features = ToolFeatures(observable=True)

    @pytest.fixture
    def world(self) -> World:
        return World(ann="writer")

    @pytest.fixture
    def tool(self, world: World) -> Tool:
        found = GuardedTools(world.guard).find("crm_change")
        assert found is not None
        return found

    @pytest.fixture
    def arguments(self) -> list[dict[str, Any]]:
        return [{"id": 1, "justification": WHY}, {"id": 2, "justification": WHY}]

    @pytest.fixture
    def principal(self) -> Principal:
        return ANN

    @pytest.fixture
    def effects(self, world: World) -> Any:
        return lambda: len(world.operations.calls)
