"""Actions: decide about the actions of a plan, and carry them out as `ROUTES` says."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any, Final, cast

import msgspec

from .. import moments
from ..faults import fit, is_a
from ..plans import vocabulary
from ..plans.action import (
    Action,
    AskUser,
    CompleteGoal,
    FinalAnswer,
    PushGoal,
    Schedule,
    Stop,
    ToolCall,
    digest,
)
from ..plans.decision import ALLOW, ROUTES, Decision, Route, deny
from ..plans.ending import End, stopped, unhandled
from ..plans.observation import NO_GOAL, POLICY_DENIED, SCHEMA_VALIDATION_FAILED, Observation
from ..plans.reasons import StopReason
from ..seams.planner import Context
from ..seams.policy import Policy, decided
from . import children
from .approvals import suspend
from .run import LoopRun
from .state import NOT_BEGUN, AtHand, Judgement
from .tool_calls import call_tools, keep, make_way
from .wiring import Wiring

SHOWN: Final = 1_000_000
"""The most bytes of JSON of the actions in one answer that people are asked to approve."""
GOALS: Final = 64_000
"""The most characters of all goals of a run together."""
DONE: Final = Observation()
"""The observation of an action that was done and has no output."""
# Global names, because on Python 3.11 the look-up of a member takes longer than the comparison (the
# tool turn in benchmarks/loop.py).
_APPROVE, _CALL, _STOP = Route.APPROVE, Route.CALL, Route.STOP
_encode = msgspec.json.Encoder().encode


async def authorize(policy: Policy | None, run: LoopRun, at_hand: AtHand, context: Context) -> bool:
    """Ask the policy once about every action of a plan; without a policy every action is allowed.

    A policy that raises or returns no `Decision` denies the action. An action that needs an
    approval is denied if the answer asks people to approve more than `SHOWN` bytes. The policy is
    not asked about a call that the planner marked as refused. People are not asked about a call of
    a tool that the planner was not offered. Neither call is made.

    Returns:
        False if no action can wait for people; `wait_for_people` is then not needed.
    """
    actions = at_hand.plan.actions
    if at_hand.verdicts or not actions:
        return True
    if policy is None:
        allowed = [ALLOW] * len(actions)
        at_hand.verdicts = list(map(Judgement, allowed))
        run.record(vocabulary.PLAN_DECIDED, decisions=allowed)
        return False
    waits = False
    decisions: list[Decision] = []
    room = SHOWN
    for index, action in enumerate(actions):
        if type(action) is ToolCall and action.refused:
            decision = ALLOW
        else:
            decision = await decided(policy, action, context)
        asks = ROUTES[decision.verdict][type(action)] is _APPROVE
        if asks and type(action) is ToolCall and not _offered(run, action, context):
            decision, asks = ALLOW, False
        judgement = Judgement(decision)
        if asks:
            length = len(_encode(action))
            if length <= room:
                room -= length
                waits = True
                judgement.digest = digest(action, f"{run.task.id}:{run.state.step}:{index}")
            else:
                decision = judgement.decision = deny(
                    f"it needs an approval, and its {length:,} bytes of JSON are more than the "
                    f"{SHOWN:,} of one answer that people are shown; make it smaller, or ask for "
                    "less at once"
                )
        at_hand.verdicts.append(judgement)
        decisions.append(decision)
    run.record(vocabulary.PLAN_DECIDED, decisions=decisions)
    return waits


def _offered(run: LoopRun, action: ToolCall, context: Context) -> bool:
    tool = run.tools.find(action.tool)
    return tool is not None and tool in context.tools


async def carry_out(
    wiring: Wiring, run: LoopRun, at_hand: AtHand, context: Context
) -> list[Observation]:
    """Carry out the decided actions; return one observation for each action of the plan, in order.

    Tool calls come first, then the other actions in their order, up to an action that ends or
    pauses the run. If the plan or the policy stops the run, no tool is called.
    """
    actions = at_hand.plan.actions
    if not actions:
        return []
    found = at_hand.found() if at_hand.done else {}
    routes: list[Route] = []
    calls: list[int] = []
    for index, judgement in enumerate(at_hand.verdicts):
        route = ROUTES[judgement.decision.verdict][type(actions[index])]
        if route is _APPROVE:
            route = ROUTES["allow" if judgement.granted else "deny"][type(actions[index])]
        routes.append(route)
        if route is _CALL and index not in found:
            calls.append(index)
    while calls and run.ending is None and _STOP not in routes:
        if not await call_tools(wiring, run, at_hand, context, calls, found):
            break
        await make_way(run, at_hand, found)
        calls = [index for index in calls if index not in found]
    for index, route in enumerate(routes):
        if route is _CALL or index in found:
            continue
        if run.ending is not None or run.after is not None:
            break
        action, judgement = actions[index], at_hand.verdicts[index]
        match route:
            case Route.DELEGATE:
                # Delegation commits, and may wait across a pause: keep the finished actions first.
                keep(at_hand, found)
                found[index] = await children.delegate(wiring, run, at_hand, index)
            case Route.RECORD:
                found[index] = _on_record(run, action)
            case Route.REFUSE:
                found[index] = _refused(action, judgement)
                if wiring.on_deny == "end":
                    run.ending = End(StopReason.DENIED, found[index].message)
            case Route.FINISH:
                found[index] = _finish(run, cast("FinalAnswer", action))
            case Route.STOP:
                own = isinstance(action, Stop)
                why = action.reason if isinstance(action, Stop) else judgement.decision.reason
                found[index] = DONE if own else NOT_BEGUN
                run.ending = stopped(why)
            case Route.ASK:
                found[index] = DONE
                run.after = partial(suspend, run, _question(run, index, cast("AskUser", action)))
            case Route.SLEEP:
                found[index] = _sleep(run, cast("Schedule", action))
        if found[index].done:
            run.state.spent.count(action, found[index])
    observations = [NOT_BEGUN] * len(actions)
    for index, observation in found.items():
        observations[index] = observation
    run.state.at_hand = None
    return observations


def _on_record(run: LoopRun, action: Action) -> Observation:
    goals = run.state.goals
    match action:
        case PushGoal(text):
            if len(goals) >= run.limits.max_goal_depth:
                run.ending = End(
                    StopReason.MAX_GOAL_DEPTH,
                    f"max_goal_depth {run.limits.max_goal_depth}: {len(goals)} goals are open "
                    "already; raise max_goal_depth",
                )
                return NOT_BEGUN
            length = sum(map(len, goals)) + len(text)
            if length > GOALS:
                return Observation(
                    error=SCHEMA_VALIDATION_FAILED,
                    message=f"the goals would have {length:,} characters, and {GOALS:,} are kept; "
                    "say it in fewer words",
                )
            run.state.goals = (*goals, text)
        case CompleteGoal():
            if not goals:
                return Observation(error=NO_GOAL, message="there is no goal to complete")
            run.state.goals = goals[:-1]
    return DONE


def _refused(action: Action, judgement: Judgement) -> Observation:
    why = judgement.refusal(judgement.decision.reason)
    call, tool = (action.id, action.tool) if isinstance(action, ToolCall) else ("", "")
    return Observation(error=POLICY_DENIED, message=why, call=call, tool=tool)


def _finish(run: LoopRun, action: FinalAnswer) -> Observation:
    fits = run.answer.fits
    try:
        fault = None if fits is None else fits(action.output)
        if fault is not None:
            why = fit(f"the final answer: {action.refused or fault}")
            return Observation(error=SCHEMA_VALIDATION_FAILED, message=why)
    except BaseException as bug:  # Other actions are done: record the step, then end the run.
        if is_a(bug, KeyboardInterrupt):
            raise
        run.ending = unhandled(bug)
        run.ending.fault, run.ending.where = bug, "the check of the final answer"
        return NOT_BEGUN
    run.ending = End(StopReason.FINAL, output=action.output)
    return DONE


def _question(run: LoopRun, index: int, action: AskUser) -> dict[str, Any]:
    asked_for = digest(action, f"{run.task.id}:{run.state.step}:{index}")
    return {"kind": "question", "question": action.question, "digest": asked_for}


def _sleep(run: LoopRun, action: Schedule) -> Observation:
    try:
        due = moments.aware("at", datetime.fromisoformat(action.at))
    except ValueError:
        return Observation(
            error=SCHEMA_VALIDATION_FAILED,
            message=f"{action.at[:80]!r} is not a moment: use ISO 8601 with an offset from UTC, "
            f"from {moments.EARLIEST.date()} to {moments.LATEST.date()}",
        )
    waiting = {"kind": "schedule", "at": action.at, "reason": action.reason}
    run.after = partial(suspend, run, waiting, due)
    return DONE
