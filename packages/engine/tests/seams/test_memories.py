"""Memories that come with the engine: what each call promises, and what bad input is told."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.seams.memories import (
    BadVector,
    EmbeddingMemory,
    HashingEmbedder,
    InMemoryMemory,
    NoMemory,
)
from agentic_kernel_engine.seams.memory import (
    MAX_TEXT,
    Hit,
    Item,
    Memory,
    NotCurrent,
    Origin,
    Query,
    Scope,
    UnknownItem,
)

from .items import ANN, LIKES, item

OTHERS = [
    Scope("acme", "ann", "tuesday"),
    Scope("acme", "bob", "monday"),
    Scope("zeta", "ann", "monday"),
    Scope("ACME", "ann", "monday"),
    Scope("acme", "", "annmonday"),
    Scope(),
]


class Remote(HashingEmbedder):
    """Lets others go first, as an embedder behind a network does."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        return await super().embed(texts)


@pytest.fixture(params=["words", "vectors"])
def memory(request: pytest.FixtureRequest) -> Memory:
    return InMemoryMemory() if request.param == "words" else EmbeddingMemory(Remote())


async def texts(memory: Memory, text: str = "", scope: Scope = ANN, **options: Any) -> list[str]:
    return [hit.item.text for hit in await memory.recall(Query(scope, text, **options))]


async def test_an_item_is_found_by_what_it_is_about_best_first(memory: Memory) -> None:
    for id, text in enumerate(["The invoice is 0417", "Ann likes green tea", "Bob likes coffee"]):
        assert await memory.propose(item(str(id), text))
    (hit, *rest) = await memory.recall(Query(ANN, "which tea does Ann like?"))
    assert hit.item.text == "Ann likes green tea"
    assert all(hit.score > other.score for other in rest)
    assert -1 <= hit.score <= 1
    assert hit.reason
    assert await texts(memory, "invoice", limit=1) == ["The invoice is 0417"]
    assert await texts(memory, "invoice", min_score=0.99, limit=8) in (["The invoice is 0417"], [])
    assert await texts(memory, "zebra", min_score=1.0) == []


async def test_without_a_text_the_newest_are_found_and_ties_go_to_the_newer(memory: Memory) -> None:
    for number in range(5):
        await memory.propose(item(str(number), f"same words {number % 2}"))
    found = await memory.recall(Query(ANN, limit=3))
    assert [hit.item.id for hit in found] == ["4", "3", "2"]
    assert [hit.score for hit in found] == [1.0] * 3
    asked = Query(ANN, "same words", limit=5)
    first = [hit.item.id for hit in await memory.recall(asked)]
    assert [id for id in first if int(id) % 2] == ["3", "1"]
    assert [id for id in first if not int(id) % 2] == ["4", "2", "0"]
    assert [hit.item.id for hit in await memory.recall(asked)] == first


async def test_nothing_is_seen_or_changed_from_another_scope(memory: Memory) -> None:
    await memory.propose(LIKES)
    for scope in OTHERS:
        assert await texts(memory, "green tea", scope, min_score=-1.0) == []
        assert await texts(memory, scope=scope) == []
        assert (await memory.export(scope))["items"] == []
        with pytest.raises(UnknownItem):
            await memory.explain(scope, LIKES.id)
        with pytest.raises(UnknownItem):
            await memory.tombstone(scope, LIKES.id, "not mine")
        with pytest.raises(UnknownItem):
            await memory.supersede(LIKES.id, item("new", "mine now", scope))
        assert await memory.propose(item(LIKES.id, "their own", scope))
        assert await texts(memory, scope=scope) == ["their own"]
    assert await texts(memory) == [LIKES.text]
    assert (await memory.explain(ANN, LIKES.id)).live


