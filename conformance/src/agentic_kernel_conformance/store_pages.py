"""Tests of pages and filters, of ``changed``, and of ``prune``."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from agentic_kernel import Kill, TaskNotFound, TaskStatus, apply
from agentic_kernel_engine import Store

from .reading import TERMINAL
from .records import AT, ENDS, after, ended, expect_same, ids_of, owned, paused, running
from .rules import expect, refused
from .storage import StoreSuite

_NO = TaskStatus.NOT_STARTED
_DAY = timedelta(days=1)


class StorePages(StoreSuite):
    """Filters combine by "and", ids ascend by code point, pages neither skip nor repeat."""

    @pytest.mark.rule("find")
    @pytest.mark.parametrize("limit", [1, 3, 100])
    async def test_pages_of_records_follow_each_other(self, store: Store, limit: int) -> None:
        """Ids ascend by code point, whatever the order of insertion."""
        ids = ["b", "a", "B", "ä", "z", "Z", "a-", "aa", "10", "9", "～", "👋", "\u00e9", "e\u0301"]
        for task_id in ids:
            await store.insert(running(task_id))
        found: list[str] = []
        for _ in range(len(ids) + 1):
            page = ids_of(await store.find(after=found[-1] if found else None, limit=limit))
            expect(len(page) <= limit, "find", f"a page of {len(page)}, limit {limit}")
            if not page:
                break
            found += page
        expect(found == sorted(ids), "find", f"{found!a} and not {sorted(ids)!a}")

    @pytest.mark.rule("find")
    async def test_every_filter_holds_exactly(self, store: Store) -> None:
        """Each filter holds alone and combined with others."""
        await _stock(store)
        everything = ["child", "due", "ended", "later", "mine", "mine too", "other kind"]
        asked: list[tuple[dict[str, Any], list[str]]] = [
            ({}, everything),
            ({"status": TaskStatus.RUNNING}, ["child", "mine", "mine too", "other kind"]),
            ({"status": TaskStatus.PAUSED}, ["due", "later"]),
            ({"status": TaskStatus.SUCCESS}, ["ended"]),
            ({"status": TaskStatus.CANCELLED}, []),
            ({"status": _NO}, []),
            ({"kinds": ["other"]}, ["other kind"]),
            ({"kinds": {"other", "conformance"}}, everything),
            ({"kinds": ()}, []),
            ({"kinds": ["none such"]}, []),
            ({"owner": "host-a"}, ["mine", "mine too"]),
            ({"owner": "host-"}, []),
            ({"owner": "host-a:1"}, []),
            ({"parent": "mine"}, ["child"]),
            ({"parent": "mine too"}, []),
            ({"due": AT}, ["due"]),
            ({"due": AT - timedelta(microseconds=1)}, []),
            ({"due": AT + _DAY}, ["due", "later"]),
            ({"status": TaskStatus.RUNNING, "after": "mine"}, ["mine too", "other kind"]),
            ({"owner": "host-a", "after": "mine", "limit": 5}, ["mine too"]),
            ({"owner": "host-a", "parent": "mine"}, []),
            ({"status": TaskStatus.RUNNING, "kinds": ["other"], "owner": "host-b"}, ["other kind"]),
            ({"status": TaskStatus.RUNNING, "due": AT}, []),
            ({"claimable": True, "kinds": ["other"]}, ["other kind"]),
        ]
        for filters, wanted in asked:
            found = ids_of(await store.find(**filters))
            expect(found == wanted, "find", f"find({filters!a}) gave {found!a} and not {wanted!a}")
        limited = ids_of(await store.find(status=TaskStatus.RUNNING, limit=2))
        expect(limited == ["child", "mine"], "find", f"the first two that run: {limited!a}")

    @pytest.mark.rule("find", "C6")
    async def test_a_page_shows_what_was_just_committed(self, store: Store) -> None:
        """A commit moves a record from the pages of its old status and owner to the new pages."""
        record = owned("moving", host="host-a")
        await store.insert(record)
        moved = paused(record, due_at=AT)
        await store.commit(record, moved)
        filters: list[dict[str, Any]] = [{"status": TaskStatus.PAUSED}, {"due": AT}]
        for new in filters:
            page = list(await store.find(**new))
            expect(ids_of(page) == ["moving"], "find", f"find({new!a}): {ids_of(page)!a}")
            expect_same("C6", page[0], moved)
        filters = [{"status": TaskStatus.RUNNING}, {"owner": "host-a"}, {"claimable": True}]
        for old in filters:
            left = ids_of(await store.find(**old))
            expect(not left, "find", f"find({old!a}) still shows it once it is paused")
        await store.commit(moved, after(moved, ENDS[TaskStatus.CANCELLED]))
        left = ids_of(await store.find(due=AT)) + ids_of(await store.find(status=TaskStatus.PAUSED))
        expect(not left, "find", "still due, or paused, once it was cancelled")

    @pytest.mark.rule("find")
    async def test_load_many_leaves_out_what_is_unknown(self, store: Store) -> None:
        """Each id found appears once, with its latest record."""
        one, two = running("one"), running("two")
        await store.insert(one)
        await store.insert(two)
        moved = after(two, state=b"2")
        await store.commit(two, moved)
        for asked in (["two", "none", "one", "two"], {"one", "two", "none"}):
            found = await store.load_many(asked)
            expect(set(found) == {"one", "two"}, "find", f"asked for {asked!a}: {set(found)!a}")
            expect_same("find", found["one"], one)
            expect_same("find", found["two"], moved)
        expect(not await store.load_many([]), "find", "asked for none, something came")

    @pytest.mark.rule("R8")
    async def test_changed_tells_exactly_what_moved(self, store: Store) -> None:
        """The result has each version that differs, higher or lower, and 0 for an unknown id."""
        same, moved = running("same"), running("moved")
        await store.insert(same)
        await store.insert(moved)
        await store.commit(moved, after(moved))
        asked = {"same": 1, "moved": 1, "none": 1}
        found = dict(await store.changed(asked))
        expect(found == {"moved": 2, "none": 0}, "R8", f"changed({asked}) gave {found}")
        found = dict(await store.changed({"same": 9, "moved": 2, "none": 0}))
        expect(found == {"same": 1}, "R8", f"one version too high was asked: {found}")
        expect(not await store.changed({}), "R8", "nothing asked, something moved")
        await store.join("host-b")
        await store.claim("same", "host-b")
        found = dict(await store.changed({"same": 1}))
        expect(found == {"same": 2}, "R8", f"after a claim: {found}")

    @pytest.mark.rule("find")
    async def test_prune_removes_whole_tasks_that_ended_before(self, store: Store) -> None:
        """Their events go too; a Task that ended at that time or later, or not at all, stays."""
        for name, hours in (("old", -1), ("at", 0), ("new", 1)):
            record = running(name)
            await store.insert(record, [b"1"])
            end = apply(record.task, Kill(), AT + timedelta(hours=hours, days=1))
            await store.commit(record, after(record), [b"2"])
            before = await store.load(name)
            await store.commit(before, before.changed(task=end, version=3), [b"3"])
        await store.insert(running("runs"))
        first = running("rests")
        await store.insert(first)
        await store.commit(first, paused(first))
        removed = await store.prune(AT + _DAY)
        left = ids_of(await store.find())
        expect(removed == 1, "find", f"pruned {removed} of the one that ended before")
        expect(left == ["at", "new", "rests", "runs"], "find", f"left after the prune: {left!a}")
        for gone in (store.load("old"), store.events("old")):
            with refused("find", TaskNotFound, "reading what was pruned"):
                await gone
        moved = dict(await store.changed({"old": 3}))
        expect(moved == {"old": 0}, "R8", f"after the prune: {moved}")
        events = [text for _, text in await store.events("at")]
        expect(events == [b"1", b"2", b"3"], "find", f"events of what was kept: {events!a}")

    @pytest.mark.rule("find")
    async def test_prune_stops_at_its_limit(self, store: Store) -> None:
        """The next call continues where the last one stopped."""
        for n in range(7):
            record = running(f"task {n}", parent="parent")
            await store.insert(record, [b"1"])
            await store.commit(record, ended(record, TERMINAL[n % 3]))
        far = AT + 36_500 * _DAY
        counts = [await store.prune(far, limit=3) for _ in range(4)]
        expect(counts == [3, 3, 1, 0], "find", f"seven to prune, three at a time: {counts}")
        left = ids_of(await store.find()) + ids_of(await store.find(parent="parent"))
        expect(not left, "find", f"left after the prune: {left!a}")


async def _stock(store: Store) -> None:
    """Insert one record for every filter, in no order."""
    await store.join("host-a")
    for record in (
        owned("mine too", host="host-a"),
        running("other kind", kind="other", owner="host-b:1"),
        owned("mine", host="host-a"),
        owned("child", host="host-ab", parent="mine"),
    ):
        await store.insert(record)
    for name, due in (("due", AT), ("later", AT + _DAY)):
        record = running(name)
        await store.insert(record)
        await store.commit(record, paused(record, due_at=due))
    record = owned("ended")
    await store.insert(record)
    await store.commit(record, ended(record, TaskStatus.SUCCESS))
