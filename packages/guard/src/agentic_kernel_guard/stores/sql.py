"""SQL: the steps of a store in a database, in the words that SQLite and Postgres share."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Final, TypeVar

from ..trace.chain import START, Link, linked
from .port import ApprovalRequest, Begin, Begun, Kept, Seen, StoreFailed, action_in, long_over

T = TypeVar("T")
Run = Callable[..., list[tuple[Any, ...]]]
"""Runs a statement with ``?`` for its values, and returns its rows."""

VERSION: Final = 2
"""The version of the tables. A store of an older one is brought to it; a newer one is refused."""
TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS guard_chain "
    "(seq BIGINT PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS guard_actions "
    "(id TEXT PRIMARY KEY, print TEXT NOT NULL, result TEXT, at BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS guard_spent "
    "(token TEXT PRIMARY KEY, uses BIGINT NOT NULL, until BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS guard_revoked (token TEXT PRIMARY KEY, until BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS guard_counted "
    "(counter TEXT NOT NULL, action TEXT NOT NULL, at BIGINT NOT NULL, until BIGINT NOT NULL, "
    "PRIMARY KEY (counter, action))",
    "CREATE TABLE IF NOT EXISTS guard_kept (handle TEXT PRIMARY KEY, owner TEXT NOT NULL, "
    "tenant TEXT NOT NULL, body TEXT NOT NULL, until BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS guard_seen (run TEXT NOT NULL, seq BIGINT NOT NULL, "
    "source TEXT NOT NULL, body TEXT NOT NULL, until BIGINT NOT NULL, PRIMARY KEY (run, seq))",
    "CREATE TABLE IF NOT EXISTS guard_requests (id TEXT PRIMARY KEY, print TEXT NOT NULL, "
    "body TEXT NOT NULL, asked BIGINT NOT NULL, until BIGINT NOT NULL, verdict TEXT)",
    "CREATE INDEX IF NOT EXISTS guard_requests_print ON guard_requests (print, until)",
)
_REQUEST: Final = "SELECT id, print, body, asked, until, verdict FROM guard_requests WHERE "
_OPEN: Final = (
    "until > ? AND NOT EXISTS "
    "(SELECT 1 FROM guard_actions WHERE guard_actions.id = guard_requests.id)"
)
"""Of a request that is open at a time."""
_MARKS: Final = ("guard_revoked", "guard_spent", "guard_counted", "guard_seen", "guard_requests")
"""The tables whose rows are over at a time, and must not be missed by a clock that is behind."""
_COUNTED: Final = 31 * 24 * 3_600_000


class SQLGuardStore(ABC):
    """A store in a database. One thread of its own talks to the database."""

    ACTION: ClassVar[str]
    """The id of an entry's action in the words of the database, from the body.

    The body is under the hash. A column of its own could be changed, and no check would show it.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="guard-store")
        self._closed = False

    @abstractmethod
    def writing(self) -> AbstractContextManager[Run]:
        """A transaction that no other writer overlaps; it commits if the block does not raise."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Run]:
        """A transaction that reads."""

    @classmethod
    def tables(cls) -> tuple[str, ...]:
        """The statements that make the tables."""
        index = f"CREATE INDEX IF NOT EXISTS guard_chain_of ON guard_chain (({cls.ACTION}), seq)"
        return *TABLES, index

    VERSION: ClassVar[int] = VERSION

    def prepare(self, run: Run, version: int, columns: Callable[[str], Collection[str]]) -> None:
        """Make the tables; bring those of an older version to this one.

        Args:
            run: In a transaction that no other writer overlaps.
            version: Of the tables that are there, 0 if there are none.
            columns: The columns of a table.

        Raises:
            StoreFailed: A newer version made the tables.
        """
        if version > self.VERSION:
            raise StoreFailed(
                f"{self._place}: has version {version}, and this release reads up to "
                f"{self.VERSION}; upgrade agentic-kernel-guard"
            )
        if 0 < version < self.VERSION:
            _upgrade(run, columns)
        for table in self.tables():
            run(table)

    @abstractmethod
    def shut(self) -> None:
        """Close the connection."""

    def bound(self) -> float | None:
        """The most seconds of a call, or None if the database itself bounds them."""
        return None

    def cut(self) -> None:  # noqa: B027 - a store without a bound has nothing to cut.
        """End the call that the store's thread is in; called from another thread."""

    @abstractmethod
    def troubles(self) -> tuple[type[Exception], ...]:
        """The errors of the database."""

    async def begin(self, begin: Begin) -> Begun:
        """Look at revocation, uses and limits; if all hold, mark them and append the entry."""

        def step(run: Run) -> Begun:
            for token, _ in begin.tokens:
                if run("SELECT 1 FROM guard_revoked WHERE token = ?", token):
                    return Begun("revoked")
            known = run("SELECT print, result FROM guard_actions WHERE id = ?", begin.action)
            if known:
                return Begun("known", known[0][1]) if known[0][0] == begin.print else Begun("other")
            for token, uses in begin.tokens:
                spent = run("SELECT uses FROM guard_spent WHERE token = ?", token)
                if uses is not None and spent and spent[0][0] >= uses:
                    return Begun("used_up")
            for counter, calls, span in begin.limits:
                if _count(run, counter, begin.now - span) >= calls:
                    return Begun("limited")
            for token, uses in begin.tokens:
                if uses is not None:
                    run(
                        "INSERT INTO guard_spent (token, uses, until) VALUES (?, 1, ?) "
                        "ON CONFLICT (token) DO UPDATE SET uses = guard_spent.uses + 1",
                        token,
                        begin.until,
                    )
            for counter, _, span in begin.limits:
                run(
                    "DELETE FROM guard_counted WHERE counter = ? AND at <= ?",
                    counter,
                    begin.now - span,
                )
                run(
                    "INSERT INTO guard_counted (counter, action, at, until) VALUES (?, ?, ?, ?)",
                    counter,
                    begin.action,
                    begin.now,
                    begin.now + span,
                )
            run(
                "INSERT INTO guard_actions (id, print, at) VALUES (?, ?, ?)",
                begin.action,
                begin.print,
                begin.now,
            )
            _append(run, begin.entry)
            return Begun("begun")

        return await self._write(step)

    async def finish(
        self, action: str, result: str, entry: str, kept: Kept | None = None,
        seen: Seen | None = None,
    ) -> Link:  # fmt: skip
        """Record an action's result, keep what has a handle and what was seen."""

        def step(run: Run) -> Link:
            run("UPDATE guard_actions SET result = ? WHERE id = ?", result, action)
            if kept is not None:
                run(
                    "INSERT INTO guard_kept (handle, owner, tenant, body, until) "
                    "VALUES (?, ?, ?, ?, ?)",
                    kept.handle,
                    kept.owner,
                    kept.tenant,
                    kept.body,
                    kept.until,
                )
            _saw(run, seen)
            return _append(run, entry)

        return await self._write(step)

    async def seen(self, run: str, after: int = 0) -> Sequence[tuple[int, str, str]]:
        """The texts that a run saw after a number, in order."""
        asked = "SELECT seq, source, body FROM guard_seen WHERE run = ? AND seq > ? ORDER BY seq"
        rows = await self._read(lambda ask: ask(asked, run, after))
        return [(number, source, body) for number, source, body in rows]

    async def recorded(self, action: str) -> tuple[str, str | None] | None:
        """The record of an action; None if it was not begun."""
        asked = "SELECT print, result FROM guard_actions WHERE id = ?"
        rows = await self._read(lambda run: run(asked, action))
        return (rows[0][0], rows[0][1]) if rows else None

    async def append(self, entry: str, seen: Seen | None = None) -> Link:
        """Append an entry to the chain, and keep what was seen."""

        def step(run: Run) -> Link:
            _saw(run, seen)
            return _append(run, entry)

        return await self._write(step)

    async def revoke(self, token: str, until: int, entry: str) -> Link:
        """Mark a token as revoked, and append the entry."""

        def step(run: Run) -> Link:
            run(
                "INSERT INTO guard_revoked (token, until) VALUES (?, ?) "
                "ON CONFLICT (token) DO NOTHING",
                token,
                until,
            )
            return _append(run, entry)

        return await self._write(step)

    async def count(self, counter: str, since: int) -> int:
        """The calls that a counter took after a time."""
        return await self._read(lambda run: _count(run, counter, since))

    async def kept(self, handle: str, now: int) -> Kept | None:
        """The value under a handle; None if there is no value, or its time is over."""
        rows = await self._read(
            lambda run: run(
                "SELECT handle, owner, tenant, body, until FROM guard_kept "
                "WHERE handle = ? AND until > ?",
                handle,
                now,
            )
        )
        return Kept(*rows[0]) if rows else None

    async def ask(self, request: ApprovalRequest, entry: str) -> ApprovalRequest:
        """The open request with this print; without one, write this one and append the entry."""

        def step(run: Run) -> ApprovalRequest:
            rows = run(f"{_REQUEST}print = ? AND {_OPEN}", request.print, request.asked)
            if rows:
                return ApprovalRequest(*rows[0])
            run(
                "INSERT INTO guard_requests (id, print, body, asked, until) VALUES (?, ?, ?, ?, ?)",
                request.id,
                request.print,
                request.body,
                request.asked,
                request.until,
            )
            _append(run, entry)
            return request

        return await self._write(step)

    async def settle(self, id: str, verdict: str, now: int, entry: str) -> ApprovalRequest | None:
        """Write a decision and append the entry, if the request is open and has no decision."""

        def step(run: Run) -> ApprovalRequest | None:
            if run(f"{_REQUEST}id = ? AND verdict IS NULL AND {_OPEN}", id, now):
                run("UPDATE guard_requests SET verdict = ? WHERE id = ?", verdict, id)
                _append(run, entry)
            return _request(run, id)

        return await self._write(step)

    async def approval(self, id: str) -> ApprovalRequest | None:
        """The request with an id; None if there is none."""
        return await self._read(lambda run: _request(run, id))

    async def approvals(self, now: int, limit: int = 100) -> Sequence[ApprovalRequest]:
        """The open requests without a decision, the oldest first."""
        asked = f"{_REQUEST}verdict IS NULL AND {_OPEN} ORDER BY asked, id LIMIT ?"
        rows = await self._read(lambda run: run(asked, now, limit))
        return [ApprovalRequest(*row) for row in rows]

    async def links(self, after: int = 0, limit: int = 1_000) -> Sequence[Link]:
        """The entries after a number, in order."""
        return await self._links("WHERE seq > ? ORDER BY seq LIMIT ?", after, limit)

    async def of_action(self, action: str) -> Sequence[Link]:
        """The entries of an action, in order."""
        return await self._links(f"WHERE {self.ACTION} = ? ORDER BY seq", action)

    async def last(self) -> Link | None:
        """The last entry."""
        found = await self._links("ORDER BY seq DESC LIMIT 1")
        return found[0] if found else None

    async def prune(self, now: int, before: int = 0) -> None:
        """Remove handles, marks, counted calls and requests whose time is over; earlier actions."""

        over = long_over(now, before)

        def step(run: Run) -> None:
            run("DELETE FROM guard_kept WHERE until <= ?", now)
            for table in _MARKS:
                run(f"DELETE FROM {table} WHERE until <= ?", over)
            run(
                "DELETE FROM guard_actions WHERE at < ? "
                "AND id NOT IN (SELECT id FROM guard_requests)",
                before,
            )

        await self._write(step)

    async def close(self) -> None:
        """Close the connection and end the thread."""
        if not self._closed:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(self._thread, self.shut)
            self._thread.shutdown()

    async def _links(self, rest: str, *values: Any) -> list[Link]:
        rows = await self._read(
            lambda run: run(f"SELECT seq, body, hash FROM guard_chain {rest}", *values)
        )
        return [Link(*row) for row in rows]

    async def _write(self, step: Callable[[Run], T]) -> T:
        return await self._do(self.writing, step)

    async def _read(self, step: Callable[[Run], T]) -> T:
        return await self._do(self.reading, step)

    async def _do(
        self, opening: Callable[[], AbstractContextManager[Run]], step: Callable[[Run], T]
    ) -> T:
        def work() -> T:
            try:
                with opening() as run:
                    return step(run)
            except self.troubles() as error:
                said = " ".join(str(error).split())
                raise StoreFailed(
                    f"{self._place}: {said}; check the store and try again"
                ) from error

        if self._closed:
            raise StoreFailed(f"{self._place}: the store is closed; open a new one")
        running = self._thread.submit(work)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(running), self.bound())
        except TimeoutError:
            if running.running():
                self.cut()
            raise StoreFailed(
                f"{self._place}: no answer within {self.bound():g} seconds; check the store, "
                "and try again"
            ) from None


