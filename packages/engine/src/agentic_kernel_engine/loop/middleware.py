"""Middleware: decide again about a tool call that middleware changed after the decision."""

from __future__ import annotations

from typing import cast

from msgspec.structs import replace

from .. import values
from ..plans.action import ToolCall, digest
from ..plans.decision import ALLOW
from ..plans.ending import End
from ..plans.observation import POLICY_DENIED, Observation
from ..plans.reasons import StopReason
from ..seams.planner import Context
from ..seams.policy import decided
from ..tools.call import Invocation
from ..tools.tool import Tool
from .run import LoopRun
from .state import NOT_BEGUN, AtHand
from .wiring import Wiring


async def held_back(
    wiring: Wiring, run: LoopRun, at_hand: AtHand, context: Context, each: Invocation
) -> Observation | None:
    """The observation of a changed call that is not allowed; None if the call may be made.

    The policy decides about changed arguments again. A call that a person approved is made as it
    was approved, or not at all.
    """
    index = each.context.index
    planned = cast("ToolCall", at_hand.plan.actions[index])
    if not _same_tool(each.tool, run.tools.find(planned.tool)):
        return _denied(wiring, run, planned, "middleware put another tool in its place")
    try:
        call = ToolCall(planned.tool, dict(each.arguments), planned.id)
        values.check(call.arguments, "arguments")
        if digest(call, "") == digest(planned, ""):
            return None
    except (TypeError, ValueError, RecursionError):
        return None  # The arguments are not JSON; the call itself reports that.
    if at_hand.verdicts[index].granted:
        why = "a person approved it, and middleware changed its arguments since"
        return _denied(wiring, run, planned, why)
    policy = wiring.policy
    decision = ALLOW if policy is None else await decided(policy, call, context)
    if decision.verdict == "allow":
        return None
    if decision.verdict == "stop":
        run.ending = run.ending or End(StopReason.STOPPED, decision.reason or "the run was stopped")
        return replace(NOT_BEGUN, call=planned.id, tool=planned.tool)
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
