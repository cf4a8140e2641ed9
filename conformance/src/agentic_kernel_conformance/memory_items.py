"""Tests of items: each is live in one scope, until it is superseded or forgotten."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.seams import (
    MAX_TEXT,
    Item,
    Memory,
    NotCurrent,
    Query,
    Remembered,
    Scope,
    UnknownItem,
)

from .memory_suite import COFFEE, ELSEWHERE, HERE, INVOICE, TEA, MemorySuite, texts
from .rules import expect, in_time, refused
from .unwinding import give_up
from .values import ACCEPTED, IDS

_RACERS = 8


class MemoryItems(MemorySuite):
    """The tests of `propose`, `supersede`, `tombstone` and `explain`."""

    @pytest.mark.rule("memory")
    @pytest.mark.feature("keeps")
    async def test_an_item_is_remembered_once(self, memory: Memory) -> None:
        """The item keeps all its fields; a second proposal under its id changes nothing."""
        expect(await memory.propose(TEA) is True, "memory", "a new item was not new")
        other = msgspec.structs.replace(TEA, text="Ann hates tea", key="other")
        expect(await memory.propose(other) is False, "memory", "an item was new twice")
        found = await memory.explain(HERE, TEA.id)
        wanted = Remembered(TEA.id, TEA.text, TEA.key, TEA.origin)
        expect(found == wanted, "memory", f"of {TEA} it knows {found}")
        expect(await texts(memory) == [TEA.text], "memory", f"it finds {await texts(memory)}")

    @pytest.mark.rule("memory")
    @pytest.mark.feature("keeps")
    async def test_an_item_takes_the_place_of_another(self, memory: Memory) -> None:
        """Both name each other, a query finds only the newer one, and a retry changes nothing."""
        await memory.propose(TEA)
        expect(await memory.supersede(TEA.id, COFFEE) is True, "memory", "it was not new")
        expect(await texts(memory) == [COFFEE.text], "memory", f"found: {await texts(memory)}")
        old, new = [await memory.explain(HERE, each.id) for each in (TEA, COFFEE)]
        named = (old.live, old.successor, new.live, new.predecessor)
        wanted = (False, COFFEE.id, True, TEA.id)
        expect(named == wanted, "memory", f"they say of each other {named}, not {wanted}")
        expect(await memory.supersede(TEA.id, COFFEE) is False, "memory", "it was new twice")
        with refused("memory", NotCurrent, "superseding what is superseded") as refusal:
            await memory.supersede(TEA.id, INVOICE)
        refers = (refusal.error.id, refusal.error.successor)
        expect(refers == (TEA.id, COFFEE.id), "memory", f"the refusal names {refers}")
        with refused("memory", UnknownItem, "superseding what nobody knows"):
            await memory.supersede("nobody", INVOICE)
        expect(await texts(memory) == [COFFEE.text], "memory", "what was refused is remembered")

    @pytest.mark.rule("memory")
    @pytest.mark.feature("keeps")
    async def test_what_is_forgotten_is_gone(self, memory: Memory) -> None:
        """Its text is gone from everywhere, for ever; its first reason, key and origin stay."""
        await memory.propose(TEA)
        await memory.supersede(TEA.id, COFFEE)
        for each in (TEA, COFFEE):
            first = await memory.tombstone(HERE, each.id, "Ann asked for it")
            again = await memory.tombstone(HERE, each.id, "another reason")
            expect((first, again) == (True, False), "memory", f"forgotten: {first}, {again}")
            found = await memory.explain(HERE, each.id)
            told = (found.text, found.forgotten, found.key, found.origin, found.live)
            wanted = ("", "Ann asked for it", each.key, each.origin, False)
            expect(told == wanted, "memory", f"of what is forgotten it knows {told}")
            expect(await memory.propose(each) is False, "memory", "it was remembered again")
        everywhere = f"{await texts(memory)} {await memory.export(HERE)}"
        expect("Ann likes" not in everywhere, "memory", f"the text is still in {everywhere!a:.300}")
        with refused("memory", NotCurrent, "superseding what is forgotten"):
            await memory.supersede(COFFEE.id, INVOICE)

    @pytest.mark.rule("memory")
    async def test_what_nobody_knows_is_unknown(self, memory: Memory) -> None:
        """The memory raises `UnknownItem`, and does not return an empty answer."""
        with refused("memory", UnknownItem, "explaining what nobody knows") as refusal:
            await memory.explain(HERE, "nobody")
        expect(refusal.error.id == "nobody", "memory", f"it names {refusal.error.id!a}")
        with refused("memory", UnknownItem, "forgetting what nobody knows"):
            await memory.tombstone(HERE, "nobody", "a reason")
        with refused("memory", UnknownItem, "superseding what nobody knows"):
            await memory.supersede("nobody", TEA)

    @pytest.mark.rule("memory")
    @pytest.mark.feature("keeps")
    async def test_of_several_that_say_the_same_one_is_told_that_it_is_new(
        self, memory: Memory
    ) -> None:
        """Of concurrent proposals one is new; of concurrent supersessions one succeeds."""
        proposed = await asyncio.gather(*(memory.propose(TEA) for _ in range(_RACERS)))
        expect(proposed.count(True) == 1, "memory", f"{_RACERS} were told {proposed}")
        others = [Item(f"item {n}", HERE, f"text {n}") for n in range(_RACERS)]
        tried = (memory.supersede(TEA.id, each) for each in others)
        told = await asyncio.gather(*tried, return_exceptions=True)
        lost = [each for each in told if isinstance(each, NotCurrent)]
        right = told.count(True) == 1 and len(lost) == _RACERS - 1
        expect(right, "memory", f"{_RACERS} that would supersede one item were told {told!a:.400}")
        expect(len(await texts(memory)) == 1, "memory", f"left: {await texts(memory)}")

    @pytest.mark.rule("scopes")
    @pytest.mark.feature("keeps")
    async def test_what_is_in_one_scope_is_seen_from_no_other(self, memory: Memory) -> None:
        """From another scope an item is neither found, exported, superseded nor forgotten."""
        await memory.propose(TEA)
        for scope in ELSEWHERE:
            found = await texts(memory, Query(scope)) or (await memory.export(scope))["items"]
            expect(not found, "scopes", f"from {scope} one sees {found!a:.200} of {HERE}")
            with refused("scopes", UnknownItem, f"forgetting from {scope} what is in {HERE}"):
                await memory.tombstone(scope, TEA.id, "a reason")
            with refused("scopes", UnknownItem, f"superseding from {scope} what is in {HERE}"):
                await memory.supersede(TEA.id, msgspec.structs.replace(COFFEE, scope=scope))
        for scope in ELSEWHERE:
            own = msgspec.structs.replace(TEA, scope=scope, text=f"of {scope}")
            expect(await memory.propose(own) is True, "scopes", f"{own.id!a} is known in {scope}")
        for scope in ELSEWHERE:
            expect(await texts(memory, Query(scope)) == [f"of {scope}"], "scopes", f"in {scope}")
            await memory.tombstone(scope, TEA.id, "a reason")
        expect(await texts(memory) == [TEA.text], "scopes", "forgotten in another scope")

    @pytest.mark.rule("values")
    @pytest.mark.feature("keeps")
    async def test_a_text_comes_back_as_it_was(self, memory: Memory) -> None:
        """Any text and any key come back, up to the maximal length."""
        given = [text for text in ACCEPTED.values() if isinstance(text, str) and text]
        given = [text[:MAX_TEXT] for text in given]
        for n, text in enumerate(given):
            await memory.propose(Item(f"item {n}", HERE, text, text[:600]))
        for n, text in enumerate(given):
            found = await memory.explain(HERE, f"item {n}")
            same = (found.text, found.key) == (text, text[:600])
            expect(same, "values", f"{text!a:.100} came back as {found.text!a:.100}")
        expect(await texts(memory) == given[::-1], "values", "what is found is not what was given")

    @pytest.mark.rule("ids")
    @pytest.mark.feature("keeps")
    async def test_an_id_and_a_scope_are_opaque(self, memory: Memory) -> None:
        """All ids and scopes differ, and the memory interprets none of them."""
        for id in IDS.values():
            for scope in (HERE, Scope(principal=id)):
                new = await memory.propose(Item(id, scope, f"known as {id}"))
                expect(new, "ids", f"{id!a:.100} was taken for another id, in {scope!a:.100}")
        for id in IDS.values():
            for scope in (HERE, Scope(principal=id)):
                found = (await memory.explain(scope, id)).text
                expect(found == f"known as {id}", "ids", f"{id!a:.100} has {found!a:.100}")
            alone = await texts(memory, Query(Scope(principal=id)))
            expect(alone == [f"known as {id}"], "ids", f"scope {id!a:.100} has {alone!a:.200}")

    @pytest.mark.rule("values")
    @pytest.mark.parametrize("wrong", [None, "text", {"id": "a"}, 7], ids=repr)
    async def test_what_is_of_another_type_is_refused(self, memory: Any, wrong: Any) -> None:
        """The memory raises `InvalidValue`."""
        if self.features.keeps:
            for call in (memory.propose, memory.recall, memory.export):
                with refused("values", InvalidValue, f"{call.__name__}({wrong!r})"):
                    await call(wrong)
            with refused("values", InvalidValue, f"supersede(…, {wrong!r})"):
                await memory.supersede(TEA.id, wrong)
        with refused("values", InvalidValue, f"restore(…, {wrong!r})"):
            await memory.restore(HERE, wrong)

    @pytest.mark.rule("unwind", "memory")
    @pytest.mark.feature("keeps")
    async def test_a_call_that_is_given_up_can_be_made_again(self, memory: Memory) -> None:
        """A cancelled call takes effect or does not, and leaves no asyncio task running."""
        await memory.propose(INVOICE)
        await give_up(lambda: memory.propose(TEA), self.patience, "a proposal")
        await give_up(lambda: memory.recall(_QUERY), self.patience, "a query")
        async with in_time("unwind", self.patience, "a proposal made again"):
            await memory.propose(TEA)
        found = await texts(memory)
        expect(found == [TEA.text, INVOICE.text], "memory", f"it finds {found}")


_QUERY = Query(HERE, "tea")
