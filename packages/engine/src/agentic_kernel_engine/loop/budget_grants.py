"""Grants: a run reserves parts of its budget for its children, and settles what they used (R18).

A grant is opened in memory, and the commit that announces the child makes it durable; a settled
grant is closed by the step's commit. So neither costs a commit of its own.
"""

from __future__ import annotations

from agentic_kernel import KernelError, Task, TaskNotFound

from ..plans.accounts import MOST_OPEN, Account, Grant, follow, noted_by, settle
from ..plans.budget import NAMES, NONE_USED, UNLIMITED, Amounts, lacking, minus, share, worst_case
from ..plans.observation import TIMEOUT, Observation
from ..seams.agent_tool import AgentTool, child_id
from ..seams.delegation import DelegationRefused, Metering
from ..tools.call import Invocation
from .run import LoopRun


async def open_grant(
    run: LoopRun,
    child: str,
    place: Metering | None,
    *,
    parts: int,
    via: str = "",
    calls: int = 0,
) -> Amounts | None:
    """Reserve a part of the budget for a child; the caller commits it with the child's id.

    The child gets an equal share of what is left after the worst case of the run's own next call:
    the children that the same answer starts and have no grant yet count as one part each, and the
    run itself as one. A child has at most one grant.

    Args:
        place: The Delegation that starts the child; None if it does not meter.
        parts: The number of children, this one included, that still get a grant.
        via: The tool by which the child is called; "" for the Loop's own Delegation.
        calls: Tool calls that the run itself has begun and not counted.

    Returns:
        The grant; None if no limit is shared, or if the child is declared unmetered.

    Raises:
        DelegationRefused: The child cannot be metered, too many children are open, or nothing is
            left for it.
    """
    limits = run.shared
    metered = place is not None and place.meters
    if limits == UNLIMITED:
        if metered and run.limits.max_seconds is not None:
            run.hand(child, UNLIMITED)
        return None
    if place is not None and place.unmetered:
        return None
    if place is None or not metered:
        raise DelegationRefused(
            f"the Task has limits that its children share ({_named(limits)}), and the Runtime of "
            "the child does not say what its Tasks use; give the work to a Loop on a Host, or "
            "declare the Runtime with unmetered=True"
        )
    shares = run.shares()
    if child in shares.grants:
        return shares.grants[child].amounts
    if len(shares.grants) >= MOST_OPEN:
        await reclaim(run)
    if len(shares.grants) >= MOST_OPEN:
        raise DelegationRefused(
            f"{len(shares.grants)} children have open grants, and {MOST_OPEN} may have; join or "
            "cancel one of them first"
        )
    amounts = share(_left(run, calls), parts + 1)
    if lacking(amounts) and shares.grants and await reclaim(run):
        amounts = share(_left(run, calls), parts + 1)
    lack = lacking(amounts)
    if lack:
        cap = getattr(run.caps, lack)
        raise DelegationRefused(
            f"nothing of {lack} {cap:,.6g} is left for a child: the Task and its children have "
            f"used or reserved it; do the work here, join a child, or raise {lack}"
        )
    shares.grants[child] = Grant(amounts, via=via, away=bool(via) or place.away)
    run.opened = run.opened or set()
    run.opened.add(child)
    run.refit()
    run.hand(child, amounts)
    return amounts


def begun(run: LoopRun, child: str) -> None:
    """Note that a child was stored, for the next commit."""
    shares = run.state.shares
    if shares is not None and child in shares.grants:
        shares.grants[child].begun = True
    run.forget(child)


async def close_grant(run: LoopRun, child: str, ended: Task | None = None) -> Amounts | None:
    """Settle a child of this run that has ended, or that was not started; return what it used.

    A child that runs keeps its grant, and so does a child that another run of this Task may still
    start. A child without an open grant is settled already: nothing returns twice.

    Args:
        ended: The child's terminal snapshot, if it is at hand.
    """
    shares = run.state.shares
    if shares is None or child not in shares.grants:
        return None
    account = None if ended is None else noted_by(ended)
    place = place_of(run, shares.grants[child])
    if account is None and place is not None:
        try:
            account = await place.account(run.job, child)
        except TaskNotFound:
            if ended is None and child not in (run.opened or ()):
                return None  # An earlier run of this Task may be about to start it.
            account = None if ended else Account(NONE_USED, {}, True)
        except KernelError:
            if ended is None:
                return None
    if account is not None and not account.ended:
        return None
    return _settle(run, child, account)


