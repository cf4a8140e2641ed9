"""MemoryGuardStore: the guard's state in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..trace.chain import START, Link, linked
from .port import ApprovalRequest, Begin, Begun, Kept, Seen, action_in, long_over


class MemoryGuardStore:
    """Keeps everything in memory, for one event loop. It is gone with the process."""

    def __init__(self) -> None:
        self._chain: list[Link] = []
        self._of: dict[str, list[Link]] = {}
        self._actions: dict[str, tuple[str, str | None, int]] = {}
        self._spent: dict[str, tuple[int, int]] = {}
        self._revoked: dict[str, int] = {}
        self._counted: dict[str, tuple[list[int], int]] = {}
        """The times of the calls of each counter, and its milliseconds."""
        self._kept: dict[str, Kept] = {}
        self._seen: dict[str, list[tuple[int, Seen]]] = {}
        self._requests: dict[str, ApprovalRequest] = {}
        self._count = 0

    async def begin(self, begin: Begin) -> Begun:
        """Look at revocation, uses and limits; if all hold, mark them and append the entry."""
        for token, _ in begin.tokens:
            if token in self._revoked:
                return Begun("revoked")
        known = self._actions.get(begin.action)
        if known is not None:
            return Begun("known", known[1]) if known[0] == begin.print else Begun("other")
        for token, uses in begin.tokens:
            if uses is not None and self._spent.get(token, (0, 0))[0] >= uses:
                return Begun("used_up")
        for counter, calls, span in begin.limits:
            at = [each for each in self._calls(counter) if each > begin.now - span]
            self._counted[counter] = at, span
            if len(at) >= calls:
                return Begun("limited")
        for token, uses in begin.tokens:
            if uses is not None:
                self._spent[token] = (self._spent.get(token, (0, 0))[0] + 1, begin.until)
        for counter, _, _ in begin.limits:
            self._counted[counter][0].append(begin.now)
        self._actions[begin.action] = (begin.print, None, begin.now)
        self._append(begin.entry)
        return Begun("begun")

    async def finish(
        self, action: str, result: str, entry: str, kept: Kept | None = None,
        seen: Seen | None = None,
    ) -> Link:  # fmt: skip
        """Record an action's result, keep what has a handle and what was seen."""
        begun = self._actions.get(action)
        if begun is not None:
            self._actions[action] = (begun[0], result, begun[2])
        if kept is not None:
            self._kept[kept.handle] = kept
        self._saw(seen)
        return self._append(entry)

    async def seen(self, run: str, after: int = 0) -> Sequence[tuple[int, str, str]]:
        """The texts that a run saw after a number, in order."""
        return [
            (number, each.source, each.text)
            for number, each in self._seen.get(run, ())
            if number > after
        ]

    async def recorded(self, action: str) -> tuple[str, str | None] | None:
        """The record of an action; None if it was not begun."""
        found = self._actions.get(action)
        return None if found is None else found[:2]

    async def append(self, entry: str, seen: Seen | None = None) -> Link:
        """Append an entry to the chain, and keep what was seen."""
        self._saw(seen)
        return self._append(entry)

    async def revoke(self, token: str, until: int, entry: str) -> Link:
        """Mark a token as revoked, and append the entry."""
        self._revoked[token] = until
        return self._append(entry)

    async def count(self, counter: str, since: int) -> int:
        """The calls that a counter took after a time."""
        return sum(at > since for at in self._calls(counter))

    async def kept(self, handle: str, now: int) -> Kept | None:
        """The value under a handle; None if there is no value, or its time is over."""
        found = self._kept.get(handle)
        return found if found is not None and now < found.until else None

    async def ask(self, request: ApprovalRequest, entry: str) -> ApprovalRequest:
        """The open request with this print; without one, write this one and append the entry."""
        for each in self._requests.values():
            if each.print == request.print and self._waits(each, request.asked):
                return each
        self._requests[request.id] = request
        self._append(entry)
        return request

    async def settle(self, id: str, verdict: str, now: int, entry: str) -> ApprovalRequest | None:
        """Write a decision and append the entry, if the request is open and has no decision."""
        found = self._requests.get(id)
        if found is not None and found.verdict is None and self._waits(found, now):
            found = self._requests[id] = replace(found, verdict=verdict)
            self._append(entry)
        return found

    async def approval(self, id: str) -> ApprovalRequest | None:
        """The request with an id; None if there is none."""
        return self._requests.get(id)

    async def approvals(self, now: int, limit: int = 100) -> Sequence[ApprovalRequest]:
        """The open requests without a decision, the oldest first."""
        waiting = (
            each
            for each in self._requests.values()
            if each.verdict is None and self._waits(each, now)
        )
        return sorted(waiting, key=lambda each: (each.asked, each.id))[:limit]

    async def links(self, after: int = 0, limit: int = 1_000) -> Sequence[Link]:
        """The entries after a number, in order."""
        return self._chain[after : after + limit]

    async def of_action(self, action: str) -> Sequence[Link]:
        """The entries of an action, in order."""
        return list(self._of.get(action, ()))

    async def last(self) -> Link | None:
        """The last entry."""
        return self._chain[-1] if self._chain else None

    async def prune(self, now: int, before: int = 0) -> None:
        """Remove handles, marks, counted calls and requests whose time is over; earlier actions."""
        over = long_over(now, before)
        self._requests = {each.id: each for each in self._requests.values() if over < each.until}
        self._actions = {
            name: each
            for name, each in self._actions.items()
            if each[2] >= before or name in self._requests
        }
        for counter, (at, span) in list(self._counted.items()):
            left = [each for each in at if each > over - span]
            self._counted[counter] = left, span
            if not left:
                del self._counted[counter]
        self._kept = {each.handle: each for each in self._kept.values() if now < each.until}
        self._revoked = {token: until for token, until in self._revoked.items() if over < until}
        self._spent = {token: mark for token, mark in self._spent.items() if over < mark[1]}
        for run, seen in list(self._seen.items()):
            self._seen[run] = [each for each in seen if over < each[1].until]
            if not self._seen[run]:
                del self._seen[run]

    async def close(self) -> None:
        """Do nothing, because nothing is open."""

    def _waits(self, request: ApprovalRequest, now: int) -> bool:
        return now < request.until and request.id not in self._actions

    def _calls(self, counter: str) -> list[int]:
        return self._counted.get(counter, ([], 0))[0]

    def _saw(self, seen: Seen | None) -> None:
        if seen is not None:
            self._count += 1
            self._seen.setdefault(seen.run, []).append((self._count, seen))

    def _append(self, entry: str) -> Link:
        before = self._chain[-1].hash if self._chain else START
        link = linked(before, len(self._chain) + 1, entry)
        self._chain.append(link)
        self._of.setdefault(action_in(entry), []).append(link)
        return link
