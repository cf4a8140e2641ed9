"""Tests of processes that die: their hosts die with them, and what they were told stays."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

import pytest

from agentic_kernel_engine import Store

from .processes import StoreFactory, close, worker
from .records import expect_same, owned, running
from .rules import expect, in_time
from .storage import StoreSuite
from .store_worker import ACKNOWLEDGED, steps_of

_UNTIL = 3
"""The multiple of the patience for which a dead Host may still count as alive."""


class StoreDeaths(StoreSuite):
    """R14 (liveness) and durability, when a process ends without a word."""

    @pytest.mark.feature("processes")
    @pytest.mark.rule("R14")
    async def test_a_dead_process_that_nobody_buried_owns_nothing(
        self, store: Store, factory: StoreFactory
    ) -> None:
        """Its parent does not ask for its end, so its process id stays taken: it proves no life."""
        await store.insert(running("held"))
        async with worker(factory, "hold", unreaped=True, host="victim", task_id="held") as parent:
            async with in_time("R14", self.patience, "joining and claiming"):
                owner = await parent.said()
            expect(await store.alive(owner), "R14", "the owner's process lives, the owner does not")
            parent.go()
            async with in_time("R14", self.patience, "the end of the owner's process"):
                expect(await parent.said() == "killed", "kit", "the worker did not kill its child")
            await self._gone(store, owner, "its process died, and its process id is still taken")

    @pytest.mark.feature("processes")
    @pytest.mark.rule("R14")
    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
    async def test_a_forked_child_does_not_keep_its_parents_host_alive(
        self, store: Store, factory: StoreFactory
    ) -> None:
        """The child inherits locks and connections, and does nothing with them."""
        await store.insert(running("held"))
        async with worker(factory, "fork", host="victim", task_id="held") as victim:
            async with in_time("R14", self.patience, "joining, claiming and forking"):
                owner, child = await victim.said()
            try:
                expect(
                    await store.alive(owner), "R14", "the owner lives beside its child, and is dead"
                )
                await victim.kill()
                await self._gone(store, owner, "its process died, and a forked child of it lives")
            finally:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)

    async def _gone(self, store: Store, owner: str, why: str) -> None:
        alive = True
        await store.join("heir")
        with suppress(TimeoutError):
            async with asyncio.timeout(self.patience * _UNTIL):
                while alive:
                    alive = await store.alive(owner)
                    await asyncio.sleep(0.01)
        expect(not alive, "R14", f"the owner counts as alive: {why}")
        claimed = await store.claim("held", "heir")
        expect(claimed is not None, "R14", f"nobody may take over: {why}")

    @pytest.mark.feature("durable")
    @pytest.mark.feature("processes")
    @pytest.mark.rule("durable")
    async def test_what_a_killed_process_was_told_is_there(
        self, store: Store, factory: StoreFactory
    ) -> None:
        """No write waits for a close: a kill of the process after an answer loses no write."""
        async with worker(factory, "write", task_id="written", count=ACKNOWLEDGED) as victim:
            async with in_time("durable", self.patience * 3, "twenty writes by another process"):
                told = await victim.said()
            await victim.kill()
        expect(told == ACKNOWLEDGED, "kit", f"a worker wrote {told} of {ACKNOWLEDGED} versions")
        other = factory.open()
        try:
            async with in_time("durable", self.patience * 3, "opening after a killed process"):
                for reader in (store, other):
                    await _expect_written(reader)
        finally:
            await close(other)


async def _expect_written(store: Store) -> None:
    wanted = list(steps_of(owned("written", host="writer"), ACKNOWLEDGED))[-1]
    expect_same("durable", await store.load("written"), wanted)
    events = [text for _, text in await store.events("written")]
    right = [b"%d" % version for version in range(1, ACKNOWLEDGED + 1)]
    expect(events == right, "durable", f"acknowledged were {len(right)} events: {events!a}")
    found = [record.version for record in await store.find(owner="writer")]
    expect(found == [ACKNOWLEDGED], "durable", f"on the page of its owner: versions {found}")
