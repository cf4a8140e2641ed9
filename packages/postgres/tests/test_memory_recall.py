"""Recall of a memory in Postgres: meaning and words together find more than either alone."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from agentic_kernel_engine.seams.memories import BadVector, Embedder, EmbeddingMemory
from agentic_kernel_engine.seams.memory import Item, Memory, Query, Scope
from agentic_kernel_postgres import PostgresMemory
from integration.minilm import minilm

from .databases import plain as plain
from .databases import vectors as vectors

HERE = Scope("acme", "ann", "monday")
ANSWERS = {
    "Which invoice has the number 0471?": "The number of Ann's invoice is 0471",
    "Which invoice has the number 0741?": "The number of Bob's invoice is 0741",
    "Which invoice has the number 0417?": "The number of Ann's invoice is 0417",
    "When was 9138-A shipped?": "Order 9138-A was shipped on Monday",
    "When was 9813-A shipped?": "Order 9813-A was shipped on Tuesday",
    "LYS-4711": "search(LYS-4711) gave a seat to Lyon",
    "LYS-4717": "search(LYS-4717) gave a seat to Nice",
    "what does E4012 mean": "Error E4012 means that the network is down",
    "what does E4021 mean": "Error E4021 means that the disk is full",
    "which hot beverage does she enjoy at breakfast": "Ann likes green tea in the morning",
    "automobile": "Ann drives an old red car to work",
    "nightly reboot of the machine": "The server in Lyon restarts every night",
    "may he eat nuts": "Bob is allergic to peanuts",
    "when must the paper be handed in": "The deadline for the report is Friday",
    "what relatives does she have": "Her sister lives in Marseille",
    "which language should I write in": "He prefers answers in French",
}
"""Half of them ask for a name or a number, half in other words than the answer has."""


async def right(memory: Memory) -> int:
    """To how many of the questions the best hit is the answer."""
    for n, text in enumerate(ANSWERS.values()):
        await memory.propose(Item(f"{n}", HERE, text))
    found = [await memory.recall(Query(HERE, asked, limit=1)) for asked in ANSWERS]
    return sum(hit.item.text == text for (hit,), text in zip(found, ANSWERS.values(), strict=True))


@pytest.mark.slow
async def test_each_signal_finds_what_the_other_one_misses(vectors: str, schema: str) -> None:
    async with (
        PostgresMemory(vectors, schema=schema, embedder=minilm()) as both,
        PostgresMemory(vectors, schema=f"{schema}_2") as words,
    ):
        try:
            found = await right(both), await right(EmbeddingMemory(minilm())), await right(words)
        finally:
            with psycopg.connect(vectors) as connection:
                connection.execute(f"DROP SCHEMA IF EXISTS {schema}_2 CASCADE")
    assert found[0] == len(ANSWERS) > found[1] > found[2]


async def test_words_are_found_in_any_case_and_form(server: str, schema: str) -> None:
    """Also where the database knows nothing of either; and so are their parts, at any mark."""
    said = {"Ünïted café": "UNI\u0308TED CAFE\u0301 ÜNÏTED", "Straße": "STRASSE", "ﬁne": "fine"}
    said |= {"/tea/coffee": "coffee", "ann@acme.com": "acme", "x" * 600: "X" * 600}
    async with PostgresMemory(server, schema=schema) as memory:
        for text in said:
            await memory.propose(Item(text[:20], HERE, text))
        for text, asked in said.items():
            (hit,) = await memory.recall(Query(HERE, asked, limit=1, min_score=0.5))
            assert hit.item.text == text


async def test_what_was_proposed_without_a_vector_is_found_by_its_words(
    vectors: str, schema: str
) -> None:
    """Behind what means the same and has them too; and what has neither is left out."""
    async with (
        PostgresMemory(vectors, schema=schema) as words,
        PostgresMemory(vectors, schema=schema, embedder=Compass()) as both,
    ):
        await words.propose(Item("old", HERE, "north"))
        await both.propose(Item("new", HERE, "north wind"))
        await both.propose(Item("other", HERE, "south"))
        hits = await both.recall(Query(HERE, "north"))
        told = [(hit.item.id, hit.score, hit.reason) for hit in hits]
        assert told == [
            ("new", 1.0, "cosine 1.000, has 1 of 1 words"),
            ("old", 0.25, "has 1 of 1 words"),
        ]
        hits = await both.recall(Query(HERE, "south", min_score=-1))
        assert [(hit.item.id, hit.score) for hit in hits] == [
            ("other", 1.0), ("old", 0.0), ("new", -0.75)
        ]  # fmt: skip
        assert {hit.score for hit in await words.recall(Query(HERE, "…"))} == {1.0}
        # Without a direction, a text is as far from everything as from its contrary.
        assert [hit.score for hit in await both.recall(Query(HERE, "…"))] == [0.0, 0.0, 0.0]


async def test_an_embedder_that_fits_no_more_is_refused(vectors: str, schema: str) -> None:
    """In a scope that has vectors of another length; nothing of it is stored."""
    async with (
        PostgresMemory(vectors, schema=schema, embedder=Compass()) as one,
        PostgresMemory(vectors, schema=schema, embedder=Compass(more=1)) as other,
    ):
        await one.propose(Item("a", HERE, "north"))
        old = await one.export(HERE)
        for call in (
            other.propose(Item("b", HERE, "south")),
            other.supersede("a", Item("b", HERE, "south")),
            other.recall(Query(HERE, "south")),
            other.restore(HERE, {"scope": {}, "version": 1, "items": [{"id": "b", "text": "b"}]}),
        ):
            with pytest.raises(BadVector, match="a new memory for another embedder"):
                await call
        assert await one.export(HERE) == old
        assert await other.propose(Item("b", Scope("acme", "bob"), "south"))


@pytest.mark.parametrize(
    "given",
    [[], [[1.0], [2.0]], [[]], [[float("nan")]], [[1e309]], ["north"], 7, [[1.0] * 16_001]],
    ids=["none", "two", "empty", "no number", "too great", "text", "a number", "too long"],
)
async def test_what_is_no_vector_is_refused(given: object, vectors: str, schema: str) -> None:
    """No item is stored, and the same one can be proposed again."""
    async with (
        PostgresMemory(vectors, schema=schema, embedder=Fixed(given)) as memory,
        PostgresMemory(vectors, schema=schema, embedder=Fixed([[1e-60, 1.0]])) as again,
    ):
        with pytest.raises(BadVector):
            await memory.propose(Item("a", HERE, "north"))
        assert await again.propose(Item("a", HERE, "north"))
        assert [hit.score for hit in await again.recall(Query(HERE, "south"))] == [0.75]


async def test_without_the_extension_an_embedder_is_not_asked(
    plain: str, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    """And the log says why."""
    with caplog.at_level(logging.WARNING):
        async with PostgresMemory(plain, schema=schema, embedder=Fixed(None)) as memory:
            await memory.propose(Item("a", HERE, "Ann likes green tea"))
            (hit,) = await memory.recall(Query(HERE, "green cars"))
            assert (hit.score, hit.reason) == (0.5, "has 1 of 2 words")
    assert "found by their words alone" in caplog.text


class Compass:
    """An embedder that knows two directions and their contraries.

    Args:
        more: How many numbers more than needed a vector has.
    """

    def __init__(self, more: int = 0) -> None:
        self._more = [0.0] * more

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [
            [text.count("north") - text.count("south"), text.count("west"), *self._more]
            for text in map(str.casefold, texts)
        ]


class Fixed(Embedder):
    """An embedder that gives the same whatever it is asked."""

    def __init__(self, vectors: Any) -> None:
        self._vectors = vectors

    async def embed(self, texts: Sequence[str]) -> Any:
        assert self._vectors is not None, "it was asked"
        return self._vectors
