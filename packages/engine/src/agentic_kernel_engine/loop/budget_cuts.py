"""Budget cuts: before a cut ends a run, the run waits until its running children know the cut.

R18: until a child has heard that its grant was cut, the whole grant counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from agentic_kernel import KernelError

from ..plans.accounts import Grant
from ..plans.budget import plus, without
from ..plans.limits import Limits
from ..seams.agent_tool import unless
from .approvals import apply_decisions
from .budget_grants import announce, place_of, reclaim
from .run import LoopRun
from .state import AtHand

_FIRST: Final = 0.02
_LONGEST: Final = 1.0
"""Seconds between two looks at the children: twice as long each time, up to the longest."""


async def attend(run: LoopRun) -> None:
    """Tell children of changed grants, and make room at a limit. Each step begins with it."""
    if run.untold:
        await announce(run)
    if run.state.at_hand is None and run.exceeded() is not None:
        await make_room(run, lambda limits: run.exceeded(limits) is None, fence=True)


async def make_room(
    run: LoopRun,
    fits: Callable[[Limits], bool],
    at_hand: AtHand | None = None,
    *,
    fence: bool = False,
) -> None:
    """Get back what children do not hold any more, before a limit stops the run's next action.

    Until a child has heard of a cut, its whole grant counts. If the action would fit without that,
    the run waits for the children to hear of the cut or to end. Meanwhile a pause takes effect, a
    change of the limits is acted on, and `max_seconds` ends the wait. The run does not wait for a
    paused child, which reads the cut only when it goes on, nor for a store that cannot be reached.

    Args:
        fits: Returns True if the next action fits limits like these.
        at_hand: The plan whose actions are under way, for a pause of the wait.
        fence: As for `reclaim`.
    """
    await reclaim(run, fence=fence)

    delay = _FIRST
    while not fits(run.limits) and fits(_when_heard(run)) and not run.out_of_time:
        await announce(run)
        if not await _will_hear(run):
            break
        await unless(run.job, run.leaving, asyncio.sleep(delay))
        delay = min(2 * delay, _LONGEST)
        if run.reallotted:
            apply_decisions(run)
        if run.job.stopping:
            run.state.at_hand = at_hand or run.state.at_hand
            await run.checkpoint()
        await reclaim(run, fence=fence)


def _when_heard(run: LoopRun) -> Limits:
    """The run's limits as they will be once every child has heard of its grant."""
    shares = run.shares()
    caps = (grant.cap for grant in shares.grants.values())
    return without(run.caps, run.shared, plus(shares.used, *caps))


async def _will_hear(run: LoopRun) -> bool:
    """True if a child that runs has not heard of a cut yet."""
    for child, grant in list(run.shares().grants.items()):
        if grant.told is not None and await _deaf(run, child, grant):
            return True
    return False


async def _deaf(run: LoopRun, child: str, grant: Grant) -> bool:
    place = place_of(run, grant)
    if place is None:
        return False
    try:
        account = await place.account(run.job, child)
    except KernelError:
        return False
    return not account.ended and not account.paused and account.heard < grant.seq