async def test_proposing_again_changes_nothing_whatever_became_of_it(memory: Memory) -> None:
    assert await memory.propose(LIKES)
    before = await memory.export(ANN)
    assert not await memory.propose(LIKES)
    assert not await memory.propose(item(LIKES.id, "something else"))
    assert not await memory.supersede("never heard of", item(LIKES.id, "something else"))
    assert await memory.export(ANN) == before
    await memory.supersede(LIKES.id, item("b", "Ann likes black tea"))
    await memory.tombstone(ANN, "b", "wrong")
    before = await memory.export(ANN)
    for again in (LIKES, item("b", "Ann likes black tea")):
        assert not await memory.propose(again)
    assert await memory.export(ANN) == before
    assert await texts(memory) == []


async def test_a_successor_takes_the_place_of_its_predecessor_and_each_names_the_other(
    memory: Memory,
) -> None:
    await memory.propose(LIKES)
    assert await memory.supersede(LIKES.id, item("b", "Ann likes black tea", key="tea"))
    assert await texts(memory, "tea") == ["Ann likes black tea"]
    old, new = await memory.explain(ANN, LIKES.id), await memory.explain(ANN, "b")
    assert (old.text, old.successor, old.live) == (LIKES.text, "b", False)
    assert (old.origin, old.key) == (Origin("t", 0), "tea")
    assert (new.predecessor, new.successor, new.live) == (LIKES.id, "", True)
    with pytest.raises(NotCurrent, match="superseded by 'b'") as refused:
        await memory.supersede(LIKES.id, item("c", "late"))
    assert (refused.value.id, refused.value.successor) == (LIKES.id, "b")
    await memory.tombstone(ANN, "b", "wrong")
    with pytest.raises(NotCurrent, match="tombstoned"):
        await memory.supersede("b", item("c", "late"))
    with pytest.raises(UnknownItem):
        await memory.explain(ANN, "c")


async def test_of_many_that_supersede_one_item_exactly_one_does(memory: Memory) -> None:
    await memory.propose(LIKES)
    outcomes = await asyncio.gather(
        *(memory.supersede(LIKES.id, item(f"n{n}", f"number {n}")) for n in range(20)),
        return_exceptions=True,
    )
    assert outcomes.count(True) == 1
    assert sum(isinstance(each, NotCurrent) for each in outcomes) == 19
    assert len(await texts(memory)) == 1
    again = await asyncio.gather(*(memory.propose(item("same", "same")) for _ in range(20)))
    assert again.count(True) == 1


async def test_what_is_tombstoned_is_not_found_and_its_text_is_gone(memory: Memory) -> None:
    secret = "the code is 8841"
    await memory.propose(Item("a", ANN, secret, "code", Origin("t", 3)))
    await memory.supersede("a", item("b", "the code is 8842"))
    assert await memory.tombstone(ANN, "a", "asked to forget")
    assert not await memory.tombstone(ANN, "a", "another reason")
    known = await memory.explain(ANN, "a")
    assert (known.text, known.forgotten, known.successor) == ("", "asked to forget", "b")
    assert (known.origin, known.key) == (Origin("t", 3), "code")
    assert secret not in json.dumps(await memory.export(ANN))
    assert await memory.tombstone(ANN, "b", "this one too")
    assert await texts(memory, "code", min_score=-1.0) == []
    with pytest.raises(UnknownItem, match="check the id and the scope"):
        await memory.tombstone(ANN, "never", "no such item")


async def test_an_export_is_json_and_restores_the_same_elsewhere(memory: Memory) -> None:
    await memory.propose(LIKES)
    await memory.propose(item("b", "The invoice is 0417 — bézahlt 🍵"))
    await memory.supersede(LIKES.id, item("c", "Ann likes black tea", key="tea"))
    await memory.propose(item("d", "wrong"))
    await memory.tombstone(ANN, "d", "wrong")
    exported = json.loads(json.dumps(await memory.export(ANN)))
    assert exported["version"] == 1
    assert [each["id"] for each in exported["items"]] == [LIKES.id, "b", "c", "d"]
    for other in (InMemoryMemory(), EmbeddingMemory(HashingEmbedder(64)), memory):
        there = Scope("acme", "ann", "copy")
        assert await other.restore(there, exported) == 4
        assert await other.restore(there, exported) == 0
        again = await other.export(there)
        assert again.pop("scope") == {"tenant": "acme", "principal": "ann", "session": "copy"}
        assert again == {key: exported[key] for key in again}
        assert await texts(other, scope=there) == await texts(memory)
        assert (await texts(other, "invoice", there))[0].startswith("The invoice")


