"""Accounts: what each Task of a family holds of the budget and has used, in its state (R18).

A Task counts a grant as gone until it *settles* the child: it then counts what the child used, and
adopts the grants that the child left open. At every version of a record this holds:

    spent + reserved + used by settled children + open grants <= limits

A cut of the limits is the one exception: it binds what is reserved after it arrived.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from agentic_kernel import Task, TaskStatus
from agentic_kernel.frozen import freeze

from ..record import Record
from .budget import (
    NAMES,
    NONE_USED,
    Amounts,
    amounts_of,
    divide,
    each,
    lower,
    minus,
    most,
    plus,
    used_by,
)
from .limits import Spent
from .plan import Usage

USED: Final = "engine/used"
"""The note of a child's own end: ``spent``, by itself and by the children that it settled, and
``grants``, those of its children that are still open."""
MOST_OPEN: Final = 64
"""The most open children of a Task under a shared budget."""
MOST_ADOPTED: Final = 256
"""The most open grants in one state, those of ended children included. If an ended child leaves
more, the rest counts as used."""


class Grant(msgspec.Struct, gc=False, omit_defaults=True):
    """One open grant, in the state of the Task that gave it or adopted it."""

    amounts: Amounts
    """The part of the budget that the child holds; the child's cap never exceeds it."""
    seq: int = 0
    """The number of changes of the grant since the child was started."""
    told: Amounts | None = None
    """The lower grant that the child is told, until its record shows that it has heard of it."""
    via: str = ""
    """The tool by which the child is called; "" for a child of the Loop's own `Delegation`."""
    away: bool = False
    """True if the child may be in another store than the Task that granted it."""
    begun: bool = False
    """True if the child was stored."""
    adopted: bool = False
    """True if an ended child gave it, and this Task took it over."""

    @property
    def cap(self) -> Amounts:
        """The grant that the child knows, or is told next."""
        return self.amounts if self.told is None else self.told


class Shares(msgspec.Struct, gc=False, omit_defaults=True):
    """The part of a Task's state about the budget of its family; other Tasks do not have it.

    An engine that dropped it would spend twice, so it raises the version of the state.
    """

    grants: dict[str, Grant] = {}
    """The open grants by the child's id."""
    used: Amounts = NONE_USED
    """The use of the settled children."""
    granted: Amounts | None = None
    """The Task's own grant, if it has changed since the Task was started."""
    seq: int = 0
    """The number of the change that ``granted`` comes from."""
    blind: bool = False
    """True if the run cannot reserve its calls. If the Task is ended from outside, its use is then
    not known, and its whole grant counts as used."""

    @property
    def taken(self) -> Amounts:
        """The part that is not left for the Task: the use of settled children, and open grants."""
        if not self.grants:
            return self.used
        return plus(self.used, *(grant.amounts for grant in self.grants.values()))


class Account(msgspec.Struct, gc=False):
    """The use of a Task's grant, as its record says."""

    spent: Amounts
    """Its own spending and that of the children that it settled. It includes the reservation of its
    last commit, which `Outcome.reserved` shows alone, unless the Task ended by itself and left the
    note `USED`. A Task without a grant and without children leaves no such note; after its own end
    this is then an upper bound, and `Outcome.usage` is exact."""
    grants: Mapping[str, Grant]
    """Its open grants."""
    ended: bool
    begun: int = 0
    """Tool calls that were prepared and not settled. As many of them as its grant left may have
    been made."""
    heard: int = 0
    """The number of the last change of its grant that it has heard of."""
    paused: bool = False
    """True if it is paused: it hears of nothing before it goes on."""
    known: bool = True
    """False if its record does not say what it used; its whole grant then counts as used."""

    @property
    def total(self) -> Amounts:
        """The sum of the Task's use, its reservation and its open grants."""
        if not self.grants:
            return self.spent
        return plus(self.spent, *(grant.amounts for grant in self.grants.values()))

    def begun_within(self, cap: int | None) -> Amounts:
        """The tool calls that were prepared and that a cap of tool calls left room for."""
        begun = self.begun
        if begun and cap is not None:
            begun = max(min(begun, cap - (self.total.tool_calls or 0)), 0)
        return Amounts(tool_calls=begun)


