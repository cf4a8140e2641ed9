"""Tests of insert and commit: conditional writes that land whole or leave no trace."""

from __future__ import annotations

import asyncio

import pytest

from agentic_kernel import Kill, Pause, Resume, TaskExists, TaskNotFound, TaskStatus
from agentic_kernel_engine import Conflict, Record, Store
from agentic_kernel_engine.record import FENCED

from .level import Level
from .reading import TERMINAL
from .records import AT, ENDS, HOST, after, ended, expect_same, owned, paused, running
from .rules import expect, in_time, refused
from .storage import StoreSuite

_RACERS = 8


class StoreWrites(StoreSuite):
    """C2, C3 and C6 of the Concurrency Contract, and R1 (fenced writes), on one record."""

    @pytest.mark.rule("C6")
    async def test_what_is_inserted_is_loaded_field_by_field(self, store: Store) -> None:
        """The record has microseconds, notes, a state, an inbox and a parent."""
        record = owned(
            state=b'{"turn":0,"text":"\xc3\xbc"}',
            inbox=({"type": "pause", "by": "someone", "list": [1]},),
            step=3,
            attempts=2,
            parent="the parent",
        )
        await store.insert(record)
        expect_same("C6", await store.load(record.task.id), record)

    @pytest.mark.rule("C6")
    async def test_a_task_may_be_stored_as_ended(self, store: Store) -> None:
        """A Host stores a child that must never begin as cancelled; nothing is written to it (R1).

        No Host may claim it, and its id stays taken.
        """
        now = after(running("never begun"), Kill()).task
        record = Record(now, state=FENCED, parent="the parent")
        await store.insert(record, [b'{"n":1}'])
        expect_same("C6", await store.load("never begun"), record)
        found = await store.find(status=TaskStatus.CANCELLED, parent="the parent")
        expect([each.task.id for each in found] == ["never begun"], "C6", f"found {found!a}")
        await store.join(HOST)
        claimed = await store.claim("never begun", HOST)
        expect(claimed is None, "R1", f"an ended Task was claimed: {claimed!a}")
        with refused("R1", Conflict, "a commit on an ended record"):
            await store.commit(record, record.changed(version=2))

    @pytest.mark.rule("edges")
    async def test_a_taken_id_is_refused_and_stays_as_it_is(self, store: Store) -> None:
        """The refused insert changes neither the record nor its events."""
        record = running("taken")
        await store.insert(record, [b'{"n":1}'])
        with refused("edges", TaskExists, "insert of a stored id"):
            await store.insert(owned("taken", state=b"2"), [b'{"n":2}', b'{"n":3}'])
        expect_same("edges", await store.load("taken"), record)
        events = list(await store.events("taken"))
        expect(events == [((1, 0), b'{"n":1}')], "edges", f"a refused insert left {events!a}")

    @pytest.mark.rule("C2")
    async def test_of_racing_inserts_one_lands(self, store: Store, level: Level) -> None:
        """It lands with its own events; the others raise ``TaskExists``."""
        for turn in range(level.rounds):
            records = [running(f"raced {turn}", state=b"%d" % n) for n in range(_RACERS)]
            outcomes = await asyncio.gather(
                *(store.insert(r, [r.state or b"", b'"x"']) for r in records),
                return_exceptions=True,
            )
            won = [n for n, outcome in enumerate(outcomes) if outcome is None]
            lost = [outcome for outcome in outcomes if isinstance(outcome, TaskExists)]
            fair = len(won) == 1 and len(lost) == _RACERS - 1
            expect(fair, "C2", f"{_RACERS} inserts of one id gave {outcomes!a}")
            expect_same("C2", await store.load(f"raced {turn}"), records[won[0]])
            texts = [text for _, text in await store.events(f"raced {turn}")]
            expect(texts == [b"%d" % won[0], b'"x"'], "C2", f"{won[0]} won, events {texts!a}")

    @pytest.mark.rule("edges")
    async def test_an_unknown_id_is_not_found(self, store: Store) -> None:
        """Each method that addresses one Task raises `TaskNotFound` and stores no record."""
        record = running("nowhere")
        await store.join(HOST)
        for call in (
            store.load("nowhere"),
            store.commit(record, after(record)),
            store.claim("nowhere", HOST),
            store.events("nowhere"),
        ):
            with refused("edges", TaskNotFound, "a call with an unknown id"):
                await call
        expect(not list(await store.find()), "edges", "a refused call left a record")

    @pytest.mark.rule("C6")
    async def test_a_commit_replaces_every_field(self, store: Store) -> None:
        """One commit sets the fields, and the next one changes or clears them."""
        record = owned()
        await store.insert(record)
        full = after(
            record,
            Pause(notes={"host/note": ["second"], "host/other": {"n": 1.5}}),
            state=b'{"turn":1}',
            inbox=({"type": "a"}, {"type": "b"}),
            owner=None,
            step=1,
            attempts=4,
            due_at=AT,
        )
        await store.commit(record, full)
        expect_same("C6", await store.load(record.task.id), full)
        bare = after(
            full,
            Resume("an extra"),
            state=None,
            inbox=(),
            owner="host-b:3",
            step=2,
            attempts=0,
            due_at=None,
        )
        await store.commit(full, bare)
        expect_same("C6", await store.load(record.task.id), bare)

    @pytest.mark.rule("C6")
    @pytest.mark.parametrize("status", TERMINAL, ids=str)
    async def test_an_end_is_stored_with_all_its_fields(
        self, store: Store, status: TaskStatus
    ) -> None:
        """Result, failure and stamps are stored in the commit of the transition."""
        record = owned()
        await store.insert(record)
        end = ended(record, status)
        await store.commit(record, end)
        expect_same("C6", await store.load(record.task.id), end)

    @pytest.mark.rule("R1")
    async def test_a_commit_on_another_version_conflicts(self, store: Store) -> None:
        """The version must be the stored one: an older or a newer one is refused."""
        first = owned()
        await store.insert(first, [b"1"])
        second = after(first, state=b"2")
        await store.commit(first, second, [b"2"])
        await _conflicts(store, first, after(first, state=b"3"), second)
        ahead = second.changed(version=7)
        await _conflicts(store, ahead, after(ahead, state=b"3"), second)

    @pytest.mark.rule("R1")
    @pytest.mark.parametrize("holder", [None, "host-a:1"], ids=["nobody", "another"])
    async def test_a_commit_in_the_name_of_another_owner_conflicts(
        self, store: Store, holder: str | None
    ) -> None:
        """The version alone is not enough: the owner must match too."""
        record = running(owner=holder)
        await store.insert(record, [b"1"])
        for pretended in ("host-a:2", "host-b:1", "", None, "host-a:1"):
            if pretended != holder:
                before = record.changed(owner=pretended)
                await _conflicts(store, before, after(before, state=b"stolen"), record)

    @pytest.mark.rule("R1", "edges")
    @pytest.mark.parametrize("status", TERMINAL, ids=str)
    async def test_a_commit_on_a_terminal_record_conflicts(
        self, store: Store, status: TaskStatus
    ) -> None:
        """The commit has the right version and owner, but an end is final."""
        first = owned()
        await store.insert(first)
        end = ended(first, status).changed(owner=first.owner)
        await store.commit(first, end)
        await _conflicts(store, end, after(end, state=b"resurrected"), end)
        revived = running(first.task.id).changed(version=3)
        await _conflicts(store, end, revived, end)

    @pytest.mark.rule("C2", "R1")
    async def test_of_racing_commits_on_one_version_one_lands(
        self, store: Store, level: Level
    ) -> None:
        """The others raise `Conflict`, and leave no event and no field."""
        record = owned()
        await store.insert(record)
        for _ in range(level.rounds):
            racers = [after(record, state=b"%d" % n) for n in range(_RACERS)]
            outcomes = await asyncio.gather(
                *(store.commit(record, r, [r.state or b""] * 2) for r in racers),
                return_exceptions=True,
            )
            won = [n for n, outcome in enumerate(outcomes) if outcome is None]
            lost = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
            fair = len(won) == 1 and len(lost) == _RACERS - 1
            expect(fair, "C2", f"{_RACERS} commits on one version gave {outcomes!a}")
            before, record = record, racers[won[0]]
            expect_same("C2", await store.load(record.task.id), record)
            events = list(await store.events(record.task.id, (before.version, 1 << 30)))
            wanted = [((record.version, n), record.state) for n in range(2)]
            expect(events == wanted, "C2", f"events {events!a}, where {wanted!a} landed")

    @pytest.mark.rule("C2")
    async def test_every_change_that_is_tried_until_it_lands_lands_once(
        self, store: Store, level: Level
    ) -> None:
        """Eight writers append their own extras by load, apply and commit, and try again."""
        record = paused(owned())
        await store.insert(record.changed(version=1))
        share = max(5, level.extras // 2)
        task_id = record.task.id

        async def append(writer: int) -> None:
            for turn in range(share):
                while True:
                    before = await store.load(task_id)
                    step = after(before, Resume(f"{writer}.{turn}"))
                    whole = after(step, Pause()).changed(version=before.version + 1)
                    try:
                        await store.commit(before, whole)
                        break
                    except Conflict:
                        await asyncio.sleep(0)

        async with in_time("C2", self.patience * 6, "changes tried until they land"):
            await asyncio.gather(*(append(writer) for writer in range(_RACERS)))
        found = list((await store.load(task_id)).task.supplements)
        wanted = {f"{writer}.{turn}" for writer in range(_RACERS) for turn in range(share)}
        expect(set(found) == wanted, "C2", f"lost: {sorted(wanted - set(found))[:10]}")
        expect(len(found) == len(wanted), "C2", f"{len(found)} extras for {len(wanted)} commits")

    @pytest.mark.rule("alias")
    async def test_nothing_is_aliased_with_what_was_passed_in(self, store: Store) -> None:
        """If the caller changes its lists after the call, the store does not change."""
        record = owned()
        texts = [b'{"n":1}', b'{"n":2}']
        await store.insert(record, texts)
        texts.append(b'{"n":3}')
        more = [b'{"n":4}']
        await store.commit(record, after(record), more)
        more.clear()
        found = [text for _, text in await store.events(record.task.id)]
        expect(found == [b'{"n":1}', b'{"n":2}', b'{"n":4}'], "alias", f"events: {found!a}")

    @pytest.mark.rule("alias")
    async def test_what_is_returned_belongs_to_the_caller(self, store: Store) -> None:
        """If the caller can empty a page, the store does not change."""
        record = owned("kept")
        await store.insert(record, [b"1"])
        pages = [
            await store.events("kept"),
            await store.find(),
            await store.load_many(["kept"]),
            await store.changed({"kept": 9}),
        ]
        for page in pages:
            if isinstance(page, (list, dict)):
                page.clear()
        expect(len(await store.events("kept")) == 1, "alias", "a reader emptied the events")
        expect(len(await store.find()) == 1, "alias", "a reader emptied a page")
        expect_same("alias", await store.load("kept"), record)

    @pytest.mark.rule("clause1")
    async def test_records_do_not_affect_each_other(self, store: Store) -> None:
        """A claim, an end and a conflict on one record leave another record as it was."""
        bystander, busy = owned("bystander"), owned("busy")
        await store.insert(bystander, [b"1"])
        await store.insert(busy)
        await store.join("host-b")
        claimed = await store.claim("busy", "host-b")
        assert claimed is not None
        end = after(claimed, ENDS[TaskStatus.SUCCESS], owner=None)
        await store.commit(claimed, end, [b"end"])
        with refused("R1", Conflict, "a commit on a terminal record"):
            await store.commit(claimed, end, [b"again"])
        expect_same("clause1", await store.load("bystander"), bystander)
        events = list(await store.events("bystander"))
        expect(events == [((1, 0), b"1")], "clause1", f"the bystander's events: {events!a}")


async def _conflicts(store: Store, before: Record, wanted: Record, stored: Record) -> None:
    """Expect that the commit raises `Conflict` and leaves no trace."""
    count = len(await store.events(stored.task.id))
    with refused("R1", Conflict, "a commit on what does not hold"):
        await store.commit(before, wanted, [b"refused"])
    expect_same("R1", await store.load(stored.task.id), stored)
    left = list(await store.events(stored.task.id))[count:]
    expect(not left, "R1", f"a refused commit left the events {left!a}")
