"""Children: Tasks that a run gives work to, recorded before they are spawned (R13)."""

from __future__ import annotations

from typing import cast

from agentic_kernel import CannotStart, TaskExists, TaskNotFound, TaskStatus
from agentic_kernel.ids import new_id

from ..seams.agent_tool import failed, unless
from ..seams.delegation import Delegation, DelegationRefused, asked, child_of, depth, surfaced
from . import vocabulary
from .action import Delegate
from .approvals import ask_for_children
from .ending import End
from .execution import Execution
from .observation import CHILD_FAILED, Observation
from .reasons import StopReason
from .state import AtHand


async def delegate(
    delegation: Delegation, run: Execution, at_hand: AtHand, index: int
) -> Observation:
    """Spawn, join or cancel a child."""
    action = cast("Delegate", at_hand.plan.actions[index])
    try:
        match action.verb:
            case "spawn":
                return await _spawn(delegation, run, at_hand, index, action)
            case "join":
                return await _join(delegation, run, at_hand, index, action.child)
            case "cancel":
                await delegation.cancel(run.job, action.child)
                return Observation(output={"child": action.child, "status": "cancelled"})
    except (CannotStart, DelegationRefused, TaskExists, TaskNotFound) as refused:
        return Observation(error=CHILD_FAILED, message=str(refused))


def too_deep(run: Execution) -> End | None:
    """The end of a run that may not delegate any deeper; None if it may."""
    above = depth(run.task)
    if above < run.limits.max_depth:
        return None
    return End(StopReason.MAX_DEPTH, f"delegation is {above} Tasks deep already")


async def _spawn(
    delegation: Delegation, run: Execution, at_hand: AtHand, index: int, action: Delegate
) -> Observation:
    """The child's id is committed first, so that after a crash it is not spawned twice."""
    run.ending = too_deep(run)
    if run.ending is not None:
        return Observation(error=CHILD_FAILED, message=run.ending.message)
    slot = str(index)
    known = at_hand.children.get(slot)
    child = delegation.admit(
        run.task,
        child_of(
            run.task, id=known or new_id(), summary=action.summary,
            instructions=action.instructions, kind=run.task.runtime_kind, agent=action.agent,
        ),
    )  # fmt: skip
    if known is None:
        at_hand.children[slot] = child.id
        run.state.at_hand = at_hand
        run.record(vocabulary.CHILD_SPAWNED, child=child.id, agent=action.agent)
        await run.commit()
    await delegation.spawn(run.job, child)
    return Observation(output={"child": child.id})


async def _join(
    delegation: Delegation, run: Execution, at_hand: AtHand, index: int, child: str
) -> Observation:
    """What became of a child; a pause of this Task takes effect while it waits.

    What the child asks people for, this Task asks for; what they say is handed on first.
    """
    slot = str(index)
    decisions = at_hand.decided.pop(slot, None)
    if decisions:
        await delegation.tell(run.job, child, decisions)
    at_hand.awaited.pop(slot, None)
    run.wait_no_more()
    run.state.at_hand = at_hand

    def leaving() -> bool:
        return run.job.stopping

    while (task := await unless(leaving, delegation.join(run.job, child))) is None:
        await run.checkpoint()
    waiting = asked(task)
    if waiting is not None:
        at_hand.awaited[slot] = surfaced(task, waiting)
        await ask_for_children(run, at_hand)
        return await _join(delegation, run, at_hand, index, child)
    run.record(vocabulary.CHILD_ENDED, child=child, status=task.status.value)
    if task.status is TaskStatus.SUCCESS:
        return Observation(output={"child": child, "result": task.result})
    return failed(task)
