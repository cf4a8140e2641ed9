"""Routing: what becomes of the actions of a plan, by decision and type (see `ROUTES`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from .. import values
from ..events import Event
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
from ..plans.context import Context
from ..plans.decision import ROUTES, Route
from ..plans.ending import End
from ..plans.limits import failed_too_often
from ..plans.observation import (
    INDETERMINATE,
    NO_GOAL,
    OUTPUT_SCHEMA_FAILED,
    POLICY_DENIED,
    SCHEMA_VALIDATION_FAILED,
    SKIPPED,
    TIMEOUT,
    UNKNOWN_TOOL,
    Observation,
)
from ..plans.reasons import StopReason
from ..seams.agent_tool import AgentTool
from ..tools.caller import Caller
from ..tools.registry import Invocation, ToolContext, Unfinished, perform
from ..tools.scheduler import Call
from . import children, effects
from .approvals import ask_for_children, suspend
from .reauthorize import held_back
from .run import LoopRun
from .state import AtHand, Judgement

if TYPE_CHECKING:
    from .loop import Loop

OUTPUTS: Final = 2_500_000
"""How long the observations of one answer may be together, in bytes of JSON."""
GOALS: Final = 64_000
"""How long the goals of a run may be together, in characters."""
LONGEST: Final = 2_000
"""How long a list or a reason in a message may be, in characters."""
_SMALL: Final = 2_000
DONE: Final = Observation()
"""Of an action that has no output."""
UNFINISHED: Final = Observation(error="unfinished")
"""Stands for a call that is to be made again; it never leaves this module."""
NOT_BEGUN: Final = Observation(error=SKIPPED, message="the run ended before it was begun")
# By name: on Python 3.11 a member of an enumeration takes longer to look up than to compare.
_encode = msgspec.json.Encoder().encode
_APPROVE, _CALL, _STOP = Route.APPROVE, Route.CALL, Route.STOP


async def carry_out(
    loop: Loop, run: LoopRun, at_hand: AtHand, context: Context
) -> list[Observation]:
    """Do what was decided, and return what came of it, in the order of the plan's actions.

    Tool calls first, then the others in their order, up to one that ends or pauses the run.
    """
    actions = at_hand.plan.actions
    if not actions:
        return []
    found = {int(done): each for done, each in at_hand.done.items()} if at_hand.done else {}
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
        if not await _call(loop, run, at_hand, context, calls, found):
            break
        await _make_way(run, at_hand, found)
        calls = [index for index in calls if index not in found]
    for index, route in enumerate(routes):
        if route is _CALL or index in found:
            continue
        if run.ending is not None or run.after is not None:
            break
        action, judgement = actions[index], at_hand.verdicts[index]
        match route:
            case Route.DELEGATE:
                # Children commit, and may be waited for across a pause: nothing is done again.
                _keep(at_hand, found)
                found[index] = await children.delegate(
                    loop.delegation, loop.ids, run, at_hand, index
                )
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


async def _call(
    loop: Loop,
    run: LoopRun,
    at_hand: AtHand,
    context: Context,
    calls: list[int],
    found: dict[int, Observation],
) -> bool:
    """Run the tool calls of a plan: no more of them than the limits leave, effects prepared first.

    With a limit on failures, no more are begun at once than may fail; so every count ends exactly
    at its cap.

    Returns:
        Whether there are calls left to be made again, because their tools are not done.
    """
    spent, limits = run.state.spent, run.limits
    again = at_hand.prepared
    made: list[Invocation | Observation] = []
    effect = False
    for index in calls:
        each = _invocation(loop, run, at_hand, index, context)
        made.append(each)
        effect = effect or (isinstance(each, Invocation) and each.tool.has_effect)
    if run.ending is not None:
        return False
    if at_hand.awaited:
        at_hand.awaited = {}
    if effect and not again:
        await effects.prepare(run, at_hand, made)
    while made and run.ending is None:
        room = len(made)
        if limits.max_tool_calls is not None:
            room = min(room, limits.max_tool_calls - spent.tool_calls)
            if room <= 0:
                run.ending = End(StopReason.MAX_TOOL_CALLS, f"{spent.tool_calls} calls were made")
                return False
        if limits.max_failures is not None:
            room = min(room, max(limits.max_failures - spent.failures, 1))
        if run.limits.max_seconds is not None and _too_late(run):
            for index, each in zip(calls, made, strict=True):
                if isinstance(each, Invocation):
                    found[index] = _left(run, each, again)
            return False
        begun: list[Call] = []
        concurrent: list[bool] = []
        for each in made[:room]:
            begun.append(partial(_performed, loop, run, at_hand, context, each, again))
            concurrent.append(isinstance(each, Invocation) and each.tool.concurrent)
        made = made[room:]
        results = await loop.scheduler.run(begun, concurrent)
        if len(results) != room:
            raise TypeError(
                f"the scheduler {type(loop.scheduler).__name__} gave {len(results)} observations "
                f"for {room} calls; run must give one for each, in their order"
            )
        if len(found) + room > 1:
            results = _fitting(results, found)
        for index, observation in zip(calls[:room], results, strict=True):
            if observation is UNFINISHED:
                continue
            found[index] = observation
            if not observation.error or observation.done:
                spent.count(at_hand.plan.actions[index], observation)
        calls = calls[room:]
        if limits.max_failures is not None and failed_too_often(limits, spent):
            run.ending = End(StopReason.MAX_FAILURES, f"{spent.failures} observations went wrong")
        elif UNFINISHED in results:
            return True
    return False


def _fitting(results: Sequence[Observation], found: dict[int, Observation]) -> list[Observation]:
    """Results of a batch whose outputs fit into one state, together with those before them."""
    room = OUTPUTS - sum(len(_encode(each)) for each in found.values())
    fitting: list[Observation] = []
    for each in results:
        length = 0 if each is UNFINISHED else len(_encode(each))
        if length > max(room, _SMALL):
            each = Observation(
                error=OUTPUT_SCHEMA_FAILED, call=each.call, tool=each.tool,
                message=(
                    f"the tool ran, but its {length:,} bytes of JSON make the results of one "
                    f"answer longer than {OUTPUTS:,}; make fewer such calls at once"
                ),
            )  # fmt: skip
        else:
            room -= length
        fitting.append(each)
    return fitting


def _keep(at_hand: AtHand, found: dict[int, Observation]) -> None:
    """What is done is part of what the next commit leaves, so that it is not done again."""
    at_hand.done = {str(index): observation for index, observation in found.items()}


async def _make_way(run: LoopRun, at_hand: AtHand, found: dict[int, Observation]) -> None:
    """Settle what is done of a batch, and pause for what its other calls wait for.

    If it is only for a pause that was withdrawn meanwhile, or if people have decided meanwhile,
    the run goes on.
    """
    _keep(at_hand, found)
    at_hand.prepared = False  # What is open is called again by its tool's own wish.
    run.state.at_hand = at_hand
    run.state.waiting = None
    if await ask_for_children(run, at_hand):
        return
    await run.checkpoint()


def _invocation(
    loop: Loop, run: LoopRun, at_hand: AtHand, index: int, context: Context
) -> Invocation | Observation:
    call: Any = at_hand.plan.actions[index]
    if call.refused:
        return Observation(
            error=SCHEMA_VALIDATION_FAILED, message=call.refused[:LONGEST], call=call.id,
            tool=call.tool[:80],
        )  # fmt: skip
    tool = run.tools.find(call.tool)
    begun = at_hand.prepared or (bool(at_hand.awaited) and str(index) in at_hand.awaited)
    if tool is None and begun:
        return _indeterminate(run, call)
    if tool is None or (tool not in context.tools and not begun):
        known = ", ".join(each.name for each in context.tools) or "none"
        there = known if len(known) <= LONGEST else f"{known[:LONGEST]}…"
        return Observation(
            error=UNKNOWN_TOOL, message=f"there is no tool {call.tool[:80]!r}; there are: {there}",
            call=call.id, tool=call.tool[:80],
        )  # fmt: skip
    step = run.state.step
    key = effects.key(tool, run.task.id, step, index, call)
    progress = partial(_progress, run, call.tool, index)
    told = ToolContext(run.task.id, step, index, key, loop.principal, progress, None, loop.threads)
    if isinstance(tool, AgentTool):
        run.ending = run.ending or children.too_deep(run)
        told.caller = _caller(loop, run, at_hand, index)
    if not loop.hooks.before_tool:
        return Invocation(tool, call.arguments, call, told, checked=call.arguments)
    # What middleware does to the arguments must change neither the plan nor the record of it.
    arguments = values.decode(values.encode_checked(call.arguments))
    return Invocation(tool, arguments, ToolCall(call.tool, arguments, call.id), told)


def _caller(loop: Loop, run: LoopRun, at_hand: AtHand, index: int) -> Caller:
    """A run that calls an agent; it lets go of the call when another one of the batch asks."""
    decisions = at_hand.decided.get(str(index), [])
    return Caller(
        run.job, loop.delegation.admit, decisions, lambda: run.job.stopping or bool(at_hand.awaited)
    )


async def _performed(
    loop: Loop,
    run: LoopRun,
    at_hand: AtHand,
    context: Context,
    each: Invocation | Observation,
    again: bool,
) -> Observation:
    """One call, with the middleware around it.

    Where middleware ends the run, the step is settled first: what was done is on record.
    """
    if isinstance(each, Observation):
        return each
    run.job.check()  # a kill may have come while the calls of a batch were begun
    if run.ending is not None or (run.limits.max_seconds is not None and _too_late(run)):
        return _left(run, each, again)
    if again and not each.tool.repeatable:
        return _indeterminate(run, each.call)
    hooks = loop.hooks
    observation: Observation | None = None
    try:
        for hook in hooks.before_tool:
            observation = await hook(each)
            if observation is not None:
                break
    except End as end:
        run.log(end)
        run.ending = run.ending or end
        return _not_begun(each)
    if hooks.before_tool and observation is None:
        refused = await held_back(loop, run, at_hand, context, each)
        if refused is not None:
            return refused
    if observation is None:
        try:
            observation = await perform(each)
            if observation.error == TIMEOUT and each.context.threads.abandoned:
                _abandoned(run, each)
        except Unfinished as unfinished:
            if unfinished.waiting is not None:
                at_hand.awaited[str(each.context.index)] = dict(unfinished.waiting)
                run.job.nudge()
            return UNFINISHED
        finally:
            if at_hand.decided:
                at_hand.decided.pop(str(each.context.index), None)
    try:
        for hook in hooks.after_tool:
            observation = await hook(each, observation) or observation
    except End as end:
        run.log(end)
        run.ending = run.ending or end
    return observation


def _indeterminate(run: LoopRun, call: ToolCall) -> Observation:
    run.outcome_unknown = True
    return Observation(
        error=INDETERMINATE, call=call.id, tool=call.tool,
        message=(
            "the call was begun before a crash, and whether it took effect is not known; "
            "find out before you repeat it"
        ),
    )  # fmt: skip


def _too_late(run: LoopRun) -> bool:
    """Whether the deadline has passed, which ends the run."""
    if run.out_of_time:
        run.ending = run.ending or End(StopReason.TIMEOUT, "no more tool calls are begun")
    return run.ending is not None


def _left(run: LoopRun, each: Invocation, again: bool) -> Observation:
    """What is known of a call that this run does not make: nothing, if an earlier one may have."""
    return _indeterminate(run, each.call) if again and each.tool.has_effect else _not_begun(each)


def _not_begun(each: Invocation) -> Observation:
    return msgspec.structs.replace(NOT_BEGUN, call=each.call.id, tool=each.call.tool)


def _progress(run: LoopRun, tool: str, index: int, report: Any) -> None:
    """Tell what a tool reports, as long as there is room for it before the next commit."""
    before = run.progress_room
    run.progress_room -= len(values.encode(report, "progress")) + len(tool) + 100
    if run.progress_room < 0:
        if before < 0:
            return
        report = "(more was reported than is kept of one step)"
    run.job.emit(Event(vocabulary.TOOL_PROGRESS, {"tool": tool, "index": index, "report": report}))


def _abandoned(run: LoopRun, each: Invocation) -> None:
    """Say that a tool goes on in its thread although its time is over."""
    if not each.tool.threaded:
        return
    threads, told = each.context.threads, {"tool": each.call.tool, "index": each.context.index}
    counts = {"abandoned": threads.abandoned, "limit": threads.most_abandoned}
    run.job.emit(Event(vocabulary.TOOL_ABANDONED, {**told, **counts}))


def _on_record(run: LoopRun, action: Action) -> Observation:
    goals = run.state.goals
    match action:
        case PushGoal(text):
            if len(goals) >= run.limits.max_goal_depth:
                run.ending = End(StopReason.MAX_GOAL_DEPTH, f"{len(goals)} goals deep already")
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
    why = judgement.decision.reason
    if judgement.granted is False:
        why = f"{judgement.by or 'a person'} refused it: {judgement.why or 'no reason given'}"
    call, tool = (action.id, action.tool) if isinstance(action, ToolCall) else ("", "")
    return Observation(
        error=POLICY_DENIED, message=why or "it is not allowed", call=call, tool=tool
    )


def _finish(loop: Loop, run: LoopRun, action: FinalAnswer) -> Observation:
    fault = None if loop.fits is None else loop.fits(action.output)
    if fault is not None:
        return Observation(error=SCHEMA_VALIDATION_FAILED, message=f"the final answer: {fault}")
    run.ending = End(StopReason.FINAL, output=action.output)
    return DONE


def _question(run: LoopRun, index: int, action: AskUser) -> dict[str, Any]:
    asked_for = digest(action, f"{run.task.id}:{run.state.step}:{index}")
    return {"kind": "question", "question": action.question, "digest": asked_for}


def _sleep(run: LoopRun, action: Schedule) -> Observation:
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
