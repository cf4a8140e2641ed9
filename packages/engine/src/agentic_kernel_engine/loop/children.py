"""Children: Tasks that a run gives work to, recorded before they are spawned (R13)."""

from __future__ import annotations

import asyncio
from typing import Final, cast

from agentic_kernel import CannotStart, Task, TaskExists, TaskNotFound, TaskStatus
from agentic_kernel.ids import new_id

from . import vocabulary
from .action import Delegate
from .ending import End
from .execution import Execution
from .observation import CHILD_FAILED, Observation
from .reasons import StopReason
from .state import AtHand

DEPTH: Final = "engine/depth"
"""Metadata of a child: how many Tasks above it delegated to it."""
LOOK: Final = 0.05
"""Seconds between looks at whether this Task is to pause while it waits for a child."""


async def delegate(run: Execution, at_hand: AtHand, index: int) -> Observation:
    """Spawn, join or cancel a child."""
    action = cast("Delegate", at_hand.plan.actions[index])
    try:
        match action.verb:
            case "spawn":
                return await _spawn(run, at_hand, index, action)
            case "join":
                return await _join(run, at_hand, action.child)
            case "cancel":
                await run.job.cancel(action.child)
                return Observation(output={"child": action.child, "status": "cancelled"})
    except (CannotStart, TaskExists, TaskNotFound) as refused:
        return Observation(error=CHILD_FAILED, message=str(refused))


async def _spawn(run: Execution, at_hand: AtHand, index: int, action: Delegate) -> Observation:
    """The child's id is committed first, so that after a crash it is not spawned twice."""
    depth = _depth(run.task) + 1
    if depth > run.limits.max_depth:
        run.ending = End(StopReason.MAX_DEPTH, f"delegation is {depth - 1} Tasks deep already")
        return Observation(error=CHILD_FAILED, message=run.ending.message)
    slot = str(index)
    if slot not in at_hand.children:
        child = at_hand.children[slot] = new_id()
        run.state.at_hand = at_hand
        run.record(vocabulary.CHILD_SPAWNED, child=child, agent=action.agent)
        await run.commit()
    child = at_hand.children[slot]
    await run.job.spawn(
        Task.new(
            summary=action.summary,
            instructions=action.instructions,
            runtime_kind=run.task.runtime_kind,
            agent_name=action.agent,
            metadata={DEPTH: depth},
            id=child,
        )
    )
    return Observation(output={"child": child})


async def _join(run: Execution, at_hand: AtHand, child: str) -> Observation:
    """What became of a child; a pause of this Task takes effect while it waits."""
    waiting = asyncio.ensure_future(run.job.join(child))
    try:
        while not waiting.done():
            await asyncio.wait([waiting], timeout=LOOK)
            if run.job.stopping and not waiting.done():
                run.state.at_hand = at_hand
                await run.checkpoint()
    finally:
        waiting.cancel()
    task = await waiting
    run.record(vocabulary.CHILD_ENDED, child=child, status=task.status.value)
    if task.status is TaskStatus.SUCCESS:
        return Observation(output={"child": child, "result": task.result})
    why = task.status.value if task.failure is None else str(task.failure.message)
    return Observation(error=CHILD_FAILED, message=f"child {child} did not succeed: {why}")


def _depth(task: Task) -> int:
    depth = task.metadata.get(DEPTH, 0)
    return depth if isinstance(depth, int) else 0