async def test_restoring_over_what_is_known_forgets_what_either_side_forgot(
    memory: Memory,
) -> None:
    await memory.propose(LIKES)
    await memory.propose(item("b", "b"))
    early = await memory.export(ANN)
    await memory.supersede(LIKES.id, item("c", "newer"))
    await memory.tombstone(ANN, "b", "wrong")
    late = await memory.export(ANN)
    assert await memory.restore(ANN, early) == 0
    assert await memory.export(ANN) == late
    other = InMemoryMemory()
    await other.restore(ANN, early)
    assert await other.restore(ANN, late) == 1
    assert await other.export(ANN) == late
    assert await texts(other) == ["newer"]


async def test_wrong_types_are_refused_by_every_call_and_nothing_is_stored(memory: Memory) -> None:
    anything: Any = memory
    await memory.propose(LIKES)
    before = await memory.export(ANN)
    calls: list[Callable[[], Any]] = [
        lambda: anything.propose("text"),
        lambda: anything.propose({"id": "a"}),
        lambda: anything.supersede(LIKES.id, "text"),
        lambda: anything.supersede(5, item("n", "new")),
        lambda: anything.supersede("a\0", item("n", "new")),
        lambda: anything.tombstone(ANN, LIKES.id, ""),
        lambda: anything.tombstone(ANN, LIKES.id, "\ud800"),
        lambda: anything.tombstone(ANN, LIKES.id, "x" * 10_000_000),
        lambda: anything.tombstone("acme", LIKES.id, "why"),
        lambda: anything.tombstone(ANN, ["a"], "why"),
        lambda: anything.recall("tea"),
        lambda: anything.explain(None, "a"),
        lambda: anything.explain(ANN, math.nan),
        lambda: anything.export(("acme", "ann", "monday")),
        lambda: anything.restore("acme", before),
    ]
    for call in calls:
        with pytest.raises(InvalidValue):
            await call()
    assert await memory.export(ANN) == before


def _exported(*items: Any, version: Any = 1) -> Any:
    return {"version": version, "scope": {}, "items": list(items)}


@pytest.mark.parametrize(
    "exported",
    [
        None,
        [],
        "{}",
        {},
        _exported(version=2),
        _exported(version=0),
        _exported(version=True),
        _exported(version=10**5_000),
        {"version": 1, "scope": {}},
        _exported(5),
        _exported({"id": "a"}),
        _exported({"id": "a", "text": ""}),
        _exported({"id": "a", "text": math.nan}),
        _exported({"id": "a", "text": "a\0"}),
        _exported({"id": "a", "text": "\ud800"}),
        _exported({"id": "a", "text": "x" * (MAX_TEXT + 1)}),
        _exported({"id": "a", "text": "a", "key": 5}),
        _exported({"id": "a", "text": "a", "origin": {"step": -1}}),
        _exported({"id": "a", "text": "a", "forgotten": "yet it has a text"}),
        _exported({"id": "a", "text": "", "forgotten": "a\0"}),
        _exported({"id": "a", "text": "a", "successor": "nowhere"}),
        _exported({"id": "a", "text": "a"}, {"id": "a", "text": "b"}),
    ],
    ids=range(22),
)
async def test_what_is_no_export_is_refused_whole(memory: Memory, exported: Any) -> None:
    if isinstance(exported, dict) and exported.get("items"):
        exported["items"].insert(0, {"id": "good", "text": "good"})
    with pytest.raises(InvalidValue, match=r"exported|item|reason"):
        await memory.restore(ANN, exported)
    assert (await memory.export(ANN))["items"] == []


class Faulty:
    """The hashing embedder, until it is told to give something else."""

    def __init__(self) -> None:
        self.real = HashingEmbedder(4)
        self.gives: Any = None
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Any:
        self.asked += texts
        if isinstance(self.gives, Exception):
            raise self.gives
        return await self.real.embed(texts) if self.gives is None else self.gives


