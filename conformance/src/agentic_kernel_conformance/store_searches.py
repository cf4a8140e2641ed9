"""Tests of searches: the filters and orders of version 0.2; and fields a store only carries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from agentic_kernel import (
    Complete,
    Dispatch,
    InvalidValue,
    Kill,
    Pause,
    Task,
    TaskStatus,
    annotate,
    apply,
)
from agentic_kernel_engine import Conflict, HostGone, Record, Store
from agentic_kernel_engine.record import owner_name

from .reading import TERMINAL
from .records import AT, HOST, after, ended, expect_same, ids_of, owned, paused, running
from .rules import expect, refused
from .storage import Reopen, StoreSuite
from .values import same

_MINUTE = timedelta(minutes=1)
_NAIVE = datetime(2026, 1, 2)
_BAD: Sequence[tuple[str, Any]] = [
    ("status", "asleep"),
    ("kinds", "one text"),
    ("kinds", [5]),
    ("agent", 5),
    ("realms", "acme"),
    ("labels", ["team"]),
    ("labels", {"team": 5}),
    ("parent", 5),
    ("owner", b"host-a"),
    ("claimable", "yes"),
    ("due", _NAIVE),
    ("due", "2026-01-02T00:00:00Z"),
    ("created_from", _NAIVE),
    ("created_before", datetime.max.replace(tzinfo=UTC)),
    ("newest", "yes"),
    ("after", 5),
    ("after", ("place", AT)),
    ("limit", -1),
    ("limit", True),
    ("limit", 2.0),
    ("limit", 10**30),
    ("limit", 10**5000),
]
_ALIKE: Sequence[tuple[Any, Any]] = [
    (True, 1),
    (1, True),
    (1, 1.0),
    (0, False),
    (0.0, 0),
    ({"deep": [1, {"er": False}]}, {"deep": [1, {"er": 0}]}),
    ([1.0, 2], [1, 2]),
]
"""Pairs of values that compare equal and have different types."""


class StoreSearches(StoreSuite):
    """Search by label, agent, realm and creation time, newest first; terms, realm and form."""

    @pytest.mark.rule("C6")
    async def test_terms_realm_and_form_are_carried(self, store: Store) -> None:
        """Every commit, a claim and the end keep ``terms`` and ``realm``; ``form`` may change."""
        first = owned(terms=b'{"limits":{"max_cost":1.5}}', realm="acme", form="loop/3", state=b"1")
        await store.insert(first)
        expect_same("C6", await store.load(first.task.id), first)
        second = after(first, state=b"2", form="loop/4", step=1)
        await store.commit(first, second)
        expect_same("C6", await store.load(first.task.id), second)
        await store.join("host-b")
        claimed = await store.claim(first.task.id, "host-b")
        assert claimed is not None
        wanted = after(second, owner=claimed.owner, attempts=claimed.attempts)
        expect_same("C6", claimed, wanted)
        resting = paused(claimed).changed(form="", state=None)
        await store.commit(claimed, resting)
        expect_same("C6", await store.load(first.task.id), resting)
        end = after(resting, Kill())
        await store.commit(resting, end)
        for found in (await store.load(first.task.id), *await store.find()):
            expect_same("C6", found, end)
        found_many = await store.load_many([first.task.id])
        expect_same("C6", found_many[first.task.id], end)

    @pytest.mark.rule("find")
    async def test_agent_realm_label_and_creation_filter_exactly(self, store: Store) -> None:
        """Each holds alone and combined with the older filters, also after the Tasks' end."""
        records = _stock()
        for record in records:
            await store.insert(record)
        everything = ids_of(records)
        asked: list[tuple[dict[str, Any], list[str]]] = [
            ({"agent": "acme/ann"}, ["a", "b", "e"]),
            ({"agent": "acme/an"}, []),
            ({"realms": ["acme"]}, ["b", "c"]),
            ({"realms": [""]}, ["a", "e"]),
            ({"realms": ("", "other")}, ["a", "d", "e"]),
            ({"realms": []}, []),
            ({"labels": {"team": "red"}}, ["a", "b"]),
            ({"labels": {"label/team": "red"}}, ["a", "b"]),
            ({"labels": {"team": "red", "tier": "1"}}, ["a"]),
            ({"labels": {"team": "Red"}}, []),
            ({"labels": {"number": "7"}}, []),
            ({"labels": {"late": "note"}}, []),
            ({"labels": {"odd'key\"": "%_\\"}}, ["d"]),
            ({"labels": {}}, everything),
            ({"created_from": AT + 2 * _MINUTE}, ["c", "d", "e"]),
            ({"created_before": AT + 2 * _MINUTE}, ["a", "b"]),
            ({"created_from": AT + _MINUTE, "created_before": AT + 3 * _MINUTE}, ["b", "c"]),
            ({"agent": "acme/ann", "realms": ["acme"], "labels": {"team": "red"}}, ["b"]),
            ({"agent": "acme/ann", "kinds": ["other"]}, ["e"]),
            ({"agent": "acme/ann", "after": "a", "limit": 1}, ["b"]),
            ({"parent": "a", "realms": ["acme"]}, ["c"]),
            ({"status": TaskStatus.PAUSED, "agent": "acme/ann"}, []),
        ]
        await self._expect_found(store, asked)
        for n, record in enumerate(records):
            await store.commit(record, ended(record, TERMINAL[n % 3]))
        await self._expect_found(store, asked)

    async def _expect_found(
        self, store: Store, asked: Sequence[tuple[dict[str, Any], list[str]]]
    ) -> None:
        for filters, wanted in asked:
            found = ids_of(await store.find(**filters))
            expect(found == wanted, "find", f"find({filters!a}) gave {found!a} and not {wanted!a}")
            if "after" not in filters:
                turned = sorted(wanted, key=lambda id: (_AGE[id], id), reverse=True)
                found = ids_of(await store.find(newest=True, **filters))
                told = f"newest first, find({filters!a}) gave {found!a} and not {turned!a}"
                expect(found == turned, "find", told)

    @pytest.mark.rule("find")
    @pytest.mark.parametrize("limit", [1, 3, 100])
    async def test_pages_from_newest_to_oldest_follow_each_other(
        self, store: Store, limit: int
    ) -> None:
        """Sorted by creation time, then by id; ``after`` may be the place of a pruned Task."""
        ids = ["b", "a", "B", "ä", "z", "a-", "10", "9", "👋", "\u00e9", "e\u0301"]
        for n, task_id in enumerate(ids):
            await store.insert(_record(task_id, minutes=n // 3))
        wanted = [id for _, id in sorted((n // 3, id) for n, id in enumerate(ids))][::-1]
        found: list[str] = []
        pruned: set[str] = set()
        place: tuple[datetime, str] | None = None
        for _ in range(len(ids) + 1):
            page = list(await store.find(newest=True, after=place, limit=limit))
            expect(len(page) <= limit, "find", f"a page of {len(page)}, limit {limit}")
            if not page:
                break
            found += ids_of(page)
            last = page[-1]
            place = last.task.created_at, last.task.id
            await store.commit(last, ended(last, TaskStatus.SUCCESS))
            await store.prune(datetime.now(UTC) + 1000 * _MINUTE)
            pruned.add(last.task.id)
        expect(found == wanted, "find", f"{found!a} and not {wanted!a}")
        left = [id for id in wanted if id not in pruned]
        again = ids_of(await store.find(newest=True))
        expect(again == left, "find", f"after prunes {again!a} and not {left!a}")

    @pytest.mark.rule("find")
    async def test_a_page_of_none_is_empty(self, store: Store) -> None:
        """With the limit 0 every page is empty, and ``prune`` removes no Task."""
        await store.insert(running("there"), [b"1"])
        for page in (
            await store.find(limit=0),
            await store.find(newest=True, limit=0),
            await store.events("there", None, 0),
            await store.unreadable(limit=0),
        ):
            expect(not page, "find", f"a page of no more than 0 has {len(page)}")
        removed = await store.prune(AT + 36_500 * timedelta(days=1), limit=0)
        expect(removed == 0, "find", f"pruned {removed} with the limit 0")

    @pytest.mark.rule("find")
    async def test_children_are_found_page_by_page(self, store: Store) -> None:
        """Each child appears once, ended or not, whatever else was written in between."""
        ids = [f"child {n:02}" for n in range(24)]
        for n, task_id in enumerate(ids):
            record = owned(task_id, parent="the parent", state=b'"%s"' % (b"x" * 2_000))
            await store.insert(record, [b'"%s"' % (b"y" * 2_000)])
            if n % 3:
                await store.commit(record, ended(record, TERMINAL[n % 3]), [b"1"])
            await store.insert(running(f"other {n:02}", parent="another parent"))
        for limit in (1, 5, 100):
            found: list[str] = []
            for _ in range(len(ids) + 1):
                place = found[-1] if found else None
                page = await store.find(parent="the parent", after=place, limit=limit)
                if not page:
                    break
                found += ids_of(page)
            expect(found == ids, "find", f"children, {limit} a page: {found!a}")

    @pytest.mark.rule("edges")
    @pytest.mark.parametrize(
        ("name", "value"), _BAD, ids=[f"{n}-{i}" for i, (n, _) in enumerate(_BAD)]
    )
    async def test_a_bad_option_of_a_search_is_named(
        self, store: Store, name: str, value: Any
    ) -> None:
        """The engine's `Search.of` checks all options; a store may use it."""
        await store.insert(running("there"))
        with refused("edges", InvalidValue, f"find() with a bad {name}") as refusal:
            await store.find(**{name: value})
        expect(refusal.error.path.startswith(name), "edges", f"{name} named {refusal.error.path}")
        expect(ids_of(await store.find()) == ["there"], "edges", "find() fails after a refusal")

    @pytest.mark.rule("edges")
    async def test_prune_refuses_what_is_no_moment(self, store: Store) -> None:
        """A naive datetime, a text and a bad limit are refused, and no Task is removed."""
        record = owned("ended")
        await store.insert(record)
        await store.commit(record, ended(record, TaskStatus.SUCCESS))
        calls: list[tuple[Any, Any]] = [
            (_NAIVE, 10), ("2026-01-02", 10), (AT, -1), (AT, True), (AT, 10**30),
        ]  # fmt: skip
        for bound, limit in calls:
            with refused("edges", InvalidValue, "a prune with a bad moment or limit"):
                await store.prune(bound, limit)
        expect(ids_of(await store.find()) == ["ended"], "edges", "a refused prune removed a Task")

    @pytest.mark.rule("R14")
    async def test_a_host_that_left_never_lives_again(self, store: Store) -> None:
        """A join after ``leave`` is refused, and the host's Tasks stay claimable."""
        await store.join(HOST)
        await store.insert(owned("orphan", host=HOST))
        await store.leave(HOST)
        with refused("R14", HostGone, "joining again after leaving") as refusal:
            await store.join(HOST)
        expect(refusal.error.host == HOST, "R14", f"the refusal names {refusal.error.host!a}")
        alive = await store.alive(owner_name(HOST, 1))
        expect(not alive, "R14", f"{HOST} left, joined again, and is alive")
        found = ids_of(await store.find(claimable=True))
        expect(found == ["orphan"], "R14", f"claimable after it left: {found!a}")

    @pytest.mark.rule("R1")
    async def test_a_commit_of_another_task_conflicts(self, store: Store) -> None:
        """The next version of a record must belong to the same Task."""
        one, two = owned("one"), owned("two")
        await store.insert(one)
        await store.insert(two)
        stray = after(one, state=b'"stray"').changed(task=two.task)
        with refused("R1", Conflict, "a commit whose successor is of another Task"):
            await store.commit(one, stray, [b"stray"])
        for record in (one, two):
            expect_same("R1", await store.load(record.task.id), record)
            left = list(await store.events(record.task.id))
            expect(not left, "R1", f"a refused commit left {left!a}")

    @pytest.mark.rule("R22")
    async def test_a_record_that_can_be_read_is_not_buried(self, store: Store) -> None:
        """``bury`` refuses it at any version, with and without ``force``."""
        record = owned("well")
        await store.insert(record, [b"1"])
        expect(not await store.unreadable(), "R22", "a record that reads well is listed as bad")
        for version in (1, 2, 0):
            for force in (False, True):
                with refused("R22", Conflict, "burying a record that can be read"):
                    await store.bury("well", version, [b"buried"], force=force)
        expect_same("R22", await store.load("well"), record)
        expect(len(await store.events("well")) == 1, "R22", "a refused burial left an event")

    @pytest.mark.rule("values")
    @pytest.mark.parametrize(("old", "new"), _ALIKE, ids=range(len(_ALIKE)))
    async def test_an_equal_value_of_another_type_is_another_value(
        self, store: Store, old: Any, new: Any
    ) -> None:
        """The loaded note, inbox and result have the type that was written last."""
        await _write_alike(store, old, new)
        await _expect_alike(store, new)

    @pytest.mark.feature("durable")
    @pytest.mark.rule("values", "durable")
    @pytest.mark.parametrize(("old", "new"), _ALIKE, ids=range(len(_ALIKE)))
    async def test_an_equal_value_of_another_type_survives_reopening(
        self, store: Store, reopen: Reopen, old: Any, new: Any
    ) -> None:
        """The handle that wrote it may have cached it; a fresh handle reads what was stored."""
        await _write_alike(store, old, new)
        await _expect_alike(await reopen(store), new)

    @pytest.mark.feature("durable")
    @pytest.mark.rule("durable", "C6")
    async def test_every_field_of_a_commit_survives_reopening(
        self, store: Store, reopen: Reopen
    ) -> None:
        """Fields are set and cleared again; a fresh handle can only read what was stored."""
        steps = list(_every_field())
        for n in range(1, len(steps) + 1):
            task_id = f"after {n - 1} commits"
            chain = [_renamed(record, task_id) for record in steps[:n]]
            await store.insert(chain[0], [b"0"])
            for before, later in pairwise(chain):
                await store.commit(before, later, [b"%d" % later.version])
        fresh = await reopen(store)
        for n, wanted in enumerate(steps):
            task_id = f"after {n} commits"
            expect_same("durable", await fresh.load(task_id), _renamed(wanted, task_id))
            events = [text for _, text in await fresh.events(task_id)]
            expect(len(events) == n + 1, "durable", f"{task_id}: events {events!a}")
        for status in TERMINAL:
            record = owned(f"ended in {status}")
            end = ended(record, status)
            await fresh.insert(record)
            await fresh.commit(record, end)
            fresh = await reopen(fresh)
            expect_same("durable", await fresh.load(record.task.id), end)


_ODD = {"label/odd'key\"": "%_\\", "label/odd": "x"}
_AGE = {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4}


def _record(task_id: str, minutes: int = 0, **given: Any) -> Record:
    kind = given.pop("kind", "conformance")
    task = Task.new(
        id=task_id,
        summary="a title",
        instructions="what to do",
        runtime_kind=kind,
        agent_name=given.pop("agent", None),
        metadata=given.pop("metadata", {}),
        at=AT + minutes * _MINUTE,
    )
    notes = given.pop("notes", {})
    return Record(apply(task, Dispatch(notes=notes), AT + 60 * _MINUTE), **given)


def _stock() -> list[Record]:
    red = {"label/team": "red"}
    return [
        _record("a", 0, agent="acme/ann", metadata={**red, "label/tier": "1"}),
        _record("b", 1, agent="acme/ann", realm="acme", metadata=red, notes={"label/late": "note"}),
        _record("c", 2, realm="acme", parent="a", metadata={"label/number": 7, "acme/team": "red"}),
        _record("d", 3, agent="acme/bob", realm="other", metadata=_ODD),
        _record("e", 4, agent="acme/ann", kind="other"),
    ]


async def _write_alike(store: Store, old: Any, new: Any) -> None:
    first = owned("alike", inbox=({"type": "t", "id": 1, "value": old},))
    first = first.changed(task=annotate(first.task, {"host/value": old}))
    await store.insert(first)
    second = after(first, inbox=({"type": "t", "id": 1, "value": new},), step=1)
    second = second.changed(task=annotate(second.task, {"host/value": new}))
    await store.commit(first, second)
    other = owned("ended alike")
    await store.insert(other)
    await store.commit(other, after(other, Complete(new), owner=None))


async def _expect_alike(store: Store, new: Any) -> None:
    record = await store.load("alike")
    result = (await store.load("ended alike")).task.result
    for place, found in (
        ("note", record.task.metadata["host/value"]),
        ("inbox", record.inbox[0]["value"]),
        ("result", result),
    ):
        expect(same(found, new), "values", f"the {place} is {found!a} and not {new!a}")


def _every_field() -> Sequence[Record]:
    first = owned("any", state=b"1", realm="acme", terms=b"{}", parent="the parent")
    second = after(first, state=b'{"turn":1}', form="loop/3", step=1)
    third = after(second, Pause(notes={"host/note": ["second"]}), owner=None, due_at=AT)
    fourth = after(third, inbox=({"type": "a", "id": 4},), due_at=None)
    fifth = after(fourth, inbox=(), state=None, form="", attempts=3)
    sixth = after(fifth, Kill(notes={"host/end": 1.5}))
    return first, second, third, fourth, fifth, sixth


def _renamed(record: Record, task_id: str) -> Record:
    task = record.task
    fields = {name: getattr(task, name) for name in Task.__slots__}
    return record.changed(task=Task(**{**fields, "id": task_id}))
