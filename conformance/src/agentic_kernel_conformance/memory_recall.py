"""Tests of recall: the items that a query finds, and their order."""

from __future__ import annotations

import asyncio

import pytest

from agentic_kernel_engine.seams import Hit, Item, Memory, Query

from .level import Level
from .memory_suite import COFFEE, HERE, INVOICE, TEA, MemorySuite, texts
from .rules import expect
from .values import ACCEPTED

_MANY = 30
_LARGE = {"brief": 150, "quick": 300}
"""The items of a large scope, by level; 1,100 at the other levels."""


class MemoryRecall(MemorySuite):
    """The tests of `recall`: live items, best first, up to the limit."""

    @pytest.mark.rule("recall")
    async def test_an_empty_scope_has_nothing_to_find(self, memory: Memory) -> None:
        """A query finds nothing, with a text or without."""
        for text in ("", "tea"):
            found = await memory.recall(Query(HERE, text))
            expect(list(found) == [], "recall", f"in an empty scope it finds {found!a:.200}")

    @pytest.mark.rule("recall")
    @pytest.mark.feature("keeps")
    async def test_without_a_text_the_newest_come_first(self, memory: Memory) -> None:
        """Up to the limit, each with the score 1; the newest item was proposed last."""
        items = [Item(f"item {n * 7 % _MANY}", HERE, f"text {n}") for n in range(_MANY)]
        for each in items:
            await memory.propose(each)
        for limit in (1, 8, _MANY, 1_000):
            hits = await memory.recall(Query(HERE, limit=limit))
            wanted = items[::-1][:limit]
            expect([hit.item for hit in hits] == wanted, "recall", f"limit {limit}: {hits!a:.300}")
            expect({hit.score for hit in hits} == {1}, "recall", f"scores of {hits!a:.200}")

    @pytest.mark.rule("recall")
    @pytest.mark.feature("keeps")
    @pytest.mark.parametrize("text", ["", "tea", "which invoice?", "nothing of the kind"])
    async def test_hits_are_live_and_in_order(self, memory: Memory, text: str) -> None:
        """Of equal scores the newer item comes first; the same query finds the same again."""
        await _fill(memory)
        # The same text gets the same score.
        twins = [Item(f"twin {n}", HERE, "The same text about tea") for n in range(4)]
        for each in twins:
            await memory.propose(each)
        hits = list(await memory.recall(Query(HERE, text, limit=100, min_score=-1)))
        for hit in hits:
            _expect_hit(hit, hit.item.scope == HERE)
            live = (await memory.explain(HERE, hit.item.id)).live
            expect(live, "recall", f"{hit.item.id} is not live, and was found")
        scores = [hit.score for hit in hits]
        expect(scores == sorted(scores, reverse=True), "recall", f"in the order {scores}")
        order = [hit.item for hit in hits if hit.item in twins]
        expect(order == twins[::-1], "recall", f"of equal scores: {[each.id for each in order]}")
        again = list(await memory.recall(Query(HERE, text, limit=100, min_score=-1)))
        expect(again == hits, "recall", f"{text!a} found {hits!a:.200}, and then {again!a:.200}")

    @pytest.mark.rule("recall")
    @pytest.mark.feature("keeps")
    async def test_limits_cut_off_what_fits_least(self, memory: Memory) -> None:
        """The limit and the minimal score give the beginning of the whole list."""
        await _fill(memory)
        every = list(await memory.recall(Query(HERE, "tea", limit=100, min_score=-1)))
        for limit in (1, 2, 100):
            some = list(await memory.recall(Query(HERE, "tea", limit=limit, min_score=-1)))
            expect(some == every[:limit], "recall", f"limit {limit} gave {some!a:.200}")
        for least in (-1.0, 0.0, 0.3, 1.0):
            some = list(await memory.recall(Query(HERE, "tea", limit=100, min_score=least)))
            wanted = [hit for hit in every if hit.score >= least]
            expect(some == wanted, "recall", f"from the score {least} it gave {some!a:.200}")

    @pytest.mark.rule("recall")
    @pytest.mark.feature("keeps")
    @pytest.mark.parametrize("text", ["", "tea"])
    async def test_what_is_gone_takes_no_place_among_the_hits(
        self, memory: Memory, text: str
    ) -> None:
        """Many newer items are forgotten or superseded; the limit counts the live ones."""
        live = [Item(f"live {n}", HERE, f"green tea {n}") for n in range(5)]
        gone = [Item(f"gone {n}", HERE, f"black tea {n}") for n in range(2 * _MANY)]
        for each in (*live, *gone):
            await memory.propose(each)
        for each in gone[::2]:
            await memory.tombstone(HERE, each.id, "it was wrong")
        for n, each in enumerate(gone[1::2]):
            await memory.supersede(each.id, Item(f"heir {n}", HERE, f"heir {n}"))
            await memory.tombstone(HERE, f"heir {n}", "it was wrong, too")
        for limit in (1, 5, 8):
            hits = await memory.recall(Query(HERE, text, limit=limit, min_score=-1))
            found = {hit.item.id for hit in hits}
            right = len(found) == min(limit, 5) and found <= {each.id for each in live}
            expect(right, "recall", f"of 5 live items, limit {limit} found {sorted(found)}")

    @pytest.mark.rule("recall")
    @pytest.mark.feature("searches")
    async def test_what_a_query_is_about_is_found_first(self, memory: Memory) -> None:
        """A query with the words of an item finds this item first."""
        await _fill(memory)
        for item in (COFFEE, INVOICE):
            found = await texts(memory, Query(HERE, item.text, limit=1))
            expect(found == [item.text], "recall", f"asked for {item.text!a} it finds {found}")

    @pytest.mark.rule("recall")
    @pytest.mark.feature("searches")
    async def test_an_old_item_is_found_in_a_large_scope(
        self, memory: Memory, level: Level
    ) -> None:
        """A query looks at every live item, and not at the newest ones only."""
        await memory.propose(INVOICE)
        for n in range(_LARGE.get(level.name, 1_100)):
            await memory.propose(Item(f"other {n}", HERE, f"Bob walks in the wood, day {n}"))
        found = await texts(memory, Query(HERE, INVOICE.text, limit=1))
        expect(found == [INVOICE.text], "recall", f"asked for {INVOICE.text!a} it finds {found}")

    @pytest.mark.rule("recall")
    @pytest.mark.feature("keeps")
    async def test_a_query_may_have_any_text(self, memory: Memory) -> None:
        """The memory interprets no text as a query language."""
        await _fill(memory)
        asked = [text[:1_000] for text in ACCEPTED.values() if isinstance(text, str)]
        for text in [*asked, "'; DROP TABLE items; --", "(", "*", "NOT tea", "tea AND"]:
            hits = await memory.recall(Query(HERE, text))
            for hit in hits:
                _expect_hit(hit, hit.item.scope == HERE)

    @pytest.mark.rule("apart")
    @pytest.mark.feature("keeps")
    async def test_queries_at_the_same_time_do_not_mix(self, memory: Memory) -> None:
        """Each query finds the same as it finds alone."""
        await _fill(memory)
        asked = [Query(HERE, text) for text in ("", "tea", "coffee", "invoice 0417") * 2]
        alone = [list(await memory.recall(each)) for each in asked]
        together = await asyncio.gather(*(memory.recall(each) for each in asked))
        for query, one, other in zip(asked, alone, together, strict=True):
            expect(one == list(other), "apart", f"{query.text!a}: {one!a:.200}, {other!a:.200}")


async def _fill(memory: Memory) -> None:
    """Store four items: two live, one superseded, one forgotten."""
    await memory.propose(TEA)
    await memory.propose(INVOICE)
    await memory.supersede(TEA.id, COFFEE)
    await memory.propose(Item("gone", HERE, "Ann likes nothing that is called tea"))
    await memory.tombstone(HERE, "gone", "it was wrong")


def _expect_hit(hit: Hit, of_here: bool) -> None:
    whole = isinstance(hit, Hit) and isinstance(hit.reason, str) and bool(hit.reason)
    expect(whole and of_here, "recall", f"a hit is {hit!a:.200}")
    expect(-1 <= hit.score <= 1, "recall", f"a score is {hit.score!r}; use -1 to 1")
