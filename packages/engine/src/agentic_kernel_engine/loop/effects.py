"""Effects: prepared before they begin, settled by their step's commit."""

from __future__ import annotations

from collections.abc import Sequence

from ..plans import vocabulary
from ..plans.action import ToolCall, digest
from ..plans.observation import Observation
from ..tools.registry import Invocation, Tool
from .run import LoopRun
from .state import AtHand


def key(tool: Tool, task_id: str, step: int, index: int, call: ToolCall) -> str:
    """The idempotency key of a call: the same again after a crash, and no other call's.

    With the digest of the arguments where the tool has an effect; a step that has none is planned
    anew after a crash, and its key says no more than the place.
    """
    place = f"{task_id}:{step}:{index}"
    if not tool.has_effect:
        return place
    return f"{place}:{digest(call, place)[:16]}"


async def prepare(run: LoopRun, at_hand: AtHand, made: Sequence[Invocation | Observation]) -> None:
    """Put on record that these effects are about to begin; nothing has begun when it returns.

    The commit also proves that this host still owns the Task (R14).
    """
    at_hand.prepared = True
    run.state.at_hand = at_hand
    run.record(
        vocabulary.EFFECTS_PREPARED,
        keys={str(e.context.index): e.context.key for e in made if isinstance(e, Invocation)},
    )
    await run.commit()