def settle(shares: Shares, child: str, account: Account | None) -> Amounts:
    """Close a grant: count what the child used, and adopt its open grants.

    Args:
        account: The account of the ended child; None if it cannot be read.

    Returns:
        The use of the child.
    """
    grant = shares.grants.pop(child)
    if account is None or not account.known:
        used = plus(NONE_USED, grant.amounts)
        shares.used = plus(shares.used, used)
        return used
    used = account.spent
    if account.begun:
        used = plus(used, account.begun_within(grant.amounts.tool_calls))
    for id, left in account.grants.items():
        if id in shares.grants:
            continue
        if len(shares.grants) < MOST_ADOPTED:
            # The grandchild is looked for where its parent was.
            shares.grants[id] = msgspec.structs.replace(left, via=grant.via, adopted=True)
        else:
            shares.used = plus(shares.used, left.amounts)
    shares.used = plus(shares.used, used)
    return used


def follow(grant: Grant, account: Account) -> bool:
    """Lower a grant that was cut, once the child has heard of it; return True if it is lower now.

    What the child has spent, reserved and granted already stays counted.
    """
    if grant.told is None or account.heard < grant.seq or not account.known:
        return False
    reached = each(
        lambda held, told, total: held if told is None else lower(held, max(told, total)),
        grant.amounts, grant.told,
        plus(account.total, account.begun_within(grant.amounts.tool_calls)),
    )  # fmt: skip
    changed = reached != grant.amounts
    grant.amounts = reached
    if reached == grant.told:
        grant.told = None
    return changed


def regrant(shares: Shares, before: Amounts, after: Amounts, own: Amounts) -> bool:
    """Carry a change of the limits on to the open grants; return True if a child is to be told.

    A raised grant counts at once. Of a cut grant the higher amount counts until the child has heard
    of the cut (`follow`).

    Args:
        before: The limits so far.
        after: The new limits.
        own: The amounts that the Task itself has spent, reserved, or keeps for its next call.
    """
    grants = list(shares.grants.values())
    left, room = minus(after, own, shares.used), minus(after, own, shares.taken)
    wanted = divide([grant.cap for grant in grants], before, after, left, room)
    changed = False
    for grant, cap in zip(grants, wanted, strict=True):
        if cap != grant.cap:
            grant.seq += 1
            grant.amounts = most(grant.amounts, cap)
            grant.told = None if grant.amounts == cap else cap
            changed = True
    return changed


class _Plan(msgspec.Struct, gc=False):
    actions: list[dict[str, Any]]


class _AtHand(msgspec.Struct, gc=False):
    plan: _Plan
    prepared: bool = False
    done: dict[str, msgspec.Raw] = {}


class _Durable(msgspec.Struct, gc=False):
    """The part of the state of any run with a `Ledger` that says what the run has used."""

    spent: Spent
    reserved: Usage | None = None
    at_hand: _AtHand | None = None
    shares: Shares | None = None


class _Noted(msgspec.Struct, gc=False):
    spent: Amounts
    grants: dict[str, Grant] = {}


_durable = msgspec.json.Decoder(_Durable).decode


def account_of(record: Record) -> Account:
    """Return the use of a Task, as its record says.

    A Task that ended by itself left the note `USED`. After an end from outside its last state
    counts, with its reservation and with the tool calls that were prepared and not settled.
    """
    noted = noted_by(record.task)
    if noted is not None:
        return noted
    ended = record.task.status.terminal
    if record.state is None:  # A run with a ledger commits before its first call.
        return Account(NONE_USED, {}, ended)
    try:
        state = _durable(record.state)
    except msgspec.MsgspecError:
        return Account(NONE_USED, {}, ended, known=False)
    shares, begun = state.shares or Shares(), 0
    if state.at_hand is not None and state.at_hand.prepared:
        begun = sum(
            action.get("type") == "tool_call" and str(index) not in state.at_hand.done
            for index, action in enumerate(state.at_hand.plan.actions)
        )
    spent = plus(used_by(state.spent, state.reserved), shares.used)
    paused = record.task.status is TaskStatus.PAUSED
    return Account(
        spent, shares.grants, ended, begun, shares.seq, paused=paused, known=not shares.blind
    )


def noted_by(task: Task) -> Account | None:
    """The account in the note of a Task's own end; None if there is none."""
    note = task.metadata.get(USED) if task.status.terminal and USED in task.noted else None
    if note is None:
        return None
    try:
        noted = msgspec.convert(note, _Noted)
    except msgspec.MsgspecError:
        return None
    return Account(noted.spent, noted.grants, True)


def note_of(spent: Amounts, grants: Mapping[str, Grant]) -> dict[str, Any]:
    """The note `USED` of a Task that ends; an amount of 0 is left out."""
    used = zip(NAMES, amounts_of(spent), strict=True)
    # The inner part is frozen first: the rest is then frozen at once (benchmarks/family.py).
    note: dict[str, Any] = {"spent": freeze({name: amount for name, amount in used if amount})}
    if grants:
        note["grants"] = msgspec.to_builtins(grants)
    return note
