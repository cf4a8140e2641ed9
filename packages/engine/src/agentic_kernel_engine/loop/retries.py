"""Retries: a failed call of the planner, and the wait before it is made again.

Middleware decides if it is made again, and after which delay. If a call gives no plan, its usage
counts as far as the planner knows it. If the planner does not know it, the call may have used up
its reservation, so the reservation counts as spent (R17).
"""

from __future__ import annotations

import asyncio
from math import ceil
from typing import Any, Final

import msgspec

from ..errors import TaskFailed
from ..faults import is_a, report, text_of
from ..plans import vocabulary
from ..plans.ending import End
from ..plans.plan import NOTHING_USED, Usage
from ..plans.reasons import StopReason
from ..seams.middleware import Hooks, Recovery, storable
from ..seams.planner import Context
from .run import LoopRun

RETRIES: Final = 10
"""The most attempts of one call; middleware asks for each one after the first."""
TRIED_OFTEN: Final = (
    f"the call of the planner was made {RETRIES} times, the most that is allowed, and failed each "
    "time; let the middleware give up earlier, or name another planner"
)


async def recovery_of(
    hooks: Hooks, run: LoopRun, context: Context, error: Exception, used: Usage | None
) -> Recovery | None:
    """Record a failed call and the recovery that middleware chooses; return the recovery.

    The reservation for the call counts as spent before middleware sees the budget that is left.
    """
    then, counted = "fail", count(run, used)
    context.failures += 1
    context.remaining = run.remaining
    if not is_a(error, TaskFailed):
        report(error, run.task.id, run.state.step, "the planner")
    recovery: Recovery | None = None
    try:
        for hook in hooks.on_error:
            recovery = await hook(context, error)
            if recovery is not None:
                then = recovery.verb
                break
    finally:
        run.record(
            vocabulary.PLAN_FAILED, then=then, message=message_of(error), **counted,
            code=_code(error),
        )  # fmt: skip
    return recovery


async def wait(run: LoopRun, delay: float, error: Exception) -> None:
    """Wait before a call is made again; a pause that waits takes effect meanwhile.

    Raises:
        End: The wait would pass ``max_seconds``.
        RunEnded: A pause took effect.
    """
    limit, now = run.limits.max_seconds, asyncio.get_running_loop().time
    left, due = delay, now() + delay
    await asyncio.sleep(0)
    while True:
        if run.job.stopping:
            await run.checkpoint()
        if limit is not None and run.seconds + max(left, 0) >= limit:
            after = ceil(left * 10) / 10  # Rounded up, because 0.0 would be no wait.
            more = f", and the failed call may be made again only after {after:.1f} seconds more"
            raise End(
                StopReason.TIMEOUT,
                f"max_seconds {limit:g}: the run worked for {run.seconds:.1f} seconds"
                f"{more if left > 0 else ''}; raise max_seconds. The call failed with "
                f"{_code(error)}: {message_of(error)}",
            )
        if left <= 0:
            return
        await asyncio.wait([run.job.news()], timeout=left)
        left = due - now()


def count(run: LoopRun, used: Usage | None) -> dict[str, Any]:
    """Count the usage of a call that gave no plan; return the data of its event about it.

    If nothing was used, the reservation stays, because it is as good for the next call.

    Args:
        used: The usage; None if it is not known, so that the reservation counts as spent.
    """
    state = run.state
    counted = used
    if counted is None:
        counted = state.reserved or NOTHING_USED
    if counted != NOTHING_USED:
        state.spent.bank(counted)
        state.reserved = None
    form = msgspec.to_builtins(counted)
    return {"forfeited": form} if used is None else {"forfeited": {}, "usage": form}


def _code(error: Exception) -> str:
    code = getattr(error, "code", None)
    return storable(code) if isinstance(code, str) else type(error).__name__


def message_of(error: Exception) -> str:
    """The message of a failed call, as it may be stored."""
    try:
        return storable(str(error.message) if is_a(error, TaskFailed) else text_of(error))
    except Exception:
        return "(its message cannot be read)"