def _upgrade(run: Run, columns: Callable[[str], Collection[str]]) -> None:
    """Bring the tables of version 1 to version 2. Each entry and its hash stay as they are.

    Version 1 was written by several unreleased states of this package; so the columns say what is
    there.
    """
    if "action" in columns("guard_chain"):
        # No column that the hash does not cover is kept.
        run("ALTER TABLE guard_chain RENAME TO guard_chain_1")
        run(TABLES[0])
        run("INSERT INTO guard_chain SELECT seq, body, hash FROM guard_chain_1")
        run("DROP TABLE guard_chain_1")
    if "at" not in columns("guard_actions"):
        run("ALTER TABLE guard_actions ADD COLUMN at BIGINT NOT NULL DEFAULT 0")
    if "until" not in columns("guard_counted"):
        run("ALTER TABLE guard_counted ADD COLUMN until BIGINT NOT NULL DEFAULT 0")
        # The time of the limit was not kept, so a call counts for the longest that is usual.
        run(f"UPDATE guard_counted SET until = at + {_COUNTED}")


def _count(run: Run, counter: str, since: int) -> int:
    rows = run("SELECT count(*) FROM guard_counted WHERE counter = ? AND at > ?", counter, since)
    return int(rows[0][0])


def _request(run: Run, id: str) -> ApprovalRequest | None:
    rows = run(f"{_REQUEST}id = ?", id)
    return ApprovalRequest(*rows[0]) if rows else None


def _saw(run: Run, seen: Seen | None) -> None:
    if seen is None:
        return
    # A number is never used twice, so that a reader who knows one finds all that is newer.
    rows = run("SELECT max(seq) FROM guard_chain")
    number = (rows[0][0] or 0) + 1
    run(
        "INSERT INTO guard_seen (run, seq, source, body, until) VALUES (?, ?, ?, ?, ?)",
        seen.run,
        number,
        seen.source,
        seen.text,
        seen.until,
    )


def _append(run: Run, entry: str) -> Link:
    rows = run("SELECT seq, hash FROM guard_chain ORDER BY seq DESC LIMIT 1")
    seq, before = rows[0] if rows else (0, START)
    link = linked(before, seq + 1, entry)
    action_in(entry)
    run(
        "INSERT INTO guard_chain (seq, body, hash) VALUES (?, ?, ?)", link.seq, link.body, link.hash
    )
    return link


__all__ = ["Run", "SQLGuardStore"]
