"""Effects: prepared before they begin, settled by their step's commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..plans import vocabulary
from ..plans.action import ToolCall, digest
from ..plans.budget import Amounts
from ..plans.observation import Observation
from ..tools.registry import Invocation, Tool
from .run import LoopRun
from .state import AtHand


def key(tool: Tool, task_id: str, step: int, index: int, call: ToolCall) -> str:
    """The idempotency key of a call: the same after a crash, and different for every other call.

    If the tool has an effect, the key holds the digest of the arguments. A step without effects is
    planned anew after a crash, so its keys name the place only.
    """
    place = f"{task_id}:{step}:{index}"
    if not tool.has_effect:
        return place
    return f"{place}:{digest(call, place)[:16]}"


async def prepare(
    run: LoopRun,
    at_hand: AtHand,
    made: Sequence[Invocation | Observation],
    opened: Mapping[str, Amounts],
) -> None:
    """Commit that these effects are about to begin; none has begun when this returns.

    The commit also proves that this Host still owns the Task (R14).

    Args:
        opened: The grants of the agents that are called, by the child's id.
    """
    at_hand.prepared = True
    run.state.at_hand = at_hand
    said: dict[str, Any] = {
        "keys": {str(e.context.index): e.context.key for e in made if isinstance(e, Invocation)}
    }
    if opened:
        said["grants"] = opened
    run.record(vocabulary.EFFECTS_PREPARED, **said)
    await run.commit()
