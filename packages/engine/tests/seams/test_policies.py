"""Policies that come with the engine: each in a run that goes otherwise without it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from agentic_kernel import InvalidValue, Task, TaskStatus
from agentic_kernel_engine.plans.action import Action, FinalAnswer, Thought, ToolCall
from agentic_kernel_engine.plans.decision import (
    ALLOW,
    Decision,
    Verdict,
    deny,
    require_approval,
    stop,
)
from agentic_kernel_engine.plans.limits import Limits, Spent, remaining
from agentic_kernel_engine.principal import Principal
from agentic_kernel_engine.seams.planner import Context
from agentic_kernel_engine.seams.policies import (
    BasicPolicy,
    PermissionPolicy,
    PolicyPipeline,
    RiskPolicy,
)
from agentic_kernel_engine.seams.policy import Policy
from agentic_kernel_engine.tools.tool import SideEffect, Tool

from ..scripting import Runner, World, new_task

WRITE = ToolCall("write", {"text": "a"})
ADD = ToolCall("add", {"a": 1, "b": 2})


def a_tool(name: str, effect: SideEffect = "none", scopes: tuple[str, ...] = ()) -> Tool:
    async def run(arguments: dict[str, Any]) -> str:
        return name

    return Tool(name, run, input_schema={"type": "object"}, effect=effect, scopes=scopes)


def context(*tools: Tool, scopes: frozenset[str] = frozenset()) -> Context:
    return Context(
        new_task(), 0, (), tools, (), remaining(Limits(), Spent(), 0.0),
        Principal(scopes=scopes), {}, (), (), None, "",
    )  # fmt: skip


async def start(runner: Runner, *script: Any, **options: Any) -> Task:
    """A run up to its end or its first pause."""
    async with runner.host(*script, **options) as host:
        task = new_task()
        await host.dispatch(task)
        return await host.wait(task.id, TaskStatus.PAUSED)


async def test_a_basic_policy_has_people_decide_about_writes(runner: Runner, world: World) -> None:
    script = (ADD, WRITE, FinalAnswer("done"))
    paused = await start(runner, *script, policy=BasicPolicy(approve={"write", "destructive"}))
    assert paused.status is TaskStatus.PAUSED
    waiting: Any = paused.metadata["engine/waiting_for"]
    assert [each["action"]["tool"] for each in waiting["requests"]] == ["write"]
    assert world.done == ["add 1 2"]
    assert (await start(runner, *script)).result == "done"
    assert world.done == ["add 1 2", "add 1 2", "write a"]


async def test_a_basic_policy_denies_by_name(runner: Runner, world: World) -> None:
    script = (WRITE, FinalAnswer("done"))
    assert (await start(runner, *script, policy=BasicPolicy(deny=["wr*"]))).result == "done"
    assert world.done == []
    assert (await start(runner, *script)).result == "done"
    assert world.done == ["write a"]


@pytest.mark.parametrize(
    ("rules", "name", "effect", "verdict"),
    [
        ({}, "look", "none", "allow"),
        ({}, "look", "read", "allow"),
        ({}, "save", "write", "require_approval"),
        ({}, "wipe", "destructive", "require_approval"),
        ({"allow": ["write"]}, "save", "write", "allow"),
        ({"allow": ["write"]}, "wipe", "destructive", "require_approval"),
        ({"allow": ["sa*"]}, "save", "write", "allow"),
        ({"allow": ["sa*"], "approve": ["write"]}, "save", "write", "allow"),
        ({"allow": ["sa*"], "approve": ["save"]}, "save", "write", "require_approval"),
        ({"allow": ["write"], "approve": ["write"]}, "save", "write", "require_approval"),
        ({"allow": ["save"], "deny": ["write"]}, "save", "write", "deny"),
        ({"approve": ["read"]}, "look", "read", "require_approval"),
        ({"deny": ["rm*"]}, "rm_all", "none", "deny"),
        ({"deny": ["rm*"]}, "RM_all", "none", "allow"),
        # An effect's name is no tool's name: that would let a tool choose its own permission.
        ({"allow": ["read"]}, "read", "destructive", "require_approval"),
        ({"deny": ["[w]rite"]}, "write", "none", "deny"),
    ],
)
async def test_a_basic_policy_goes_from_the_denial_over_names_to_effects(
    rules: dict[str, list[str]], name: str, effect: SideEffect, verdict: Verdict
) -> None:
    policy = BasicPolicy(**rules)
    decision = await policy.authorize(ToolCall(name), context(a_tool(name, effect)))
    assert decision.verdict == verdict
    assert (await policy.authorize(Thought("hm"), context())).verdict == "allow"


def test_rules_are_a_collection() -> None:
    with pytest.raises(InvalidValue, match="deny: is one string"):
        BasicPolicy(deny="rm*")


async def test_a_permission_policy_hides_what_the_principal_may_not_call(
    runner: Runner,
) -> None:
    seen: list[list[str]] = []

    def look(context: Context) -> Any:
        seen.append([each.name for each in context.tools])
        return ToolCall("purge")

    async def run(**options: Any) -> str:
        tools = [a_tool("look", scopes=("see",)), a_tool("purge", "write", ("admin",))]
        done = await runner.run(
            look, FinalAnswer(1), tools=tools, principal=Principal(scopes=frozenset({"see"})),
            **options,
        )  # fmt: skip
        (first, _) = [e for e in await runner.events(done) if e.type == "step.observed"]
        return str(first.data["observations"][0]["error"])

    assert await run(policy=PermissionPolicy()) == "unknown_tool"
    assert await run(policy=PermissionPolicy(hide=False)) == "policy_denied"
    assert await run(policy=PolicyPipeline(BasicPolicy(), PermissionPolicy())) == "unknown_tool"
    assert await run() == "missing_scopes"
    assert seen == [["look"], ["look", "purge"], ["look"], ["look", "purge"]]


class Says:
    """A policy that says one thing."""

    def __init__(self, decision: Any) -> None:
        self._decision = decision

    async def authorize(self, action: Action, context: Context) -> Any:
        if isinstance(self._decision, Exception):
            raise self._decision
        return self._decision


@pytest.mark.parametrize(
    ("said", "verdict", "reason"),
    [
        ((ALLOW, ALLOW), "allow", ""),
        ((ALLOW, require_approval("1")), "require_approval", "1"),
        ((require_approval("1"), deny("2"), ALLOW), "deny", "2"),
        ((deny("1"), stop("2"), deny("3")), "stop", "2"),
        ((deny("1"), deny("2")), "deny", "1"),
        ((ALLOW, OSError("no")), "deny", "Says failed: OSError"),
        (
            (None, ALLOW),
            "deny",
            "the policy Says gave None and no Decision for a tool_call; authorize must give a "
            "Decision: allow, deny, stop or require_approval",
        ),
        ((OSError("no"), stop("2")), "stop", "2"),
    ],
)
async def test_the_strictest_of_a_pipeline_holds(
    said: tuple[Any, ...], verdict: Verdict, reason: str
) -> None:
    decision = await PolicyPipeline(*map(Says, said)).authorize(ADD, context())
    assert decision == Decision(verdict, reason)


def test_a_pipeline_is_not_empty() -> None:
    with pytest.raises(InvalidValue, match="policies: is empty"):
        PolicyPipeline()


async def test_each_policy_of_a_pipeline_is_heard(runner: Runner, world: World) -> None:
    script = (WRITE, FinalAnswer("done"))
    both: list[Policy] = [BasicPolicy(allow=["write"]), BasicPolicy(deny=["[w]rite"])]
    assert (await start(runner, *script, policy=PolicyPipeline(*both))).result == "done"
    assert world.done == []
    assert (await start(runner, *script, policy=PolicyPipeline(both[0]))).result == "done"
    assert world.done == ["write a"]


async def test_a_risk_policy_decides_by_risk(runner: Runner, world: World) -> None:
    async def classify(action: Action, context: Context) -> float:
        if not isinstance(action, ToolCall):
            return 0.0
        return float(action.arguments.get("text", 0))

    def write(text: str) -> ToolCall:
        return ToolCall("write", {"text": text})

    script = (write("0.2"), write("0.95"), write("0.6"), FinalAnswer("done"))
    paused = await start(runner, *script, policy=RiskPolicy(classify))
    waiting: Any = paused.metadata["engine/waiting_for"]
    assert [each["reason"] for each in waiting["requests"]] == ["its risk is 0.60"]
    assert world.done == ["write 0.2"]
    assert (await start(runner, *script)).result == "done"
    assert world.done[1:] == ["write 0.2", "write 0.95", "write 0.6"]


@pytest.mark.parametrize(
    "risk", [-0.01, 1.01, math.nan, math.inf, None, "0", True, OSError("gone")], ids=repr
)
async def test_a_risk_that_is_not_known_denies(risk: Any) -> None:
    def classify(action: Action, context: Context) -> Any:
        if isinstance(risk, Exception):
            raise risk
        return risk

    decision = await RiskPolicy(classify).authorize(ADD, context())
    assert decision.verdict == "deny"
    assert decision.reason.startswith("its risk is not known")


@pytest.mark.parametrize(
    ("risk", "verdict"),
    [
        (0, "allow"),
        (0.49, "allow"),
        (0.5, "require_approval"),
        (0.89, "require_approval"),
        (0.9, "deny"),
        (1, "deny"),
    ],
)
async def test_a_threshold_belongs_to_what_is_above_it(risk: float, verdict: Verdict) -> None:
    decision = await RiskPolicy(lambda action, context: risk).authorize(ADD, context())
    assert decision.verdict == verdict


@pytest.mark.parametrize(("approve", "deny"), [(0.9, 0.5), (-1, 0.5), (0.5, 2), (math.nan, 0.5)])
def test_thresholds_are_in_order(approve: float, deny: float) -> None:
    with pytest.raises(InvalidValue, match="use 0 ≤ approve ≤ deny ≤ 1"):
        RiskPolicy(lambda action, context: 0, approve=approve, deny=deny)
