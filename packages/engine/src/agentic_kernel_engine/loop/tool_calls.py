"""Tool calls: those of one plan, within the limits, their effects prepared first."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

import msgspec

from .. import values
from ..events import Event
from ..plans import vocabulary
from ..plans.action import ToolCall
from ..plans.budget import Amounts
from ..plans.limits import Limits, Spent, failed_too_often
from ..plans.observation import (
    CHILD_FAILED,
    OUTPUT_SCHEMA_FAILED,
    SCHEMA_VALIDATION_FAILED,
    SKIPPED,
    TIMEOUT,
    UNKNOWN_TOOL,
    Observation,
)
from ..plans.reasons import StopReason
from ..seams.agent_tool import AgentTool, child_id
from ..seams.delegation import DelegationRefused
from ..seams.planner import Context
from ..tools.call import Invocation, perform
from ..tools.call import key as key_of
from ..tools.caller import Caller
from ..tools.deadline import DeadlinePassed
from ..tools.exceptions import Unfinished
from ..tools.scheduler import Call
from ..tools.tool import ToolContext
from . import budget_grants, children
from .approvals import ask_for_children
from .budget_cuts import make_room
from .middleware import after_tool, before_tool
from .run import LoopRun
from .state import NOT_BEGUN, AtHand, Judgement
from .unknown_outcomes import not_begun, not_made, unknown
from .wiring import Wiring

OUTPUTS: Final = 2_500_000
"""The most bytes of JSON that the observations of one answer may be together."""
LONGEST: Final = 2_000
"""The most characters of a list or a reason in a message."""
_SMALL: Final = 2_000
# Shared, because each tool turn would make two of them (the tool turn in benchmarks/loop.py).
_NONE: Final[dict[str, str]] = {}
_NO_CALLS: Final[frozenset[int]] = frozenset()
UNFINISHED: Final = Observation(error="unfinished")
"""Placeholder for a call that must be made again; it never leaves this module."""
_encode = msgspec.json.Encoder().encode


async def call_tools(
    wiring: Wiring,
    run: LoopRun,
    at_hand: AtHand,
    context: Context,
    calls: list[int],
    found: dict[int, Observation],
) -> bool:
    """Run the tool calls of a plan, as many as the limits leave; prepare their effects first.

    With a limit on failures, no more calls begin at once than may fail; so every count ends exactly
    at its cap.

    Returns:
        True if some calls must be made again, because their tools are not done.
    """
    spent, actions = run.state.spent, at_hand.plan.actions
    # The calls that an earlier run may have made.
    begun = set(filter(at_hand.may_have_begun, calls)) if at_hand.prepared else _NO_CALLS
    made: list[Invocation | Observation] = []
    effect = agents = False
    for index in calls:
        each = _invocation(wiring, run, at_hand, index, context, index in begun)
        made.append(each)
        if isinstance(each, Invocation) and each.tool.has_effect:
            effect = True
            agents = agents or isinstance(each.tool, AgentTool)
    opened: dict[str, Amounts] = {}
    if run.ending is None:
        if at_hand.awaited:
            at_hand.awaited = {}
        if agents:
            await budget_grants.announce(run)
            opened = await _grant(run, made, len(calls) - len(begun))
        if effect:
            run.state.at_hand = at_hand  # A wait for room commits: it must not forget the plan.
    granted = opened
    while made and run.ending is None:
        room, limits = len(made), run.limits
        if limits.max_tool_calls is not None:
            if limits.max_tool_calls <= spent.tool_calls:
                await make_room(run, lambda left: _calls_left(left, spent, 1) > 0, at_hand)
                limits = run.limits
            room = _calls_left(limits, spent, room)
            if room <= 0:
                run.ending = run.end_at(StopReason.MAX_TOOL_CALLS)
                break
        if run.limits.max_seconds is not None and _too_late(run):
            for index, each in zip(calls, made, strict=True):
                if isinstance(each, Invocation):
                    found[index] = not_begun(each.call)
            break
        if effect and (granted or not all(map(at_hand.may_have_begun, calls[:room]))):
            await _prepare(run, at_hand, calls, made, room, granted)
            granted = {}
        if limits.max_failures is not None:
            room = min(room, max(limits.max_failures - spent.failures, 1))
        batch, made = made[:room], made[room:]
        results: Sequence[Observation]
        if room == 1 and wiring.single_at_once:
            begun_before = calls[0] in begun
            results = (await _performed(wiring, run, at_hand, context, batch[0], begun_before),)
        else:
            results = await _scheduled(wiring, run, at_hand, context, calls, batch, begun)
        if room > 1 or found:
            results = _fitting(results, found)
        for index, observation in zip(calls, results, strict=False):
            if observation is UNFINISHED:
                continue
            found[index] = observation
            if not observation.error or observation.done:
                spent.count(actions[index], observation)
            if at_hand.prepared:
                at_hand.done[str(index)] = observation
        calls = calls[room:]
        if opened:
            pairs = zip(batch, results, strict=True)
            _give_back(run, [each for each, seen in pairs if seen.error == SKIPPED], opened)
        if limits.max_failures is not None and failed_too_often(limits, spent):
            run.ending = run.ending or run.end_at(StopReason.MAX_FAILURES)
        elif UNFINISHED in results:
            return True
    for index, each in zip(calls, made, strict=True) if begun else ():
        if index in begun:  # An earlier run had room for it, so it counts, whatever ended this run.
            seen = each if isinstance(each, Observation) else unknown(run, each.call)
            found[index] = at_hand.done[str(index)] = seen
            spent.count(actions[index], seen)
    if opened:
        _give_back(run, made, opened)  # These are not called.
    return False


async def _scheduled(
    wiring: Wiring,
    run: LoopRun,
    at_hand: AtHand,
    context: Context,
    calls: list[int],
    batch: Sequence[Invocation | Observation],
    begun: Container[int],
) -> Sequence[Observation]:
    """Run the first of these calls, as many as the batch has, as the scheduler decides."""
    ready: list[Call] = []
    concurrent: list[bool] = []
    for index, each in zip(calls, batch, strict=False):
        again = index in begun
        ready.append(partial(_performed, wiring, run, at_hand, context, each, again))
        concurrent.append(isinstance(each, Invocation) and each.tool.concurrent)
    results = await wiring.scheduler.run(ready, concurrent)
    if len(results) != len(batch):
        raise TypeError(
            f"the scheduler {type(wiring.scheduler).__name__} gave {len(results)} observations "
            f"for {len(batch)} calls; run must give one for each, in their order"
        )
    return results


def _give_back(
    run: LoopRun, left: Sequence[Invocation | Observation], opened: Mapping[str, Amounts]
) -> None:
    """Close the grants of agents whose calls are not made: their children are never born."""
    for each in left:
        if isinstance(each, Invocation):
            child = child_id(each.tool.name, each.context.key)
            if child in opened:
                budget_grants.drop(run, child)


def _calls_left(limits: Limits, spent: Spent, wanted: int) -> int:
    """The number of tool calls that may be made, of those that are wanted."""
    most = limits.max_tool_calls
    return wanted if most is None else min(wanted, most - spent.tool_calls)


def _fitting(results: Sequence[Observation], found: dict[int, Observation]) -> list[Observation]:
    """The results of a batch; one that does not fit into the state with the others is an error."""
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


def keep(at_hand: AtHand, found: dict[int, Observation]) -> None:
    """Keep the finished observations for the next commit, so that no action is done again."""
    at_hand.done = {str(index): observation for index, observation in found.items()}


async def make_way(run: LoopRun, at_hand: AtHand, found: dict[int, Observation]) -> None:
    """Commit the finished calls of a batch, and pause for the requests of its other calls.

    If the pause was withdrawn meanwhile, or if people have decided meanwhile, the run goes on.
    """
    keep(at_hand, found)
    at_hand.prepared = False  # The open calls are made again, because their tools asked for it.
    run.state.at_hand = at_hand
    run.state.waiting = None
    if await ask_for_children(run, at_hand):
        return
    await run.checkpoint()
    await budget_grants.tell(run)


async def _prepare(
    run: LoopRun,
    at_hand: AtHand,
    calls: Sequence[int],
    made: Sequence[Invocation | Observation],
    room: int,
    opened: Mapping[str, Amounts],
) -> None:
    """Commit that these effects are about to begin; none has begun when this returns.

    The commit also proves that this Host still owns the Task (R1: only the owner commits). Only
    calls that the limits leave room for are prepared. So each prepared call that is not settled may
    have been made, and is within the limits (R18).

    Args:
        calls: The indexes of the calls, in their order.
        made: The calls themselves.
        room: The number of calls that the limits leave room for.
        opened: The grants of the agents that are called, by the child's id.
    """
    for index in calls[:room]:
        at_hand.done.pop(str(index), None)
    for index in calls[room:]:
        at_hand.done[str(index)] = NOT_BEGUN
    at_hand.prepared = True
    run.state.at_hand = at_hand
    ready = [each for each in made[:room] if isinstance(each, Invocation)]
    said: dict[str, Any] = {"keys": {str(each.context.index): each.context.key for each in ready}}
    if opened:
        said["grants"] = opened
    run.record(vocabulary.EFFECTS_PREPARED, **said)
    await run.commit()


async def _grant(
    run: LoopRun, made: list[Invocation | Observation], calls: int
) -> dict[str, Amounts]:
    """Open a grant for each call of an agent; a call that cannot have one becomes a refusal.

    Args:
        calls: The number of the calls that no run has begun; the ledger counts the others.

    Returns:
        The grants that were opened, by the child's id.
    """
    opened: dict[str, Amounts] = {}
    held = () if run.state.shares is None else run.state.shares.grants
    wanted = [
        (at, each.tool, child_id(each.tool.name, each.context.key))
        for at, each in enumerate(made)
        if isinstance(each, Invocation) and isinstance(each.tool, AgentTool)
    ]
    wanted = [each for each in wanted if each[2] not in held]
    for done, (at, tool, child) in enumerate(wanted):
        try:
            grant = await budget_grants.open_grant(
                run, child, tool.delegation, parts=len(wanted) - done, via=tool.name, calls=calls
            )
        except DelegationRefused as refused:
            call = cast("Invocation", made[at]).call
            made[at] = Observation(
                error=CHILD_FAILED, message=str(refused), call=call.id, tool=call.tool
            )
            continue
        if grant is not None:
            opened[child] = grant
    return opened


def _invocation(
    wiring: Wiring, run: LoopRun, at_hand: AtHand, index: int, context: Context, begun: bool
) -> Invocation | Observation:
    call: Any = at_hand.plan.actions[index]
    if call.refused:
        return Observation(
            error=SCHEMA_VALIDATION_FAILED, message=call.refused[:LONGEST], call=call.id,
            tool=call.tool[:80],
        )  # fmt: skip
    tool = run.tools.find(call.tool)
    if at_hand.awaited:
        begun = begun or str(index) in at_hand.awaited
    if tool is None and begun:
        return unknown(run, call)
    if tool is None or (tool not in context.tools and not begun):
        known = ", ".join(each.name for each in context.tools) or "none"
        there = known if len(known) <= LONGEST else f"{known[:LONGEST]}…"
        return Observation(
            error=UNKNOWN_TOOL, message=f"there is no tool {call.tool[:80]!r}; there are: {there}",
            call=call.id, tool=call.tool[:80],
        )  # fmt: skip
    step = run.state.step
    key = key_of(tool, run.task.id, step, index, call)
    judgement = at_hand.verdicts[index]
    progress = partial(run.progress, step, call.tool, index)
    told = ToolContext(
        run.task.id,
        step,
        index,
        key,
        run.job.principal,
        progress,
        None,
        wiring.threads,
        wiring.validator,
        run.task,
        _approver(judgement) if judgement.granted else None,
        at_hand.answers.get(str(index), _NONE) if at_hand.answers else _NONE,
    )
    if isinstance(tool, AgentTool):
        run.ending = run.ending or children.too_deep(run)
        told.caller = _caller(wiring, run, at_hand, index)
    if not wiring.hooks.before_tool:
        return Invocation(tool, call.arguments, call, told, checked=call.arguments)
    # What middleware does to the arguments must change neither the plan nor the record of it.
    arguments = values.decode(values.encode_checked(call.arguments))
    return Invocation(tool, arguments, ToolCall(call.tool, arguments, call.id), told)


def _approver(judgement: Judgement) -> str:
    """The person who approved a call, as the decision names them."""
    return judgement.by if isinstance(judgement.by, str) else ""


def _caller(wiring: Wiring, run: LoopRun, at_hand: AtHand, index: int) -> Caller:
    """The caller of an agent; it leaves the call if another call of the batch asks people."""
    decisions = at_hand.decided.get(str(index), [])
    return Caller(
        run.job,
        wiring.delegation.admit,
        decisions,
        lambda: run.job.stopping or bool(at_hand.awaited) or run.reallotted,
    )


async def _performed(
    wiring: Wiring,
    run: LoopRun,
    at_hand: AtHand,
    context: Context,
    each: Invocation | Observation,
    again: bool,
) -> Observation:
    """Make one call, with the middleware around it."""
    if isinstance(each, Observation):
        return each
    run.job.check()  # a kill may have come while the calls of a batch were begun
    if run.ending is not None or (run.limits.max_seconds is not None and _too_late(run)):
        return not_made(run, each, again)
    if again and not each.tool.repeatable:
        return unknown(run, each.call)
    hooks, shown = wiring.hooks, each
    observation: Observation | None = None
    if hooks.before_tool:
        each, observation, refused = await before_tool(wiring, run, at_hand, context, each)
        if refused is not None:
            return refused
    if observation is None:
        try:
            timed = None if run.limits.max_seconds is None else run
            observation = await perform(each, timed)
            if timed is not None and observation.error == TIMEOUT:
                _too_late(run)  # If the deadline cut the call, the run ends after this step.
            if observation.error == TIMEOUT and each.context.threads.abandoned:
                _abandoned(run, each)
        except DeadlinePassed:
            _too_late(run)
            return not_made(run, each, again)
        except Unfinished as unfinished:
            if unfinished.waiting is not None:
                waiting = dict(unfinished.waiting)
                if "children" not in waiting:
                    waiting["tool"] = each.call.tool
                at_hand.awaited[str(each.context.index)] = waiting
                run.job.nudge()
            return UNFINISHED
        finally:
            if at_hand.decided:
                at_hand.decided.pop(str(each.context.index), None)
    if each.context.caller is not None:
        await budget_grants.settle_call(run, each, observation)
    return await after_tool(hooks, run, shown, observation) if hooks.after_tool else observation


def _too_late(run: LoopRun) -> bool:
    """True if the run ends; a run that is out of time ends here."""
    if run.out_of_time:
        run.ending = run.ending or run.end_at(StopReason.TIMEOUT)
    return run.ending is not None


def _abandoned(run: LoopRun, each: Invocation) -> None:
    """Report a tool that still runs in its thread after its timeout."""
    if not each.tool.threaded:
        return
    threads, told = each.context.threads, {"tool": each.call.tool, "index": each.context.index}
    counts = {"abandoned": threads.abandoned, "limit": threads.most_abandoned}
    run.job.emit(Event(vocabulary.TOOL_ABANDONED, {**told, **counts}))
