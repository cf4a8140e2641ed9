"""Tests of items: each is live in one scope, until it is superseded or forgotten."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import msgspec
import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.seams import (
    MAX_TEXT,
    Item,
    Memory,
    NotCurrent,
    Origin,
    Query,
    Remembered,
    Scope,
    UnknownItem,
)
from agentic_kernel_engine.seams.memory import MAX_NAME

from .memory_suite import COFFEE, ELSEWHERE, HERE, INVOICE, JOINTS, TEA, THERE, MemorySuite, texts
from .rules import accepted, expect, in_time, refused
from .unwinding import TURNS, give_up, given_up
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
            with refused("scopes", UnknownItem, f"explaining from {scope} what is in {HERE}"):
                await memory.explain(scope, TEA.id)
        for scope in ELSEWHERE:
            own = msgspec.structs.replace(TEA, scope=scope, text=f"of {scope}")
            expect(await memory.propose(own) is True, "scopes", f"{own.id!a} is known in {scope}")
        for scope in ELSEWHERE:
            expect(await texts(memory, Query(scope)) == [f"of {scope}"], "scopes", f"in {scope}")
            await memory.tombstone(scope, TEA.id, "a reason")
        expect(await texts(memory) == [TEA.text], "scopes", "forgotten in another scope")

    @pytest.mark.rule("scopes")
    @pytest.mark.feature("keeps")
    async def test_scopes_whose_parts_join_to_one_text_are_apart(self, memory: Memory) -> None:
        """The end of one part and the beginning of the next one are not the same."""
        for joint in JOINTS:
            scopes = [
                Scope(f"a{joint}b", "c", "d"),
                Scope("a", f"b{joint}c", "d"),
                Scope("a", "b", f"c{joint}d"),
            ]
            for scope in scopes:
                own = msgspec.structs.replace(TEA, scope=scope, text=f"of {scope}")
                expect(await memory.propose(own) is True, "scopes", f"{TEA.id!a} is in {scope}")
            for scope in scopes:
                found = await texts(memory, Query(scope))
                expect(found == [f"of {scope}"], "scopes", f"from {scope} one sees {found!a:.200}")

    @pytest.mark.rule("scopes")
    @pytest.mark.feature("keeps")
    async def test_the_same_ids_live_their_own_lives_in_two_scopes(self, memory: Memory) -> None:
        """Each is superseded, forgotten, exported and explained on its own."""
        for scope in (HERE, *ELSEWHERE):
            for item in (TEA, INVOICE):
                await memory.propose(msgspec.structs.replace(item, scope=scope))
        await memory.supersede(TEA.id, COFFEE)
        await memory.tombstone(HERE, INVOICE.id, "it was wrong")
        for scope in ELSEWHERE:
            found = await texts(memory, Query(scope, limit=100))
            expect(found == [INVOICE.text, TEA.text], "scopes", f"in {scope} there are {found}")
            known = [await memory.explain(scope, each.id) for each in (TEA, INVOICE)]
            expect(all(each.live for each in known), "scopes", f"in {scope}: {known!a:.300}")
            ids = [each["id"] for each in (await memory.export(scope))["items"]]
            expect(ids == [TEA.id, INVOICE.id], "scopes", f"exported from {scope}: {ids}")
            with refused("scopes", UnknownItem, f"explaining from {scope} what is in {HERE}"):
                await memory.explain(scope, COFFEE.id)
        found = await texts(memory)
        expect(found == [COFFEE.text], "scopes", f"in {HERE} there are {found}")

    @pytest.mark.rule("memory")
    @pytest.mark.feature("keeps")
    async def test_a_known_item_takes_no_place(self, memory: Memory) -> None:
        """Superseding by a known id changes nothing, whatever it is to supersede."""
        await memory.propose(TEA)
        await memory.propose(INVOICE)
        await memory.supersede(TEA.id, COFFEE)
        before = await memory.export(HERE)
        for predecessor in (TEA.id, INVOICE.id, COFFEE.id, "nobody"):
            for known in (TEA, INVOICE, COFFEE):
                doing = f"superseding {predecessor!a} by {known.id!a}, which is known,"
                with accepted("memory", doing):
                    new = await memory.supersede(predecessor, known)
                expect(new is False, "memory", f"{doing} gave {new!r}")
        after = await memory.export(HERE)
        expect(after == before, "memory", f"it was {before!a:.250}, and is {after!a:.250}")

    @pytest.mark.rule("memory")
    @pytest.mark.feature("keeps")
    async def test_a_chain_of_items_is_kept_whole(self, memory: Memory) -> None:
        """Each names the one before it and the one after it, also after some are forgotten."""
        chain = [Item(f"link {n}", HERE, f"text {n}", f"key {n}") for n in range(6)]
        await memory.propose(chain[0])
        for older, newer in itertools.pairwise(chain):
            await memory.supersede(older.id, newer)
        forgotten = {0, 3, 5}
        for n in forgotten:
            await memory.tombstone(HERE, chain[n].id, f"reason {n}")
        for n, each in enumerate(chain):
            wanted = Remembered(
                each.id,
                "" if n in forgotten else each.text,
                each.key,
                each.origin,
                chain[n - 1].id if n else "",
                chain[n + 1].id if n + 1 < len(chain) else "",
                f"reason {n}" if n in forgotten else "",
            )
            found = await memory.explain(HERE, each.id)
            expect(found == wanted, "memory", f"of link {n} it knows {found!a}, not {wanted!a}")
        expect(await texts(memory) == [], "memory", f"live: {await texts(memory)}")

    @pytest.mark.rule("memory", "apart")
    @pytest.mark.feature("keeps")
    async def test_items_that_are_proposed_at_the_same_time_are_all_there(
        self, memory: Memory
    ) -> None:
        """In one scope and in several, beside queries; none is lost, and none is mixed up."""
        items = [
            Item(f"item {n}", scope, f"{n} of {scope.session}", f"key {n}")
            for n in range(_MANY)
            for scope in (HERE, THERE)
        ]
        asked = [memory.propose(each) for each in items]
        told = await asyncio.gather(*asked, *(texts(memory) for _ in range(_RACERS)))
        expect(all(told[: len(items)]), "memory", f"some of {len(items)} items were not new")
        for scope in (HERE, THERE):
            found = {hit.item.id: hit.item for hit in await memory.recall(Query(scope, limit=100))}
            wanted = {each.id: each for each in items if each.scope == scope}
            expect(found == wanted, "apart", f"in {scope}: {sorted(found)} of {len(wanted)}")

    @pytest.mark.rule("values")
    @pytest.mark.feature("keeps")
    async def test_the_longest_names_come_back(self, memory: Memory) -> None:
        """Id, key, reason, origin and the parts of a scope, in characters of several bytes."""
        for letter in ("x", "ü", "👋"):
            long = letter * MAX_NAME
            scope = Scope(long, long, long)
            for last in "ab":
                id = f"{long[:-1]}{last}"
                item = Item(id, scope, letter * MAX_TEXT, long, Origin(long, (1 << 63) - 1))
                expect(await memory.propose(item), "values", f"{letter} × {MAX_NAME} is known")
                found = await memory.explain(scope, id)
                same = (found.text, found.key, found.origin) == (item.text, item.key, item.origin)
                expect(same, "values", f"{letter} × {MAX_NAME} came back as {found!a:.200}")
                await memory.tombstone(scope, id, long)
                reason = (await memory.explain(scope, id)).forgotten
                expect(reason == long, "values", f"a reason of {MAX_NAME} has {len(reason)}")

    @pytest.mark.rule("values")
    @pytest.mark.feature("keeps")
    async def test_a_wrong_argument_is_refused_and_nothing_is_stored(self, memory: Any) -> None:
        """Ids, reasons and scopes of another type, empty, too long, or that cannot be stored."""
        await memory.propose(TEA)
        before = await memory.export(HERE)
        names: list[Any] = [None, 7, "", "x" * (MAX_NAME + 1), "half \ud83d", "a\0b"]
        for wrong in names:
            said = f"{wrong!a:.40}"
            with refused("values", InvalidValue, f"superseding {said}"):
                await memory.supersede(wrong, COFFEE)
            with refused("values", InvalidValue, f"forgetting {said}"):
                await memory.tombstone(HERE, wrong, "a reason")
            with refused("values", InvalidValue, f"forgetting for the reason {said}"):
                await memory.tombstone(HERE, TEA.id, wrong)
            with refused("values", InvalidValue, f"explaining {said}"):
                await memory.explain(HERE, wrong)
        scopes: list[Any] = [None, "acme", ("acme", "ann", "monday"), {"tenant": "acme"}]
        for wrong in scopes:
            with refused("values", InvalidValue, f"forgetting in the scope {wrong!a}"):
                await memory.tombstone(wrong, TEA.id, "a reason")
            with refused("values", InvalidValue, f"explaining in the scope {wrong!a}"):
                await memory.explain(wrong, TEA.id)
            with refused("values", InvalidValue, f"exporting the scope {wrong!a}"):
                await memory.export(wrong)
            with refused("values", InvalidValue, f"restoring into the scope {wrong!a}"):
                await memory.restore(wrong, before)
        after = await memory.export(HERE)
        expect(after == before, "values", f"what was refused left {after!a:.300}")

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

    @pytest.mark.rule("unwind", "memory")
    @pytest.mark.feature("keeps")
    async def test_a_change_that_is_given_up_is_whole_or_not_there(self, memory: Memory) -> None:
        """Of two items one is live at any time; made again, the change is there once."""
        for n, turns in enumerate(TURNS):
            old, new = (Item(f"{name} {n}", HERE, f"{name} {n}") for name in ("old", "new"))
            await memory.propose(old)
            async with in_time("unwind", self.patience, "a change that was given up"):
                await given_up(memory.supersede(old.id, new), turns)
            live = [text for text in await texts(memory) if text in (old.text, new.text)]
            whole = live in ([old.text], [new.text])
            expect(whole, "memory", f"superseding was given up after {turns} turns: {live} live")
            await memory.supersede(old.id, new)
            found = await memory.explain(HERE, old.id)
            expect(found.successor == new.id, "memory", f"superseded again: {found!a:.200}")
            async with in_time("unwind", self.patience, "a change that was given up"):
                await given_up(memory.tombstone(HERE, new.id, "a reason"), turns)
            known = await memory.explain(HERE, new.id)
            whole = (known.text, known.forgotten) in ((new.text, ""), ("", "a reason"))
            expect(whole, "memory", f"forgetting was given up after {turns} turns: {known!a:.200}")
            await memory.tombstone(HERE, new.id, "a reason")
            expect(await texts(memory) == [], "memory", f"live: {await texts(memory)}")


_MANY = 30
_QUERY = Query(HERE, "tea")
