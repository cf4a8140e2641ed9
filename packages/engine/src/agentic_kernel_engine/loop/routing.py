"""Routing: what becomes of the actions of a plan, by decision and type (see `ROUTES`)."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from ..events import Event
from ..seams.tools import Invocation, ToolContext, perform
from . import children, effects, vocabulary
from .action import (
    Action,
    AskUser,
    CompleteGoal,
    FinalAnswer,
    PushGoal,
    Schedule,
    Stop,
    ToolCall,
)
from .approvals import suspend
from .context import Context
from .decision import ROUTES, Route
from .ending import End
from .execution import Execution
from .limits import failed_too_often
from .observation import (
    INDETERMINATE,
    NO_GOAL,
    POLICY_DENIED,
    SCHEMA_VALIDATION_FAILED,
    SKIPPED,
    UNKNOWN_TOOL,
    Observation,
)
from .reasons import StopReason
from .state import AtHand, Judgement

if TYPE_CHECKING:
    from .loop import Loop

DONE: Final = Observation()
"""Of an action that has no output."""
NOT_BEGUN: Final = Observation(error=SKIPPED, message="the run ended before it was begun")


async def carry_out(
    loop: Loop, run: Execution, at_hand: AtHand, context: Context
) -> list[Observation]:
    """Do what was decided, and return what came of it, in the order of the plan's actions.

    Tool calls first, then the others in their order, up to one that ends or pauses the run.
    """
    actions = at_hand.plan.actions
    if not actions:
        return []
    routes = [_route(action, at_hand.verdicts[i]) for i, action in enumerate(actions)]
    found = {int(index): observation for index, observation in at_hand.done.items()}
    calls = [i for i, route in enumerate(routes) if route is Route.CALL and i not in found]
    if calls and Route.STOP not in routes:
        await _call(loop, run, at_hand, context, calls, found)
        if Route.DELEGATE in routes:
            # Children commit, and may be waited for across a pause: the calls must not be redone.
            at_hand.done = {str(index): observation for index, observation in found.items()}
    for index, route in enumerate(routes):
        if route is Route.CALL or run.ending is not None or run.after is not None:
            continue
        action, judgement = actions[index], at_hand.verdicts[index]
        match route:
            case Route.DELEGATE:
                found[index] = await children.delegate(run, at_hand, index)
            case Route.RECORD:
                found[index] = _on_record(run, action)
            case Route.REFUSE:
                found[index] = _refused(action, judgement)
                if loop.on_deny == "end":
                    run.ending = End(StopReason.DENIED, found[index].message)
            case Route.FINISH:
                found[index] = _finish(loop, run, cast("FinalAnswer", action))
            case Route.STOP:
                own = isinstance(action, Stop)
                why = action.reason if isinstance(action, Stop) else judgement.decision.reason
                found[index] = DONE if own else NOT_BEGUN
                run.ending = End(StopReason.STOPPED, why or "the run was stopped")
            case Route.ASK:
                question = cast("AskUser", action).question
                found[index] = DONE
                run.after = partial(suspend, run, {"kind": "question", "question": question})
            case Route.SLEEP:
                found[index] = _sleep(run, cast("Schedule", action))
        if found[index].done:
            run.state.spent.count(action, found[index])
    observations = [found.get(index, NOT_BEGUN) for index in range(len(actions))]
    run.state.at_hand = None
    return observations


def _route(action: Action, judgement: Judgement) -> Route:
    route = ROUTES[judgement.decision.verdict][type(action)]
    if route is Route.APPROVE:
        return ROUTES["allow" if judgement.granted else "deny"][type(action)]
    return route


async def _call(
    loop: Loop,
    run: Execution,
    at_hand: AtHand,
    context: Context,
    calls: list[int],
    found: dict[int, Observation],
) -> None:
    """Run the tool calls of a plan: no more of them than the limits leave, effects prepared first.

    With a limit on failures, no more are begun at once than may fail; so every count ends exactly
    at its cap.
    """
    spent, limits = run.state.spent, run.limits
    again = at_hand.prepared
    made = [_invocation(loop, run, at_hand, index, context) for index in calls]
    if not again and any(each.tool.has_effect for each in made if isinstance(each, Invocation)):
        await effects.prepare(run, at_hand, made)
    while made and run.ending is None:
        room = len(made)
        if limits.max_tool_calls is not None:
            room = min(room, limits.max_tool_calls - spent.tool_calls)
            if room <= 0:
                run.ending = End(StopReason.MAX_TOOL_CALLS, f"{spent.tool_calls} calls were made")
                return
        if limits.max_failures is not None:
            room = min(room, max(limits.max_failures - spent.failures, 1))
        if run.out_of_time:
            run.ending = End(StopReason.TIMEOUT, "no more tool calls are begun")
            return
        some, made = made[:room], made[room:]
        results = await loop.scheduler.run(
            [partial(_performed, loop, run, each, again) for each in some],
            [isinstance(each, Invocation) and each.tool.concurrent for each in some],
        )
        for index, observation in zip(calls, results, strict=False):
            found[index] = observation
            if observation.done:
                spent.count(at_hand.plan.actions[index], observation)
        calls = calls[room:]
        if failed_too_often(limits, spent):
            run.ending = End(StopReason.MAX_FAILURES, f"{spent.failures} observations went wrong")


def _invocation(
    loop: Loop, run: Execution, at_hand: AtHand, index: int, context: Context
) -> Invocation | Observation:
    call = cast("ToolCall", at_hand.plan.actions[index])
    tool = loop.tools.find(call.tool)
    if tool is None and at_hand.prepared:
        return _indeterminate(call)
    if tool is None or (tool not in context.tools and not at_hand.prepared):
        known = ", ".join(each.name for each in context.tools) or "none"
        return Observation(
            error=UNKNOWN_TOOL, message=f"there is no tool {call.tool[:80]!r}; there are: {known}",
            call=call.id, tool=call.tool[:80],
        )  # fmt: skip
    step = run.state.step
    key = effects.key(tool, run.task.id, step, index, call)
    progress = partial(_progress, run, call.tool, index)
    return Invocation(
        tool, call.arguments, call,
        ToolContext(run.task.id, step, index, key, loop.principal, progress),
        checked=call.arguments,
    )  # fmt: skip


async def _performed(
    loop: Loop, run: Execution, each: Invocation | Observation, again: bool
) -> Observation:
    """One call, with the middleware around it.

    Where middleware ends the run, the step is settled first: what was done is on record.
    """
    if isinstance(each, Observation):
        return each
    if run.ending is not None:
        return _not_begun(each)
    if again and not each.tool.repeatable:
        return _indeterminate(each.call)
    hooks = loop.hooks
    observation: Observation | None = None
    try:
        for hook in hooks.before_tool:
            observation = await hook(each)
            if observation is not None:
                break
    except End as end:
        run.ending = run.ending or end
        return _not_begun(each)
    if observation is None:
        observation = await perform(each)
    try:
        for hook in hooks.after_tool:
            observation = await hook(each, observation) or observation
    except End as end:
        run.ending = run.ending or end
    return observation


def _indeterminate(call: ToolCall) -> Observation:
    return Observation(
        error=INDETERMINATE, call=call.id, tool=call.tool,
        message=(
            "the call was begun before a crash, and whether it took effect is not known; "
            "find out before you repeat it"
        ),
    )  # fmt: skip


def _not_begun(each: Invocation) -> Observation:
    return msgspec.structs.replace(NOT_BEGUN, call=each.call.id, tool=each.call.tool)


def _progress(run: Execution, tool: str, index: int, report: Any) -> None:
    run.job.emit(Event(vocabulary.TOOL_PROGRESS, {"tool": tool, "index": index, "report": report}))


def _on_record(run: Execution, action: Action) -> Observation:
    goals = run.state.goals
    match action:
        case PushGoal(text):
            if len(goals) >= run.limits.max_goal_depth:
                run.ending = End(StopReason.MAX_GOAL_DEPTH, f"{len(goals)} goals deep already")
                return NOT_BEGUN
            goals.append(text)
        case CompleteGoal():
            if not goals:
                return Observation(error=NO_GOAL, message="there is no goal to complete")
            goals.pop()
    return DONE


def _refused(action: Action, judgement: Judgement) -> Observation:
    why = judgement.decision.reason
    if judgement.granted is False:
        why = f"{judgement.by or 'a person'} refused it: {judgement.why or 'no reason given'}"
    call, tool = (action.id, action.tool) if isinstance(action, ToolCall) else ("", "")
    return Observation(
        error=POLICY_DENIED, message=why or "it is not allowed", call=call, tool=tool
    )


def _finish(loop: Loop, run: Execution, action: FinalAnswer) -> Observation:
    fault = None if loop.fits is None else loop.fits(action.output)
    if fault is not None:
        return Observation(error=SCHEMA_VALIDATION_FAILED, message=f"the final answer: {fault}")
    run.ending = End(StopReason.FINAL, output=action.output)
    return DONE


def _sleep(run: Execution, action: Schedule) -> Observation:
    try:
        due = datetime.fromisoformat(action.at)
    except ValueError:
        due = None
    if due is None or due.utcoffset() is None:
        return Observation(
            error=SCHEMA_VALIDATION_FAILED,
            message=f"{action.at[:80]!r} is no moment: use ISO 8601 with an offset from UTC",
        )
    waiting = {"kind": "schedule", "at": action.at, "reason": action.reason}
    run.after = partial(suspend, run, waiting, due)
    return DONE
