"""Tests of several processes on one store, for stores that declare ``processes``."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from agentic_kernel_engine import Host, Store

from .level import Level
from .processes import StoreFactory, close, worker
from .records import after, expect_same, ids_of, running
from .rules import expect, in_time
from .storage import StoreSuite

_PROCESSES = 4
_ORPHANS = 40


class StoreProcesses(StoreSuite):
    """C2 (mutators serialise), C6 (read your writes) and R14 (liveness) across processes."""

    @pytest.mark.feature("processes")
    @pytest.mark.rule("C6", "C7")
    async def test_one_handle_reads_what_another_wrote(
        self, store: Store, factory: StoreFactory
    ) -> None:
        """In both directions, as soon as the write has returned; and no write is overwritten."""
        other = factory.open()
        try:
            record = running("shared")
            await store.insert(record, [b"1"])
            for turn in range(20):
                writes, reads = (store, other) if turn % 2 else (other, store)
                expect_same("C6", await writes.load("shared"), record)
                step = after(record, state=b"%d" % turn)
                await writes.commit(record, step, [b"%d" % turn])
                expect_same("C6", await reads.load("shared"), step)
                moved = dict(await reads.changed({"shared": record.version}))
                expect(moved == {"shared": step.version}, "C6", f"changed gave {moved}")
                count = len(await reads.events("shared"))
                expect(count == turn + 2, "C6", f"{count} events after {turn + 2} writes of one")
                record = step
            expect(ids_of(await other.find()) == ["shared"], "C6", "not on a page of the other")
        finally:
            await close(other)

    @pytest.mark.feature("processes")
    @pytest.mark.rule("C2", "C6")
    async def test_no_extra_is_lost_doubled_or_invented_by_four_processes(
        self, store: Store, factory: StoreFactory, level: Level
    ) -> None:
        """Four processes resume and one pauses, until each of the four has read enough own extras.

        An extra counts as soon as its process has read it after the resume returned. From then on
        it must never vanish, and never appear twice.
        """
        await store.insert(running("contended"))
        host = Host(store=store)
        done = asyncio.Event()

        async def keep_pausing() -> None:
            while not done.is_set():
                await host.pause("contended")
                await asyncio.sleep(0)

        async with (
            in_time("C2", 60 + level.extras, "resuming from four processes"),
            AsyncExitStack() as stack,
        ):
            workers = [
                await stack.enter_async_context(
                    worker(factory, "resume", task_id="contended", name=f"p{n}", share=level.extras)
                )
                for n in range(_PROCESSES)
            ]
            pausing = asyncio.create_task(keep_pausing())
            try:
                told = await asyncio.gather(*(one.said() for one in workers))
            finally:
                done.set()
                await pausing
        supplements = list((await host.get("contended")).supplements)
        await host.close()
        for n, said in enumerate(told):
            expect(not said["lost"], "C2", f"p{n} saw extras that vanished: {said['lost'][:10]}")
            gone = set(said["kept"]).difference(supplements)
            expect(not gone, "C2", f"p{n} saw extras that vanished: {sorted(gone)[:10]}")
        twice = {extra for extra in supplements if supplements.count(extra) > 1}
        expect(not twice, "C2", f"extras that appear twice: {sorted(twice)[:10]}")
        offered = {f"p{n}.{turn}" for n, said in enumerate(told) for turn in range(said["offered"])}
        invented = set(supplements) - offered
        expect(not invented, "C2", f"extras that nobody offered: {sorted(invented)[:10]}")

    @pytest.mark.feature("processes")
    @pytest.mark.rule("R14")
    async def test_of_claims_from_several_processes_one_wins(
        self, store: Store, factory: StoreFactory
    ) -> None:
        """Four processes claim the same Tasks in the same order at the same time."""
        ids = [f"orphan {n:02}" for n in range(_ORPHANS)]
        for task_id in ids:
            await store.insert(running(task_id))
        async with (
            in_time("R14", self.patience * 3, "claiming from four processes"),
            AsyncExitStack() as stack,
        ):
            workers = [
                await stack.enter_async_context(
                    worker(factory, "claim", host=f"claimant-{n}", task_ids=ids)
                )
                for n in range(_PROCESSES)
            ]
            for one in workers:
                expect(await one.said() == "joined", "kit", "a worker did not join")
            for one in workers:
                one.go()
            won = [task_id for one in workers for task_id in await one.said()]
        expect(sorted(won) == ids, "R14", f"{len(won)} claims won of {len(ids)} Tasks: {won[:20]}")
        for task_id in ids:
            record = await store.load(task_id)
            right = (record.version, record.attempts) == (2, 1)
            expect(right, "R14", f"{task_id}: version {record.version}, {record.attempts} attempts")

    @pytest.mark.feature("processes")
    @pytest.mark.rule("R14")
    async def test_a_process_that_died_owns_nothing(
        self, store: Store, factory: StoreFactory
    ) -> None:
        """While the process lives, even idle, its Task is safe; after a kill it is claimable."""
        await store.insert(running("held"))
        await store.join("heir")
        async with worker(factory, "hold", host="victim", task_id="held") as victim:
            async with in_time("R14", self.patience, "joining and claiming"):
                owner = await victim.said()
            expect(owner == "victim:2", "R2", f"the owner is {owner!a}")
            expect(await store.alive(owner), "R14", "the owner's process lives, the owner does not")
            stolen = await store.claim("held", "heir")
            expect(stolen is None, "R14", "claimed from a process that lives")
            await victim.kill()
        async with in_time("R14", self.patience * 3, "the liveness of a dead process"):
            alive = True
            while alive:
                alive = await store.alive(owner)
                await asyncio.sleep(0.01)
        claimed = await store.claim("held", "heir")
        expect(claimed is not None, "R14", "the owner's process died, and nobody may take over")