@pytest.mark.parametrize(
    "given",
    [
        [[1.0, math.nan, 0.0, 0.0]],
        [[1.0, math.inf, 0.0, 0.0]],
        [[1e308, 1e308, 1e308, 1e308]],
        [[1.0, 2.0]],
        [[]],
        [],
        [[1.0] * 4, [1.0] * 4],
        [["one", 2, 3, 4]],
        [None],
        5,
        ConnectionError("no model today"),
    ],
    ids=range(11),
)
async def test_a_vector_that_is_none_stores_nothing_and_spoils_nothing(given: Any) -> None:
    embedder = Faulty()
    memory = EmbeddingMemory(embedder)
    await memory.propose(LIKES)
    before = await memory.export(ANN)
    embedder.gives = given
    expected = ConnectionError if isinstance(given, ConnectionError) else BadVector
    for call in (
        memory.propose(item("b", "b")),
        memory.supersede(LIKES.id, item("b", "b")),
        memory.restore(ANN, _exported({"id": "b", "text": "b"})),
        memory.recall(Query(ANN, "tea")),
    ):
        with pytest.raises(expected):
            await call
    embedder.gives = None
    assert await memory.export(ANN) == before
    assert await texts(memory, "green tea") == [LIKES.text]


async def test_vectors_of_one_call_must_be_of_one_length() -> None:
    embedder = Faulty()
    embedder.gives = [[1.0, 0.0], [1.0]]
    two = [{"id": "a", "text": "a"}, {"id": "b", "text": "b"}]
    with pytest.raises(BadVector, match=r"differing length: \[1, 2\]"):
        await EmbeddingMemory(embedder).restore(ANN, _exported(*two))


async def test_what_is_known_or_was_asked_already_is_not_embedded_again() -> None:
    embedder = Faulty()
    memory = EmbeddingMemory(embedder)
    for _ in range(3):
        await memory.propose(LIKES)
        await memory.recall(Query(ANN, "tea"))
        await memory.recall(Query(ANN))
    assert embedder.asked == [LIKES.text, "tea"]


async def test_the_hashing_embedder_tells_spelling_apart_and_nothing_else() -> None:
    def closeness(one: list[float], other: list[float]) -> float:
        return sum(a * b for a, b in zip(one, other, strict=True))

    embedder = HashingEmbedder()
    first, form, other, empty = await embedder.embed(["payments", "PAYMENT", "zebra", " "])
    assert first == (await HashingEmbedder().embed(["payments"]))[0]
    assert math.isclose(closeness(first, first), 1.0)
    assert closeness(first, form) > 0.7 > 0.3 > closeness(first, other)
    assert set(empty) == {0.0}
    for bad in (0, -1, 1.5, True, 5_000):
        with pytest.raises(InvalidValue):
            HashingEmbedder(bad)  # type: ignore[arg-type]


async def test_no_memory_takes_everything_and_finds_nothing() -> None:
    memory = NoMemory()
    assert not await memory.propose(LIKES)
    assert await texts(memory, "tea") == []
    assert (await memory.export(ANN))["items"] == []
    assert await memory.restore(ANN, _exported({"id": "a", "text": "a"})) == 0
    for call in (
        memory.explain(ANN, LIKES.id),
        memory.tombstone(ANN, LIKES.id, "why"),
        memory.supersede(LIKES.id, LIKES),
    ):
        with pytest.raises(UnknownItem):
            await call


async def test_the_cost_of_a_query_does_not_grow_with_what_is_not_live(memory: Memory) -> None:
    """Superseded items are known, and not looked at."""
    await memory.propose(item("0", "version 0"))
    for number in range(1, 200):
        await memory.supersede(str(number - 1), item(str(number), f"version {number}"))
    ledger: Any = memory._ledger  # type: ignore[attr-defined]
    assert len(list(ledger.live(ANN))) == 1
    hits: Sequence[Hit] = await memory.recall(Query(ANN, "version"))
    assert [hit.item.id for hit in hits] == ["199"]
    assert len((await memory.export(ANN))["items"]) == 200
