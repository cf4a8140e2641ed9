"""Tests of several handles on one memory, for memories that declare ``shared``."""

from __future__ import annotations

import asyncio

import pytest

from agentic_kernel_engine.seams import Item, Memory, NotCurrent, Query

from .memory_suite import COFFEE, HERE, INVOICE, TEA, THERE, Another, MemorySuite, texts
from .rules import expect

_EACH = 20


class MemoryShared(MemorySuite):
    """Each handle sees what the others have done, and of calls at once one wins."""

    @pytest.mark.rule("memory")
    @pytest.mark.feature("shared")
    async def test_one_handle_finds_what_another_remembered(
        self, memory: Memory, another: Another
    ) -> None:
        """As soon as the call has returned, whatever the handle has read before."""
        other = await another()
        for handle in (memory, other):
            expect(await texts(handle) == [], "memory", "a handle finds items in a new place")
        await memory.propose(TEA)
        expect(await texts(other) == [TEA.text], "memory", f"proposed: {await texts(other)}")
        await other.supersede(TEA.id, COFFEE)
        expect(await texts(memory) == [COFFEE.text], "memory", f"then: {await texts(memory)}")
        await memory.tombstone(HERE, COFFEE.id, "it was wrong")
        expect(await texts(other) == [], "memory", f"forgotten, and found: {await texts(other)}")
        known = (await other.explain(HERE, COFFEE.id)).forgotten
        expect(known == "it was wrong", "memory", f"the other handle has the reason {known!a}")
        new = await memory.restore(THERE, await other.export(HERE))
        expect(new == 2, "memory", f"{new} of 2 items are new in another scope")
        same = await other.export(THERE) == await memory.export(THERE)
        expect(same, "memory", "after a restore, the handles export different items")
        expect(await other.propose(TEA) is False, "memory", "an item was new to another handle")

    @pytest.mark.rule("memory")
    @pytest.mark.feature("shared")
    async def test_of_calls_on_several_handles_at_once_one_wins(
        self, memory: Memory, another: Another
    ) -> None:
        """One is told that an item is new, and one takes the place of another item."""
        handles = [memory, await another(), await another()]
        for n in range(_EACH):
            item = Item(f"item {n}", HERE, f"text {n}")
            told = await asyncio.gather(*(handle.propose(item) for handle in handles))
            expect(sorted(told) == [False, False, True], "memory", f"an item was new: {told}")
        await memory.propose(INVOICE)
        heirs = [Item(f"heir {n}", HERE, f"the heir {n}") for n in range(len(handles))]
        calls = (
            handle.supersede(INVOICE.id, heir) for handle, heir in zip(handles, heirs, strict=True)
        )
        said = await asyncio.gather(*calls, return_exceptions=True)
        lost = [each for each in said if isinstance(each, NotCurrent)]
        right = said.count(True) == 1 and len(lost) == len(handles) - 1
        expect(right, "memory", f"of three that supersede one item at once: {said!a:.300}")
        won = heirs[said.index(True)].id
        named = {(await handle.explain(HERE, INVOICE.id)).successor for handle in handles}
        expect(named == {won}, "memory", f"{won!a} won, and the handles name {named}")
        live = [await texts(handle, Query(HERE, limit=1_000)) for handle in handles]
        same = live[0] == live[1] == live[2] and len(live[0]) == _EACH + 1
        expect(same, "memory", f"the handles find {[len(each) for each in live]} items")
