"""Tests of export: all that a memory knows of a scope, for people and for another memory."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.seams import Export, Item, Memory, Query

from .memory_suite import COFFEE, HERE, INVOICE, TEA, THERE, MemorySuite, Reopen, texts
from .rules import broken, expect, refused


class MemoryExport(MemorySuite):
    """The tests of `export` and `restore`."""

    @pytest.mark.rule("export")
    async def test_a_scope_that_nothing_is_known_of_has_no_items(self, memory: Memory) -> None:
        """Its export is valid and empty."""
        exported = await memory.export(THERE)
        expect(_read(exported).items == [], "export", f"it has {exported!a:.200}")
        expect(await memory.restore(HERE, exported) == 0, "export", "restored, it has new items")

    @pytest.mark.rule("export")
    @pytest.mark.feature("keeps")
    async def test_all_of_it_goes_out_and_comes_back(self, memory: Memory) -> None:
        """Live, superseded and forgotten items, oldest first; another scope restores them all."""
        await _fill(memory)
        exported = await memory.export(HERE)
        found = _read(exported)
        ids = [each.id for each in found.items]
        expect(ids == [TEA.id, INVOICE.id, COFFEE.id], "export", f"it has {ids}")
        for each in found.items:
            known = await memory.explain(HERE, each.id)
            expect(each == known, "export", f"it says {each!a:.200}, and explains {known!a:.200}")
        copy = json.loads(json.dumps(exported))
        expect(copy == exported, "export", "as JSON it is another")
        new = await memory.restore(THERE, copy)
        expect(new == len(ids), "export", f"{new} of {len(ids)} are new where nothing was known")
        again = _read(await memory.export(THERE))
        same = again.items == found.items and again.scope == THERE
        expect(same, "export", f"restored it is {again!a:.300}, not {found!a:.300}")
        live = [hit.item for hit in await memory.recall(Query(THERE))]
        wanted = [msgspec.structs.replace(COFFEE, scope=THERE)]
        expect(live == wanted, "export", f"restored it finds {live!a:.200}")
        expect(await memory.restore(THERE, copy) == 0, "export", "restored again, it has new items")

    @pytest.mark.rule("export")
    @pytest.mark.feature("keeps")
    async def test_what_is_gone_on_either_side_is_gone(self, memory: Memory) -> None:
        """An old copy brings no item back, and a newer copy removes items."""
        await memory.propose(TEA)
        await memory.propose(INVOICE)
        old = await memory.export(HERE)
        await memory.supersede(TEA.id, COFFEE)
        await memory.tombstone(HERE, INVOICE.id, "it was wrong")
        await memory.restore(HERE, old)
        found = await texts(memory)
        expect(found == [COFFEE.text], "export", f"an old copy brought back {found}")
        await memory.restore(THERE, old)
        await memory.restore(THERE, await memory.export(HERE))
        live = [hit.item.text for hit in await memory.recall(Query(THERE))]
        expect(live == [COFFEE.text], "export", f"a newer copy left {live}")
        text = json.dumps(await memory.export(THERE))
        expect(INVOICE.text not in text, "export", "a text that was forgotten is still there")

    @pytest.mark.rule("export")
    async def test_what_is_no_export_is_refused_whole(self, memory: Memory) -> None:
        """No item is there afterwards, not even a valid one."""
        good = {"id": "new", "text": "a new item"}
        exported = await memory.export(HERE)
        for said, wrong in {
            "a newer version": {**exported, "version": 1_000_000, "items": [good]},
            "no version": {"scope": {}, "items": [good]},
            "no items": {"scope": {}, "version": 1},
            "an item without an id": {**exported, "items": [good, {"text": "nobody"}]},
            "an item twice": {**exported, "items": [good, good]},
            "an unknown successor": {
                **exported,
                "items": [good, {"id": "b", "text": "c", "successor": "nobody"}],
            },
            "a text that cannot be stored": {
                **exported,
                "items": [good, {"id": "b", "text": "half \ud83d"}],
            },
        }.items():
            with refused("export", InvalidValue, f"restoring {said}"):
                await memory.restore(HERE, wrong)
            left = (await memory.export(HERE))["items"]
            expect(left == [], "export", f"{said} was refused, and left {left!a:.200}")

    @pytest.mark.rule("export")
    @pytest.mark.feature("keeps")
    async def test_each_change_is_in_the_next_export(self, memory: Memory) -> None:
        """Also a change after which there are as many items as before."""
        for each in (TEA, INVOICE):
            await memory.propose(each)
            ids = [item["id"] for item in (await memory.export(HERE))["items"]]
            expect(ids[-1:] == [each.id], "export", f"{each.id} was proposed, exported: {ids}")
        await memory.supersede(TEA.id, COFFEE)
        named = _read(await memory.export(HERE)).items[0].successor
        expect(named == COFFEE.id, "export", f"superseded by {COFFEE.id!a}, exported: {named!a}")
        await memory.tombstone(HERE, INVOICE.id, "it was wrong")
        text = json.dumps(await memory.export(HERE))
        expect(INVOICE.text not in text, "export", "a text that was forgotten is still there")

    @pytest.mark.rule("alias")
    @pytest.mark.feature("keeps")
    async def test_what_was_exported_is_the_callers_own(self, memory: Memory) -> None:
        """A change of the export does not change the memory."""
        await _fill(memory)
        before = json.dumps(await memory.export(HERE))
        exported: Any = await memory.export(HERE)
        for each in exported["items"]:
            each.clear()
        exported["items"].clear()
        after = json.dumps(await memory.export(HERE))
        expect(after == before, "alias", f"the caller changed {before:.200} to {after:.200}")

    @pytest.mark.rule("alias")
    @pytest.mark.feature("keeps")
    async def test_what_is_restored_stays_the_callers_own(self, memory: Memory) -> None:
        """The memory changes no part of it, and a later change of it changes no memory."""
        await _fill(memory)
        exported: Any = await memory.export(HERE)
        text = json.dumps(exported)
        await memory.restore(THERE, exported)
        expect(json.dumps(exported) == text, "alias", "a restore changed what it was given")
        before = json.dumps(await memory.export(THERE))
        for each in exported["items"]:
            each.update(text="changed", origin={"task": "changed"})
        after = json.dumps(await memory.export(THERE))
        expect(after == before, "alias", f"the caller changed {before:.200} to {after:.200}")

    @pytest.mark.rule("export")
    @pytest.mark.feature("keeps")
    async def test_a_restore_adds_to_what_is_known(self, memory: Memory) -> None:
        """Known items stay, whatever the copy says of them; the others are new, and in order."""
        await _fill(memory)
        exported = await memory.export(HERE)
        own = msgspec.structs.replace(TEA, scope=THERE, text="Tim likes tea", key="own")
        await memory.propose(own)
        await memory.propose(Item("first", THERE, "The first of all"))
        new = await memory.restore(THERE, exported)
        expect(new == 2, "export", f"{new} items are new, and 2 of 3 were unknown")
        found = await memory.explain(THERE, TEA.id)
        same = (found.text, found.key) == (own.text, own.key)
        expect(same, "export", f"a known item was overwritten: {found!a:.200}")
        live = await texts(memory, Query(THERE, limit=100))
        expect(live[-1:] == ["The first of all"], "export", f"restored, it finds {live}")
        left = await memory.export(HERE)
        expect(left == exported, "export", "a restore changed the scope that was exported")

    @pytest.mark.rule("export")
    @pytest.mark.feature("keeps")
    async def test_restored_items_are_recalled_in_their_order(self, memory: Memory) -> None:
        """The newest first, as before; an item proposed later is newer than all of them."""
        items = [Item(f"item {n * 7 % 20}", HERE, f"text {n}") for n in range(20)]
        for each in items:
            await memory.propose(each)
        await memory.restore(THERE, await memory.export(HERE))
        await memory.propose(Item("later", THERE, "later"))
        found = await texts(memory, Query(THERE, limit=100))
        wanted = ["later", *(each.text for each in reversed(items))]
        expect(found == wanted, "export", f"restored in the order {found}")

    @pytest.mark.rule("durable")
    @pytest.mark.feature("durable")
    async def test_what_was_remembered_is_there_when_it_is_opened_again(
        self, memory: Memory, reopen: Reopen
    ) -> None:
        """The export and the query give the same as before."""
        await _fill(memory)
        exported, found = await memory.export(HERE), await texts(memory)
        again = await reopen(memory)
        expect(await again.export(HERE) == exported, "durable", "another export after reopening")
        expect(await texts(again) == found, "durable", f"{await texts(again)}, and not {found}")
        expect(await again.propose(TEA) is False, "durable", "a known id is new after reopening")


async def _fill(memory: Memory) -> None:
    """Store one superseded, one forgotten and one live item."""
    await memory.propose(TEA)
    await memory.propose(INVOICE)
    await memory.supersede(TEA.id, COFFEE)
    await memory.tombstone(HERE, INVOICE.id, "it was wrong")


def _read(exported: Any) -> Export:
    try:
        return msgspec.convert(exported, Export)
    except msgspec.ValidationError as error:
        raise broken("export", f"it is no `Export`: {error}; it has {exported!a:.200}") from error
