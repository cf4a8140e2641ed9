"""Children: Tasks that a run gives work to, recorded before they are spawned (R13)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Final, cast

from agentic_kernel import CannotStart, InvalidValue, Task, TaskExists, TaskNotFound, TaskStatus

from .. import edges
from ..events import Event
from ..plans import vocabulary
from ..plans.action import Delegate, ToolCall
from ..plans.ending import End
from ..plans.lineage import depth
from ..plans.observation import CHILD_FAILED, OUTPUT_SCHEMA_FAILED, TIMEOUT, Observation
from ..plans.reasons import StopReason
from ..seams.agent_tool import AgentTool, child_failure, unless
from ..seams.delegation import Delegation, DelegationRefused, EndsChildren, child_of
from ..tools.call import key as key_of
from ..tools.call import stored
from ..tools.registry import ToolRegistry
from ..waiting import asked, surfaced
from . import budget_grants
from .approvals import apply_decisions, ask_for_children
from .run import LoopRun
from .state import AtHand, State
from .wiring import Wiring

_LONGEST: Final = 2_000
"""The most characters of a refusal that the planner is told, because it may quote the planner."""


async def delegate(wiring: Wiring, run: LoopRun, at_hand: AtHand, index: int) -> Observation:
    """Spawn, join or cancel a child."""
    action = cast("Delegate", at_hand.plan.actions[index])
    try:
        match action.verb:
            case "spawn":
                return await _spawn(wiring, run, at_hand, index, action)
            case "join":
                return await _join(wiring.delegation, run, at_hand, index, action.child)
            case "cancel":
                await wiring.delegation.cancel(run.job, action.child)
                await budget_grants.close_grant(run, action.child)
                return Observation(output={"child": action.child, "status": "cancelled"})
    except (CannotStart, DelegationRefused, TaskExists, TaskNotFound) as refused:
        return Observation(error=CHILD_FAILED, message=str(refused)[:_LONGEST])


def too_deep(run: LoopRun) -> End | None:
    """The end of a run that may not delegate any deeper; None if it may."""
    above = depth(run.task)
    if above < run.limits.max_depth:
        return None
    return End(
        StopReason.MAX_DEPTH,
        f"max_depth {run.limits.max_depth}: the Task is {above} levels deep already, so it may not "
        "delegate; raise max_depth",
    )


async def _spawn(
    wiring: Wiring, run: LoopRun, at_hand: AtHand, index: int, action: Delegate
) -> Observation:
    """Spawn a child; its id is committed first, so that a crash does not spawn it twice."""
    run.ending = too_deep(run)
    if run.ending is not None:
        return Observation(error=CHILD_FAILED, message=run.ending.message)
    slot = str(index)
    known = at_hand.children.get(slot)
    child = wiring.delegation.admit(
        run.task,
        child_of(
            run.task, id=known or wiring.ids(), summary=action.summary,
            instructions=action.instructions, kind=run.task.runtime_kind, agent=action.agent,
        ),
    )  # fmt: skip
    if known is None:
        said: dict[str, Any] = {"child": child.id, "agent": action.agent}
        parts = _to_spawn(at_hand, index)
        grant = await budget_grants.open_grant(run, child.id, run.delegation, parts=parts)
        if grant is not None:
            said["grant"] = grant
        at_hand.children[slot] = child.id
        run.state.at_hand = at_hand
        run.record(vocabulary.CHILD_SPAWNED, **said)
        await run.commit()
    try:
        await wiring.delegation.spawn(run.job, child)
    except TaskExists:
        budget_grants.drop(run, child.id)  # The id belongs to a Task of another parent.
        raise
    except (CannotStart, DelegationRefused):
        await budget_grants.close_grant(run, child.id)
        raise
    budget_grants.begun(run, child.id)
    return Observation(output={"child": child.id})


def _to_spawn(at_hand: AtHand, index: int) -> int:
    """The number of children that the plan spawns from this action on."""
    actions = at_hand.plan.actions[index:]
    return sum(isinstance(action, Delegate) and action.verb == "spawn" for action in actions)


async def _join(
    delegation: Delegation, run: LoopRun, at_hand: AtHand, index: int, child: str
) -> Observation:
    """Wait for a child and return its outcome; a pause of this Task takes effect meanwhile.

    This Task first hands the decisions of people on to the child. It passes a request of the child
    on to people.
    """
    job, slot = run.job, str(index)
    decisions = at_hand.decided.pop(slot, None)
    if decisions:
        await delegation.tell(job, child, decisions)
    at_hand.awaited.pop(slot, None)
    run.state.waiting = None
    run.state.at_hand = at_hand

    if run.untold:
        await budget_grants.announce(run)
    while (task := await unless(job, run.leaving, delegation.join(job, child), run)) is None:
        if run.out_of_time:
            run.ending = run.end_at(StopReason.TIMEOUT)
            return Observation(
                {"child": child}, TIMEOUT,
                "the child did not end before the run's limit of time; it may go on",
            )  # fmt: skip
        if run.reallotted:
            apply_decisions(run)
        await run.checkpoint()
        await budget_grants.tell(run)
    waiting = asked(task)
    if waiting is not None:
        at_hand.awaited[slot] = surfaced(task, waiting)
        await ask_for_children(run, at_hand)
        return await _join(delegation, run, at_hand, index, child)
    said: dict[str, Any] = {"child": child, "status": task.status.value}
    used = await budget_grants.close_grant(run, child, task)
    if used is not None:
        said["used"] = used
    run.record(vocabulary.CHILD_ENDED, **said)
    if task.status is not TaskStatus.SUCCESS:
        return child_failure(task)
    try:
        return Observation(output={"child": child, "result": stored(task.result, "result")})
    except InvalidValue as refused:
        return Observation(
            {"child": child}, OUTPUT_SCHEMA_FAILED,
            f"the child succeeded, but its result cannot be shown: {refused}",
        )  # fmt: skip


async def on_killed(
    delegation: Delegation, tools: ToolRegistry, task: Task, state: State, events: Sequence[Event]
) -> None:
    """End the children that a killed Task did not join, and the Tasks of its calls of agents."""
    ends: list[Awaitable[None]] = []
    ending: EndsChildren | None = edges.optional(delegation, "delegation", EndsChildren)
    if ending is not None:
        left: dict[str, None] = {}
        for event in events:
            if event.type == vocabulary.CHILD_SPAWNED:
                left[event.data["child"]] = None
            elif event.type == vocabulary.CHILD_ENDED:
                left.pop(event.data["child"], None)
        ends += [ending.on_killed(task, child) for child in left]
    for index, call in enumerate(() if state.at_hand is None else state.at_hand.plan.actions):
        if isinstance(call, ToolCall):
            tool = tools.find(call.tool)
            if isinstance(tool, AgentTool):
                key = key_of(tool, task.id, state.step, index, call)
                ends.append(tool.on_killed(task, key))
    # If one of them cannot be ended, the others are ended all the same.
    await asyncio.gather(*ends)