async def settle_call(run: LoopRun, each: Invocation, observation: Observation) -> None:
    """Settle the child of an agent's call that is over; a child that may still run stays open."""
    caller, shares = each.context.caller, run.state.shares
    if caller is None or observation.error == TIMEOUT:
        return
    child = child_id(each.tool.name, each.context.key)
    run.forget(child)
    if shares is not None and child in shares.grants:
        shares.grants[child].begun = caller.joined is not None
        await close_grant(run, child, caller.joined)


def drop(run: LoopRun, child: str) -> None:
    """Close the grant of a child that does not exist and never will."""
    if run.state.shares is not None and child in run.state.shares.grants:
        _settle(run, child, Account(NONE_USED, {}, True))


async def reclaim(run: LoopRun, *, fence: bool = False) -> bool:
    """Settle the children that have ended, and lower the grants of those that heard of a cut.

    Called before a limit ends the run or refuses a child.

    Args:
        fence: True if no child of the plan at hand may still be started. A child that was not
            started is then ended before it can begin: a process that lost this Task may be about
            to start it.

    Returns:
        True if something came back.
    """
    shares = run.state.shares
    if shares is None:
        return False
    before, at_hand = shares.taken, run.state.at_hand is not None
    for child, grant in list(shares.grants.items()):
        place = place_of(run, grant)
        if place is None or (at_hand and grant.via and not grant.adopted):
            continue  # A call at hand that is made again must not open a second grant.
        try:
            account = await place.account(run.job, child)
            if account.ended:
                _settle(run, child, account)
            else:
                follow(grant, account)
        except TaskNotFound:
            if grant.begun or (grant.adopted and grant.away):
                _settle(run, child, None)  # Pruned, or in a store that this run cannot find.
            elif fence:
                await _fence(run, place, child)
        except KernelError:
            continue  # Its store cannot be reached; the grant stays counted.
    run.refit()
    return shares.taken != before


async def announce(run: LoopRun) -> None:
    """Commit changed grants, and tell the children; nothing is done if no grant has changed."""
    if run.untold:
        await run.commit()
        await tell(run)


async def tell(run: LoopRun) -> None:
    """Tell the children whose grants have changed; their new grants are committed before.

    A grant has a number, so that a child takes the newest one and takes it once.
    """
    shares = run.state.shares
    if shares is None or not run.untold:
        return
    run.untold = False
    for child, grant in list(shares.grants.items()):
        place = place_of(run, grant)
        if not grant.seq or place is None:
            continue
        try:
            account = await place.account(run.job, child)
            if not account.ended and account.heard < grant.seq:
                await place.regrant(run.job, child, grant.cap, grant.seq)
        except TaskNotFound:
            continue
        except KernelError:
            run.untold = True  # Its store cannot be reached now; the next step tries again.


def _settle(run: LoopRun, child: str, account: Account | None) -> Amounts:
    used = settle(run.shares(), child, account)
    run.forget(child)
    if run.opened:
        run.opened.discard(child)
    run.refit()
    return used


async def _fence(run: LoopRun, place: Metering, child: str) -> None:
    """End a child before it can begin, and settle it; a child that has begun stays open."""
    try:
        await place.fence(run.job, child)
        account = await place.account(run.job, child)
    except KernelError:
        return
    if account.ended:
        _settle(run, child, account)


def place_of(run: LoopRun, grant: Grant) -> Metering | None:
    """The place where a child is found; None if this run cannot reach it."""
    if not grant.via:
        return run.delegation
    tool = run.tools.find(grant.via)
    return tool.delegation if isinstance(tool, AgentTool) else None


def _left(run: LoopRun, calls: int) -> Amounts:
    """The budget that is left for children after the run's own next call and open tool calls."""
    begun = (Amounts(tool_calls=calls),) if calls else ()
    return minus(run.shared, run.own, run.shares().taken, worst_case(run.worst), *begun)


def _named(limits: Amounts) -> str:
    return ", ".join(f"max_{name}" for name in NAMES if getattr(limits, name) is not None)
