"""Tests of a record that cannot be read: it hides no other record and can be buried (R22)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import pytest

from agentic_kernel import KernelError, TaskStatus
from agentic_kernel_engine import Conflict, Record, Store, StoreError, Unreadable

from .records import AT, after, ended, expect_same, ids_of, owned, paused, running
from .rules import broken, expect, refused
from .storage import Damage, StoreSuite

_BAD = "bad"
_IDS = ["a", _BAD, "c", "d", "e"]


class StoreDamage(StoreSuite):
    """A store with one record that it cannot read."""

    @pytest.mark.feature("damageable")
    @pytest.mark.rule("R22")
    async def test_one_bad_record_hides_no_other(self, store: Store, damage: Damage) -> None:
        """`load` reports its readable parts; every page skips the record and is filled."""
        for task_id in _IDS:
            record = owned(task_id, parent="p")
            await store.insert(record, [b"1"])
            await store.commit(record, after(record, state=b"2", owner=None), [b"2"])
        store = await damage(store, _BAD)
        with refused("R22", Unreadable, "loading a record that cannot be read") as refusal:
            await store.load(_BAD)
        told = refusal.error
        expect(told.task_id == _BAD, "R22", f"the error names {told.task_id!a}")
        expect(told.version == 2, "R22", f"the error says version {told.version}, stored is 2")
        expect(told.status in (TaskStatus.RUNNING, None), "R22", f"its status is {told.status}")
        well = [task_id for task_id in _IDS if task_id != _BAD]
        with _going_past():
            pages = [
                ids_of(await store.find()),
                ids_of(await store.find(limit=4)),
                ids_of(await store.find(parent="p", status=TaskStatus.RUNNING, limit=4)),
                ids_of(await store.find(claimable=True, limit=4)),
                sorted(ids_of(await store.find(newest=True, limit=4))),
                sorted(await store.load_many(_IDS)),
            ]
        for page in pages:
            expect(page == well, "R22", f"{_BAD} cannot be read, and a page is {page!a}")
        first = ids_of(await store.find(limit=2))
        expect(first == ["a", "c"], "R22", f"a page of two, the second is bad: {first!a}")
        bad = [each.task_id for each in await store.unreadable()]
        expect(bad == [_BAD], "R22", f"unreadable() lists {bad!a}")
        bad = [each.task_id for each in await store.unreadable(after=_BAD)]
        expect(not bad, "R22", f"unreadable(after={_BAD!a}) lists {bad!a}")
        moved = dict(await store.changed(dict.fromkeys(_IDS, 2)))
        expect(moved.keys() <= {_BAD}, "R22", f"changed() beside a bad record: {moved!a}")
        events = [text for _, text in await store.events(_BAD)]
        expect(events == [b"1", b"2"], "R22", f"the events of the bad record: {events!a}")
        record = await store.load("c")
        await store.commit(record, after(record, state=b"3"))

    @pytest.mark.feature("damageable")
    @pytest.mark.rule("R22")
    async def test_a_bad_record_is_buried(self, store: Store, damage: Damage) -> None:
        """``bury`` needs the stored version, and leaves a terminal record and one more event."""
        record = running(_BAD, parent="p")
        await store.insert(record, [b"1"])
        await store.insert(running("well"))
        store = await damage(store, _BAD)
        for version in (0, 2):
            with refused("R22", Conflict, f"burying version {version} of a record at 1"):
                await store.bury(_BAD, version)
        grave = await _buried(store, [b'"buried"'])
        expect(grave.version == 2, "R22", f"buried as version {grave.version}, it was at 1")
        expect(grave.task.status is TaskStatus.CANCELLED, "R22", f"buried as {grave.task.status}")
        expect_same("R22", await store.load(_BAD), grave)
        expect(not await store.unreadable(), "R22", "buried, and still listed as unreadable")
        events = list(await store.events(_BAD))
        right = events == [((1, 0), b"1"), ((2, 0), b'"buried"')]
        expect(right, "R22", f"the events after the burial: {events!a}")
        with refused("R1", Conflict, "a commit on a buried record"):
            await store.commit(grave, after(grave))
        with refused("R22", Conflict, "burying what was buried"):
            await store.bury(_BAD, 2)
        expect(ids_of(await store.find()) == [_BAD, "well"], "R22", "a page after the burial")
        removed = await store.prune(AT + timedelta(days=1))
        expect(removed == 1, "R22", f"a prune removed {removed}, and one is buried")
        expect(ids_of(await store.find()) == ["well"], "R22", "the grave is not pruned")

    @pytest.mark.feature("damageable")
    @pytest.mark.rule("R22", "R14")
    async def test_what_a_living_host_holds_is_not_buried(
        self, store: Store, damage: Damage
    ) -> None:
        """The owner can still commit or end it; after the owner has left, it may be buried."""
        await store.join("host-a")
        await store.insert(owned(_BAD, host="host-a"))
        store = await damage(store, _BAD)
        if await store.alive("host-a:1"):  # `damage` may return a handle without these hosts
            with refused("R22", StoreError, "burying what a living host holds") as refusal:
                await store.bury(_BAD, 1, force=True)
            unlike = not isinstance(refusal.error, Unreadable | Conflict)
            expect(unlike, "R22", f"refused for another reason: {refusal.error!a:.200}")
            await store.leave("host-a")
        grave = await _buried(store)
        expect(grave.task.status.terminal, "R22", f"buried as {grave.task.status}")

    @pytest.mark.feature("damageable")
    @pytest.mark.rule("R22")
    async def test_prune_goes_past_a_bad_record(self, store: Store, damage: Damage) -> None:
        """The bad record stays, because it may become readable; the others are removed."""
        for task_id in _IDS:
            record = running(task_id)
            await store.insert(record)
            await store.commit(record, ended(record, TaskStatus.SUCCESS))
        store = await damage(store, _BAD)
        with _going_past():
            removed = await store.prune(AT + timedelta(days=36_500))
        expect(removed == 4, "R22", f"four of five can be read; pruned {removed}")
        expect(not await store.find(), "R22", "a page after the prune is not empty")
        bad = [each.task_id for each in await store.unreadable()]
        expect(bad == [_BAD], "R22", f"the bad record is gone, or not listed: {bad!a}")

    @pytest.mark.feature("damageable")
    @pytest.mark.rule("R22")
    async def test_a_bad_paused_record_leaves_the_others_due(
        self, store: Store, damage: Damage
    ) -> None:
        """A search for due Tasks finds every record that can be read."""
        for task_id in _IDS:
            record = running(task_id)
            await store.insert(record)
            await store.commit(record, paused(record, due_at=AT))
        store = await damage(store, _BAD)
        with _going_past():
            due = ids_of(await store.find(due=AT, limit=4))
        expect(due == ["a", "c", "d", "e"], "R22", f"due beside a bad record: {due!a}")


@contextmanager
def _going_past() -> Iterator[None]:
    """Report R22 (one bad record) if a page raises `Unreadable`."""
    try:
        yield
    except Unreadable as error:
        raise broken("R22", f"{_BAD} cannot be read, and a page raised {error!r:.200}") from error


async def _buried(store: Store, events: Sequence[bytes] = ()) -> Record:
    """Bury the damaged record at version 1; the store must accept it."""
    try:
        return await store.bury(_BAD, 1, events, at=AT)
    except KernelError as error:
        raise broken("R22", f"burying a bad record raised {error!r:.200}") from error
