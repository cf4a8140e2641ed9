"""Events: ordered by (version, index), kept with their commit, read in pages."""

from __future__ import annotations

import asyncio

import pytest

from agentic_kernel_engine import Cursor, Record, Store

from .records import after, owned
from .rules import expect
from .storage import StoreSuite

_COMMITS = 11
"""Enough for events at versions of two digits: a store must sort them as numbers, not as text."""
_BIG = 1_000_000


class StoreEvents(StoreSuite):
    """R15 on one record: events are ordered by (version, index) and kept with their commit."""

    @pytest.mark.rule("R15")
    async def test_an_events_id_is_its_version_and_its_place(self, store: Store) -> None:
        """Events of the insert have version 1; a commit without events leaves a gap."""
        _, wanted = await _history(store)
        found = list(await store.events("told"))
        expect(found == wanted, "R15", f"{found!a} and not {wanted!a}")

    @pytest.mark.rule("R15")
    @pytest.mark.parametrize("limit", [1, 2, 3, 1000])
    async def test_pages_of_events_follow_each_other(self, store: Store, limit: int) -> None:
        """``after`` is exclusive, also within the events of one commit."""
        _, wanted = await _history(store)
        found: list[tuple[Cursor, bytes]] = []
        place: Cursor | None = None
        for _ in range(len(wanted) + 1):
            page = list(await store.events("told", place, limit))
            expect(len(page) <= limit, "R15", f"a page of {len(page)}, limit {limit}")
            if not page:
                break
            found += page
            place = page[-1][0]
        expect(found == wanted, "R15", f"pages of {limit} gave {found!a} and not {wanted!a}")

    @pytest.mark.rule("R15")
    async def test_after_need_not_be_the_id_of_an_event(self, store: Store) -> None:
        """``after`` is a place in the order, not a reference to an event."""
        _, wanted = await _history(store)
        for place in ((0, 0), (1, -1), (1, 1 << 30), (3, 0), (4, 5), (1 << 40, 0)):
            found = list(await store.events("told", place))
            right = [pair for pair in wanted if pair[0] > place]
            expect(found == right, "R15", f"after {place}: {found!a} and not {right!a}")

    @pytest.mark.rule("R15", "values")
    async def test_texts_come_back_byte_by_byte(self, store: Store) -> None:
        """Also long texts, texts with line ends, and texts that look like the store's own."""
        texts = [
            b'{"text":"\xf0\x9f\x91\x8b \xc3\xbc \xe2\x80\xae"}',
            b'{"text":"line\\nline\\u0000"}',
            b'{"v":1,"i":{"schema":1}}',
            b'"' + b"x" * _BIG + b'"',
            b"{}",
            b"null",
        ]
        record = owned("told")
        await store.insert(record, texts)
        await store.commit(record, after(record), texts[::-1])
        found = [text for _, text in await store.events("told")]
        right = found == texts + texts[::-1]
        expect(right, "values", f"{[text[:40] for text in found]!a} came back")

    @pytest.mark.rule("R15", "C3")
    async def test_a_reader_that_follows_sees_each_event_once(self, store: Store) -> None:
        """A reader that continues from its last place during commits gets all events in order."""
        record = owned("told")
        await store.insert(record, [b'"1.0"'])

        async def write() -> None:
            before: Record = record
            for _ in range(50):
                step = after(before, step=before.step + 1)
                texts = [b'"%d.%d"' % (step.version, n) for n in range(step.version % 4)]
                await store.commit(before, step, texts)
                before = step
                await asyncio.sleep(0)

        wanted = [((1, 0), b'"1.0"')]
        wanted += [((v, n), b'"%d.%d"' % (v, n)) for v in range(2, 52) for n in range(v % 4)]
        writing = asyncio.create_task(write())
        found: list[tuple[Cursor, bytes]] = []
        while len(found) <= len(wanted):
            last = writing.done()
            page = await store.events("told", found[-1][0] if found else None, limit=3)
            found += page
            if last and not page:
                break
            await asyncio.sleep(0)
        await writing
        expect(found == wanted, "R15", f"{len(found)} events of {len(wanted)}, or out of order")


async def _history(store: Store) -> tuple[Record, list[tuple[Cursor, bytes]]]:
    """Write a Task with some commits; two in a row never have the same number of events."""
    record = owned("told")
    wanted: list[tuple[Cursor, bytes]] = []

    def texts(version: int) -> list[bytes]:
        made = [b'{"version":%d,"index":%d}' % (version, n) for n in range(version * 2 % 5)]
        wanted.extend(((version, n), text) for n, text in enumerate(made))
        return made

    await store.insert(record, texts(1))
    for _ in range(_COMMITS):
        step = after(record, state=b"%d" % record.version)
        await store.commit(record, step, texts(step.version))
        record = step
    return record, wanted
