"""GuardStore: the port to what keeps the guard's state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine.edges import whole

from ..errors import GuardError
from ..trace.chain import Link

FIRST: Final = '{"action":"'
"""The beginning of each entry: names are in the order of the alphabet."""
# Times are milliseconds since 1970.
SKEW: Final = 24 * 3_600_000
"""The most milliseconds by which the clocks of two guards may differ. Marks stay so much longer."""
EARLIEST: Final = 10**12
"""The earliest time that `GuardStore.prune` takes, in 2001; seconds are far below it."""
LATEST: Final = 10**13
"""The latest one, in 2286; microseconds are far above it."""


class StoreFailed(GuardError):
    """The store does not answer, or does not write. What was asked may have been written."""

    def __init__(self, message: str) -> None:
        super().__init__("guard/store_failed", message)


class Begin(msgspec.Struct, frozen=True):
    """The conditions and the writes before an action may run."""

    action: str
    """Id of the action."""
    print: str
    """Digest of what the action is; the same id with another one is refused."""
    tokens: tuple[tuple[str, int | None], ...]
    """The ids of a token and its parents, and how often each may be used."""
    until: int
    """The time after which the marks of the tokens may be removed."""
    limits: tuple[tuple[str, int, int], ...]
    """Counters, their calls and their milliseconds."""
    now: int
    entry: str
    """The entry of the chain, as canonical JSON."""


class Begun(msgspec.Struct, frozen=True):
    """The result of `GuardStore.begin`."""

    state: Literal["begun", "known", "other", "revoked", "used_up", "limited"]
    """``begun``: run it. ``known``: the action was begun before. ``other``: its id was used for
    something else. Only with ``begun`` something was written."""
    result: str | None = None
    """With ``known``: the recorded result, or None if no end was recorded."""


class Kept(msgspec.Struct, frozen=True):
    """A result under a handle."""

    handle: str
    owner: str
    tenant: str
    body: str
    until: int


class Seen(msgspec.Struct, frozen=True):
    """A text that a run saw of a source, for taint."""

    run: str
    source: str
    text: str
    until: int


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call that waits for a person's approval, or has it."""

    id: str
    """Id of the request, and of the action that the approved call is."""
    print: str
    """Digest of what the action is, as in `Begin`."""
    body: str
    """The call that a person decides about, as canonical JSON."""
    asked: int
    until: int
    """The end of the request, and of an approval of it."""
    verdict: str | None = None
    """The signed decision, as canonical JSON; None while there is none."""


class GuardStore(Protocol):
    """Keeps the chain, the marks of tokens, the counters, the recorded actions, the handles and the
    requests for approvals.

    Each call is one step: all of it is written, or nothing, and durably so if the store is. Several
    processes may use a durable store; their entries are in one chain. A call that cannot be
    answered raises `StoreFailed`.
    """

    async def begin(self, begin: Begin) -> Begun:
        """Look at revocation, uses and limits; if all hold, mark them and append the entry."""
        ...

    async def finish(
        self, action: str, result: str, entry: str, kept: Kept | None = None,
        seen: Seen | None = None,
    ) -> Link:  # fmt: skip
        """Record an action's result, keep what has a handle and what was seen, and append the
        entry."""
        ...

    async def seen(self, run: str, after: int = 0) -> Sequence[tuple[int, str, str]]:
        """The texts that a run saw after a number, in order, each with its number and source."""
        ...

    async def recorded(self, action: str) -> tuple[str, str | None] | None:
        """The digest of what an action is, and its result, or None without an end; None if it was
        not begun."""
        ...

    async def append(self, entry: str, seen: Seen | None = None) -> Link:
        """Append an entry to the chain, and keep what was seen."""
        ...

    async def revoke(self, token: str, until: int, entry: str) -> Link:
        """Mark a token as revoked, and append the entry."""
        ...

    async def count(self, counter: str, since: int) -> int:
        """The calls that a counter took after a time."""
        ...

    async def kept(self, handle: str, now: int) -> Kept | None:
        """The value under a handle; None if there is no value, or its time is over."""
        ...

    async def ask(self, request: ApprovalRequest, entry: str) -> ApprovalRequest:
        """The open request with this print; without one, write this one and append the entry.

        A request is open until its time is over, or its action is begun. A decision does not close
        it.
        """
        ...

    async def settle(self, id: str, verdict: str, now: int, entry: str) -> ApprovalRequest | None:
        """Write a decision and append the entry, if the request is open and has no decision.

        Returns:
            The request as it is then; the first decision stays. None if there is no such request.
        """
        ...

    async def approval(self, id: str) -> ApprovalRequest | None:
        """The request with an id; None if there is none."""
        ...

    async def approvals(self, now: int, limit: int = 100) -> Sequence[ApprovalRequest]:
        """The open requests without a decision, the oldest first."""
        ...

    async def links(self, after: int = 0, limit: int = 1_000) -> Sequence[Link]:
        """The entries after a number, in order."""
        ...

    async def of_action(self, action: str) -> Sequence[Link]:
        """The entries of an action, in order."""
        ...

    async def last(self) -> Link | None:
        """The last entry."""
        ...

    async def prune(self, now: int, before: int = 0) -> None:
        """Remove handles, marks, counted calls and requests whose time is over. The chain stays.

        Marks, counted calls and requests stay for a day more (`SKEW`), because a guard whose clock
        is behind would take a token that was revoked or spent.

        Args:
            now: The time, in milliseconds since 1970.
            before: Recorded actions that were begun before this time are removed, too, but for
                those whose request for approval still holds. A call with the key of a removed
                action is a new action. Milliseconds, too; 0 for none.

        Raises:
            InvalidValue: A time is in another unit than milliseconds; nothing is removed.
        """
        ...

    async def close(self) -> None:
        """Close it. Closing twice does nothing more."""
        ...


def action_in(entry: str) -> str:
    """The id of the action in an entry's canonical form, which begins with it.

    An id has no quotes; the databases find it in the same way, without reading the JSON.
    """
    _, name, _, action, _ = entry.split('"', 4)
    assert name == "action", "the canonical form of an entry begins with its action"
    return action


def long_over(now: int, before: int) -> int:
    """The time up to which marks have ended for every guard, whose clock may be behind.

    Raises:
        InvalidValue: A time is in another unit than milliseconds since 1970.
    """
    for name, at in (("now", now), ("before", before)):
        if name == "now" or at != 0:
            try:
                whole(at, name, EARLIEST, LATEST)
            except InvalidValue as error:
                raise InvalidValue(
                    name, f"{error.reason}, in milliseconds since 1970, as int(time.time() * 1000)"
                ) from None
    return now - SKEW
