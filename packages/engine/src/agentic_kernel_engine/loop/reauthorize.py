"""Reauthorize: decide again about a tool call that middleware changed after the decision."""

from __future__ import annotations

from typing import cast

from .. import values
from ..plans.action import ToolCall, digest
from ..plans.ending import End
from ..plans.observation import POLICY_DENIED, SKIPPED, Observation
from ..plans.reasons import StopReason
from ..seams.planner import Context
from ..seams.policy import decided
from ..tools.registry import Invocation, Tool
from .means import Means
from .run import LoopRun
from .state import AtHand


async def held_back(
    means: Means, run: LoopRun, at_hand: AtHand, context: Context, each: Invocation
) -> Observation | None:
    """The observation of a changed call that is not allowed; None if the call may be made.

    The policy decides about changed arguments again. A call that a person approved is made as it
    was approved, or not at all.
    """
    index = each.context.index
    planned = cast("ToolCall", at_hand.plan.actions[index])
    if not _same_tool(each.tool, run.tools.find(planned.tool)):
        return _denied(means, run, planned, "middleware put another tool in its place")
    try:
        call = ToolCall(planned.tool, dict(each.arguments), planned.id)
        values.check(call.arguments, "arguments")
        if digest(call, "") == digest(planned, ""):
            return None
    except (TypeError, ValueError, RecursionError):
        return None  # It is no JSON, and the call says so.
    if at_hand.verdicts[index].granted:
        why = "a person approved it, and middleware changed its arguments since"
        return _denied(means, run, planned, why)
    decision = await decided(means.policy, call, context)
    if decision.verdict == "allow":
        return None
    if decision.verdict == "stop":
        run.ending = run.ending or End(StopReason.STOPPED, decision.reason or "the run was stopped")
        return Observation(
            error=SKIPPED, message="the run ended before it was begun", call=planned.id,
            tool=planned.tool,
        )  # fmt: skip
    said = f"{decision.verdict}: {decision.reason}".rstrip(" :")
    return _denied(means, run, planned, f"not with the arguments that middleware gave it: {said}")


def _same_tool(tool: Tool, planned: Tool | None) -> bool:
    """True if it is the tool that was authorized and recorded; its limits may be others."""
    return tool is planned or (
        planned is not None
        and tool.name == planned.name
        and tool.handler is planned.handler
        and (tool.effect, tool.idempotent) == (planned.effect, planned.idempotent)
    )


def _denied(means: Means, run: LoopRun, call: ToolCall, why: str) -> Observation:
    if means.on_deny == "end":
        run.ending = run.ending or End(StopReason.DENIED, why)
    return Observation(error=POLICY_DENIED, message=why, call=call.id, tool=call.tool)
