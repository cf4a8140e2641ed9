"""Tests of liveness, and of the atomic claim by which a host takes a Task over."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Conflict, Record, Store, StoreError
from agentic_kernel_engine.record import host_of, owner_name

from .level import Level
from .reading import TERMINAL
from .records import HOST, after, ended, expect_same, ids_of, owned, paused, running
from .rules import expect, refused
from .storage import Expire, StoreSuite

_OTHER = "host-b"
_RACERS = 6
_MIXED = 40


class StoreClaims(StoreSuite):
    """R1 (fenced writes), R2 (owners) and R14 (liveness)."""

    @pytest.mark.rule("R14")
    async def test_a_host_is_alive_from_join_to_leave(self, store: Store) -> None:
        """A second join changes nothing; the version in an owner's name does not matter."""
        await store.join(HOST)
        await store.join(HOST)
        for version in (1, 2, 77):
            alive = await store.alive(owner_name(HOST, version))
            expect(alive, "R14", f"{HOST} joined, and version {version} of it is not alive")
        expect(not await store.alive(owner_name(_OTHER, 1)), "R14", "a stranger is alive")
        expect(not await store.alive(owner_name(HOST[:-1], 1)), "R14", "a prefix is alive")
        await store.leave(HOST)
        expect(not await store.alive(owner_name(HOST, 1)), "R14", f"{HOST} left and is alive")

    @pytest.mark.rule("R14")
    async def test_a_host_that_left_takes_nothing_over(self, store: Store) -> None:
        """Its claim is refused or ignored: its name would own a Task for ever after."""
        await store.join(HOST)
        record = running("free")
        await store.insert(record, [b"1"])
        await store.leave(HOST)
        claimed: Record | None = None
        with suppress(StoreError):
            claimed = await store.claim("free", HOST, [b"by who left"])
        expect(claimed is None, "R14", f"{HOST} left, and took a Task over")
        await _untouched(store, record, 1)

    @pytest.mark.rule("R14", "R2")
    @pytest.mark.parametrize("holder", [None, HOST], ids=["nobody", "a dead host"])
    async def test_a_claim_takes_over_what_no_living_host_owns(
        self, store: Store, holder: str | None
    ) -> None:
        """The claim adds one to version and attempts; the new owner is the host and the version."""
        record = running() if holder is None else owned(host=holder)
        await store.insert(record, [b"1"])
        moved = after(record, state=b'"kept"', attempts=2)
        await store.commit(record, moved)
        await store.join(_OTHER)
        claimed = await store.claim(record.task.id, _OTHER, [b"claimed", b"twice"])
        wanted = after(moved, owner=owner_name(_OTHER, 3), attempts=3)
        expect(claimed is not None, "R14", f"owned by {holder or 'nobody'}, yet not claimable")
        assert claimed is not None
        expect_same("R2", claimed, wanted)
        expect_same("C6", await store.load(record.task.id), wanted)
        events = list(await store.events(record.task.id, (1, 0)))
        right = events == [((3, 0), b"claimed"), ((3, 1), b"twice")]
        expect(right, "R15", f"the claim's events: {events!a}")

    @pytest.mark.rule("R14")
    @pytest.mark.parametrize("claimant", [_OTHER, HOST], ids=["another", "itself"])
    async def test_what_a_living_host_owns_is_not_claimable(
        self, store: Store, claimant: str
    ) -> None:
        """Not even the owner itself can claim it; the refused claim changes nothing."""
        record = owned(host=HOST)
        await store.join(HOST)
        await store.join(claimant)
        await store.insert(record, [b"1"])
        claimed = await store.claim(record.task.id, claimant, [b"stolen"])
        expect(claimed is None, "R14", f"claimed from {HOST}, which is alive")
        await _untouched(store, record, 1)
        await store.leave(HOST)
        await store.join(_OTHER)
        claimed = await store.claim(record.task.id, _OTHER)
        expect(claimed is not None, "R14", f"{HOST} left, and its Task is not claimable")

    @pytest.mark.rule("R14", "edges")
    @pytest.mark.parametrize("status", [TaskStatus.PAUSED, *TERMINAL], ids=str)
    async def test_what_does_not_run_is_not_claimable(
        self, store: Store, status: TaskStatus
    ) -> None:
        """A paused Task has no run, and a terminal Task needs no run."""
        first = owned()
        await store.insert(first)
        second = paused(first) if status is TaskStatus.PAUSED else ended(first, status)
        await store.commit(first, second)
        await store.join(_OTHER)
        claimed = await store.claim(first.task.id, _OTHER, [b"claimed"])
        expect(claimed is None, "R14", f"claimed although it is {status}")
        await _untouched(store, second, 0)

    @pytest.mark.rule("R1", "R14")
    async def test_who_was_taken_over_can_commit_no_more(self, store: Store) -> None:
        """Its commits conflict, both on its old record and in its old name on the new version."""
        record = owned(host=HOST)
        await store.insert(record)
        await store.join(_OTHER)
        claimed = await store.claim(record.task.id, _OTHER)
        assert claimed is not None
        stale = after(record, state=b'"of a zombie"')
        with refused("R1", Conflict, "a commit by who was taken over"):
            await store.commit(record, stale, [b"a zombie's"])
        pretended = after(record)
        with refused("R1", Conflict, "a commit in the old owner's name"):
            await store.commit(pretended, after(pretended, state=b'"of a zombie"'))
        await _untouched(store, claimed, 0)

    @pytest.mark.rule("R14", "C2")
    async def test_of_racing_claims_one_wins(self, store: Store, level: Level) -> None:
        """Several hosts claim one Task at the same time; one wins, and only its event is stored."""
        hosts = [f"host-{n}" for n in range(_RACERS)]
        for host in hosts:
            await store.join(host)
        for turn in range(level.rounds):
            record = owned(f"orphan {turn}", host="a host that died")
            await store.insert(record)
            outcomes = await asyncio.gather(
                *(store.claim(record.task.id, host, [host.encode()]) for host in hosts)
            )
            won = [outcome for outcome in outcomes if outcome is not None]
            expect(len(won) == 1, "R14", f"{_RACERS} claims at once: {len(won)} won")
            await _untouched(store, won[0], 1)
            text = (await store.events(record.task.id))[0][1].decode()
            expect(host_of(won[0].owner or "") == text, "R14", f"{won[0].owner} won, {text} wrote")

    @pytest.mark.rule("R14", "C2")
    async def test_of_a_claim_and_a_commit_that_race_one_wins(
        self, store: Store, level: Level
    ) -> None:
        """Either the commit lands and the claim comes after it, or the commit conflicts."""
        await store.join(_OTHER)
        for turn in range(level.rounds):
            record = running(f"raced {turn}")
            await store.insert(record)
            wanted = after(record, state=b'"committed"')
            calls = [store.claim(record.task.id, _OTHER), store.commit(record, wanted)]
            order = calls if turn % 2 else calls[::-1]
            outcomes = await asyncio.gather(*order, return_exceptions=True)
            refused = any(isinstance(outcome, Conflict) for outcome in outcomes)
            faults = [o for o in outcomes if isinstance(o, BaseException)]
            expect(len(faults) == refused, "R14", f"beside a Conflict: {faults!a}")
            stored = await store.load(record.task.id)
            expect(stored.owner is not None, "R14", f"the claim was lost: {stored!a}")
            kept = stored.state == (None if refused else b'"committed"')
            expect(kept, "R14", f"the commit {'conflicted' if refused else 'landed'}: {stored!a}")
            expect(stored.version == 3 - refused, "R14", f"version {stored.version}")

    @pytest.mark.rule("R14", "find")
    async def test_find_knows_what_is_claimable(self, store: Store) -> None:
        """``find(claimable=True)`` returns exactly the Tasks that a claim would take."""
        await store.join(HOST)
        await store.join(_OTHER)
        for record in (owned("alive"), running("free"), owned("orphan", host="gone")):
            await store.insert(record)
        resting = owned("resting", host="gone")
        await store.insert(resting)
        await store.commit(resting, paused(resting))
        found = ids_of(await store.find(claimable=True))
        expect(found == ["free", "orphan"], "find", f"claimable: {found!a}")
        await store.leave(HOST)
        found = ids_of(await store.find(claimable=True))
        expect(found == ["alive", "free", "orphan"], "find", f"once {HOST} left: {found!a}")
        for task_id in found:
            expect(await store.claim(task_id, _OTHER) is not None, "R14", f"{task_id}: refused")
        rest = ids_of(await store.find(claimable=True))
        expect(not rest, "find", f"claimable although all are claimed: {rest!a}")

    @pytest.mark.rule("find")
    @pytest.mark.parametrize("limit", [1, 2, 7])
    async def test_pages_of_claimable_tasks_are_filled(self, store: Store, limit: int) -> None:
        """The Tasks of a living Host are no part of a page, however many of them lie between."""
        await store.join(HOST)
        wanted = []
        for number in range(_MIXED):
            task_id = f"task {number:03}"
            # Most Tasks are the living host's; those to claim come now and then, one with a page
            # of the others before it.
            if number % 9 == 8 or number > _MIXED - 4:
                record = owned(task_id, host="gone") if number % 2 else running(task_id)
                wanted.append(task_id)
            else:
                record = owned(task_id, host=HOST)
            await store.insert(record)
        found: list[str] = []
        for _ in range(len(wanted) + 1):
            page = ids_of(await store.find(
                claimable=True, limit=limit, after=found[-1] if found else None
            ))  # fmt: skip
            rest = min(limit, len(wanted) - len(found))
            expect(
                len(page) == rest, "find",
                f"a page of {len(page)} claimable Tasks with limit {limit}, and {rest} are left",
            )  # fmt: skip
            if not page:
                break
            found += page
        expect(found == wanted, "find", f"claimable page by page: {found!a} and not {wanted!a}")

    @pytest.mark.feature("leases")
    @pytest.mark.rule("R14")
    async def test_a_lease_that_ran_out_is_over_for_ever(
        self, store: Store, expire: Expire
    ) -> None:
        """Another host can take over its Tasks; the expired host cannot, not even after a join."""
        await store.join(HOST)
        record = owned("orphan", host=HOST)
        await store.insert(record)
        await expire(HOST)
        alive = await store.alive(owner_name(HOST, 1))
        expect(not alive, "R14", f"the lease of {HOST} ran out, and it is alive")
        for call in (store.join(HOST), store.claim("orphan", HOST, [b"by itself"])):
            with suppress(StoreError):  # the store refuses the call, or ignores it
                await call
        alive = await store.alive(owner_name(HOST, 1))
        expect(not alive, "R14", f"{HOST} joined again, and is alive after its death")
        await _untouched(store, record, 0)
        found = ids_of(await store.find(claimable=True))
        expect(found == ["orphan"], "find", f"the lease ran out, and claimable is {found!a}")
        await store.join(_OTHER)
        claimed = await store.claim("orphan", _OTHER)
        expect(claimed is not None, "R14", "the lease ran out, and nobody may take over")
        assert claimed is not None
        with refused("R1", Conflict, "a commit after the lease ran out"):
            await store.commit(record, after(record, state=b'"of a zombie"'))
        await _untouched(store, claimed, 0)


async def _untouched(store: Store, record: Record, events: int) -> None:
    expect_same("edges", await store.load(record.task.id), record)
    found = list(await store.events(record.task.id))
    expect(len(found) == events, "edges", f"{events} events were written, found {found!a}")
