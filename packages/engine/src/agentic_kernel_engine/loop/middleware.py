"""Middleware: the hooks around one call of the planner or of a tool.

The policy decides again about a tool call that a hook changed. `seams.middleware` has the port; the
hook about a planner's failed call is in `retries`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import cast

from .. import values
from ..plans.action import ToolCall, digest
from ..plans.decision import ALLOW
from ..plans.ending import End, PlannerError, stopped
from ..plans.observation import POLICY_DENIED, Observation
from ..plans.reasons import StopReason
from ..seams.middleware import Hooks
from ..seams.planner import Context
from ..seams.policy import decided
from ..tools.call import Invocation
from ..tools.tool import Tool
from .budget_grants import settle_call
from .planner_calls import CheckedPlan, PlannerCalls, checked_plan, copy_of_plan, same_plan
from .run import LoopRun
from .state import AtHand
from .unknown_outcomes import not_begun
from .wiring import Wiring


async def ask_planner(
    calls: PlannerCalls, hooks: Hooks, run: LoopRun, context: Context
) -> CheckedPlan | None:
    """`PlannerCalls.ask`, with the hooks before it and after it.

    If a hook ends the run because of an answer, the answer is counted first.
    """
    for hook in hooks.before_model:
        await hook(context)
    if hooks.before_model and context.response is None:
        context.prompt_tokens = None
        await calls.reserve(run, context)  # The hooks may have made the call more expensive.
    preset = context.response
    answer = await calls.ask(run, context) if preset is None else checked_plan(preset, run)
    if answer is None:
        return None
    plan, form = answer
    try:
        for hook in hooks.after_model:
            changed = await hook(context, plan)
            if changed is not None:
                plan, form = checked_plan(changed, run)
            elif not same_plan(plan, form):
                plan, form = checked_plan(plan)
    except End as end:
        run.ending = end
    except PlannerError as fault:
        run.ending = End(StopReason.ERROR, fault.message, code=fault.code)
    # A hook may keep the plan that it was given.
    return (copy_of_plan(form) if hooks.after_model else plan), form


async def before_tool(
    wiring: Wiring, run: LoopRun, at_hand: AtHand, context: Context, each: Invocation
) -> tuple[Invocation, Observation | None, Observation | None]:
    """The call to make, the observation that a hook gives in place of it, and that of a refusal.

    The call is a copy, because the hooks may keep the one that they are given. If a hook ends the
    run, the call is not made. The step is settled first, so that the finished work is recorded.
    """
    index = each.context.index
    planned = cast("ToolCall", at_hand.plan.actions[index])
    try:
        for hook in wiring.hooks.before_tool:
            given = await hook(each)
            if given is not None:
                return each, given, None
    except End as end:
        _end(run, end)
        return each, None, not_begun(planned)
    each = _own(each, planned)
    granted = bool(at_hand.verdicts[index].granted)
    refused = await _held_back(wiring, run, context, each, planned, granted=granted)
    if refused is not None:
        await settle_call(run, each, refused)
    return each, None, refused


def _own(each: Invocation, planned: ToolCall) -> Invocation:
    """A copy of a call; one whose arguments are not JSON keeps them, and reports that itself."""
    arguments, checked = each.arguments, None
    with suppress(TypeError, ValueError, RecursionError):
        arguments = checked = values.decode(values.encode(dict(arguments), "arguments"))
    call = ToolCall(planned.tool, arguments, planned.id)
    return Invocation(each.tool, arguments, call, each.context, checked)


async def after_tool(
    hooks: Hooks, run: LoopRun, each: Invocation, observation: Observation
) -> Observation:
    """The observation of a call as the hooks leave it; a hook may end the run after the step."""
    try:
        for hook in hooks.after_tool:
            observation = await hook(each, observation) or observation
    except End as end:
        _end(run, end)
    return observation


def _end(run: LoopRun, end: End) -> None:
    run.log(end)
    run.ending = run.ending or end


async def _held_back(
    wiring: Wiring,
    run: LoopRun,
    context: Context,
    each: Invocation,
    planned: ToolCall,
    *,
    granted: bool,
) -> Observation | None:
    """The observation of a changed call that is not allowed; None if the call may be made.

    The policy decides about changed arguments again. A call that a person approved is made as it
    was approved, or not at all.
    """
    if not _same_tool(each.tool, run.tools.find(planned.tool)):
        return _denied(wiring, run, planned, "middleware put another tool in its place")
    if each.checked is not each.arguments:
        return None  # The arguments are not JSON; the call itself reports that.
    call = ToolCall(planned.tool, each.arguments, planned.id)
    if digest(call, "") == digest(planned, ""):
        return None
    if granted:
        why = "a person approved it, and middleware changed its arguments since"
        return _denied(wiring, run, planned, why)
    policy = wiring.policy
    decision = ALLOW if policy is None else await decided(policy, call, context)
    if decision.verdict == "allow":
        return None
    if decision.verdict == "stop":
        run.ending = run.ending or stopped(decision.reason)
        return not_begun(planned)
    said = f"{decision.verdict}: {decision.reason}".rstrip(" :")
    return _denied(wiring, run, planned, f"not with the arguments that middleware gave it: {said}")


def _same_tool(tool: Tool, planned: Tool | None) -> bool:
    """True if it is the tool that was authorized and recorded; its limits may differ."""
    return tool is planned or (
        planned is not None
        and tool.name == planned.name
        and tool.handler is planned.handler
        and (tool.effect, tool.idempotent) == (planned.effect, planned.idempotent)
    )


def _denied(wiring: Wiring, run: LoopRun, call: ToolCall, why: str) -> Observation:
    if wiring.on_deny == "end":
        run.ending = run.ending or End(StopReason.DENIED, why)
    return Observation(error=POLICY_DENIED, message=why, call=call.id, tool=call.tool)
