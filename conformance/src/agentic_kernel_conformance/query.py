"""QueryContract: the contract of every Query. Needs the kernel, and a Runtime that adds Tasks."""

from __future__ import annotations

import asyncio

import pytest

from agentic_kernel import Task, TaskNotFound, TaskStatus

from .reading import CANCELLED, RUNNING, SUCCESS, TERMINAL, Reader, show
from .rules import accepted, broken, expect, refused
from .system import SystemSuite
from .workbench import Workbench

_UNKNOWN = "conformance/no-such-task"
_PAGES = 10_000


class QueryContract(SystemSuite):
    """Tests of reading by id, by many ids, and by pages.

    Fixtures and features are those of `RuntimeContract`. The system may hold other Tasks too.
    """

    contract = "QueryContract"

    @pytest.mark.rule("edges")
    async def test_an_unknown_id_is_not_found(self, bench: Workbench) -> None:
        """``get`` raises `TaskNotFound`, and the error names the id."""
        with refused("edges", TaskNotFound, "get of an unknown id") as refusal:
            await bench.system.get(_UNKNOWN)
        named = refusal.error.task_id
        expect(named == _UNKNOWN, "edges", f"it names {named!a}")

    @pytest.mark.rule("find")
    async def test_get_many_leaves_out_what_is_unknown(self, bench: Workbench) -> None:
        """Ids may be any iterable, empty or with repetitions; each id found appears once."""
        ids = [await bench.dispatch_running() for _ in range(3)]
        for asked in ([_UNKNOWN, *ids, ids[0]], (i for i in [*ids, _UNKNOWN]), {*ids, _UNKNOWN}):
            with accepted("find", "get_many with an unknown id"):
                found = await bench.reader.get_many(asked)
            expect(set(found) == set(ids), "find", f"asked for {len(ids)} and one: {set(found)!a}")
        for nothing in ([], [_UNKNOWN]):
            found = await bench.reader.get_many(nothing)
            expect(not found, "find", f"asked for {nothing!a}: {dict(found)!a}")

    @pytest.mark.rule("C7")
    async def test_every_way_of_reading_gives_the_same(self, bench: Workbench) -> None:
        """After a Task's end, ``get``, ``get_many`` and ``find`` return equal snapshots of it."""
        for end in TERMINAL:
            task_id = await bench.dispatch_ended(end)
            one = await bench.reader.get(task_id)
            many = (await bench.reader.get_many([task_id]))[task_id]
            paged = await _page_of(bench.reader, task_id, status=end)
            expect(one == many == paged, "C7", f"{show(one)}, {show(many)}, {show(paged)}")

    @pytest.mark.rule("find")
    @pytest.mark.parametrize("end", TERMINAL, ids=str)
    async def test_a_page_holds_the_asked_status_only(
        self, bench: Workbench, end: TaskStatus
    ) -> None:
        """Each Task in the status is on some page; a Task in another status is on no page."""
        wanted = {await bench.dispatch_ended(end) for _ in range(2)}
        others = {await bench.dispatch_running()}
        others |= {await bench.dispatch_ended(other) for other in TERMINAL if other is not end}
        found = await _walk(bench.reader, status=end)
        for task in found:
            expect(task.status is end, "find", f"in a page of {end}: {show(task)}")
        ids = {task.id for task in found}
        expect(wanted <= ids, "find", f"not on any page of {end}: {sorted(wanted - ids)!a}")
        expect(not others & ids, "find", f"in pages of {end}: {sorted(others & ids)!a}")

    @pytest.mark.rule("find")
    @pytest.mark.parametrize("limit", [1, 2, 100])
    async def test_pages_follow_each_other(self, bench: Workbench, limit: int) -> None:
        """Ids ascend, ``after`` is exclusive, and no page is longer than its limit."""
        own = [await bench.dispatch_running() for _ in range(5)]
        found = await _walk(bench.reader, status=RUNNING, limit=limit)
        ids = [task.id for task in found]
        expect(ids == sorted(set(ids)), "find", f"not ascending, or one twice: {ids[:20]!a}")
        expect(set(own) <= set(ids), "find", f"missing: {sorted(set(own) - set(ids))!a}")

    @pytest.mark.rule("find")
    async def test_after_need_not_be_the_id_of_a_stored_task(self, bench: Workbench) -> None:
        """``after`` is a place in the order of ids, not a reference to a Task."""
        own = sorted([await bench.dispatch_running() for _ in range(3)])
        between = own[0] + "\x7f"
        page = await bench.reader.find(after=between, limit=1000)
        ids = [task.id for task in page]
        expect(all(task_id > between for task_id in ids), "find", f"after {between!a}: {ids!a}")
        rest = await _walk(bench.reader, after=between)
        missing = set(own[1:]) - {task.id for task in rest}
        expect(not missing, "find", f"on no page after {between!a}: {sorted(missing)!a}")
        beyond = await bench.reader.find(after="\U0010ffff" * 4)
        expect(not list(beyond), "find", f"after the last id: {[t.id for t in beyond]!a}")

    @pytest.mark.rule("C1")
    async def test_reading_changes_nothing(self, bench: Workbench) -> None:
        """A hundred reads by each method leave a Task as it was."""
        task_id = await bench.dispatch_ended(SUCCESS)
        # Bypass the Reader: it reports a change after the end as C7 (happens-before), not as C1.
        before = await bench.system.get(task_id)
        for _ in range(100):
            await bench.system.get_many([task_id, before.id])
            await bench.system.find(status=SUCCESS, limit=10)
            read = await bench.system.get(task_id)
            expect(read == before, "C1", f"reading made {show(read)} of {show(before)}")

    @pytest.mark.rule("alias")
    async def test_what_is_returned_belongs_to_the_caller(self, bench: Workbench) -> None:
        """If the caller can empty a page or a mapping, later reads are not affected."""
        task_id = await bench.dispatch_ended(CANCELLED)
        page = await bench.reader.find(status=CANCELLED, limit=1000)
        if isinstance(page, list):
            page.clear()
        many = await bench.reader.get_many([task_id])
        if isinstance(many, dict):
            many.clear()
        again = await bench.reader.get_many([task_id])
        expect(task_id in again, "alias", "emptying a mapping emptied the next one")
        await _page_of(bench.reader, task_id, status=CANCELLED)

    @pytest.mark.rule("C4")
    async def test_readers_do_not_wait_for_each_other(self, bench: Workbench) -> None:
        """A hundred concurrent readers each get a whole snapshot, and a verb among them returns."""
        task_id = await bench.dispatch_running()
        readers = [bench.another_reader() for _ in range(100)]
        reads = asyncio.gather(*(reader.get(task_id) for reader in readers))
        await bench.within(bench.system.complete(task_id, "beside readers"))
        for task in await bench.within(reads):
            legal = task.status in (RUNNING, SUCCESS)
            expect(legal, "C4", f"while it was completed: {show(task)}")
        read = await bench.reader.get(task_id)
        expect(read.status is SUCCESS, "C6", show(read))


async def _walk(
    reader: Reader,
    status: TaskStatus | None = None,
    after: str | None = None,
    limit: int = 100,
) -> list[Task]:
    """Read all pages, check their limit and order, and return their Tasks."""
    found: list[Task] = []
    for _ in range(_PAGES):
        page = list(await reader.find(status=status, after=after, limit=limit))
        expect(len(page) <= limit, "find", f"a page of {len(page)}, limit {limit}")
        if not page:
            return found
        ids = [task.id for task in page]
        expect(ids == sorted(ids), "find", f"a page that does not ascend: {ids[:20]!a}")
        expect(after is None or ids[0] > after, "find", f"{ids[0]!a} on the page after {after!a}")
        found += page
        after = ids[-1]
    raise broken("find", f"no end after {_PAGES} pages of {limit}")


async def _page_of(reader: Reader, task_id: str, status: TaskStatus) -> Task:
    for task in await _walk(reader, status):
        if task.id == task_id:
            return task
    raise broken("find", f"{task_id!a} is {status} but on no page of {status}")
