"""PostgresMemory: a query among 100,000 items, with the vectors of a real model."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence

import numpy as np
from corpus import Known, questions, texts, vectors
from figure import Figure
from postgres_server import FASTEST, server

from agentic_kernel_engine.seams import Hit, Item, Query, Scope
from agentic_kernel_postgres import PostgresMemory

COUNT = 100_000
ASKED = 200
LIMIT = 10
BATCH = 2_000
"""Items of one restore."""
ALL = Scope("acme", "all")
SMALL = {0.01: Scope("acme", "one"), 0.1: Scope("acme", "ten")}
"""Scopes with a part of all items, by that part; the large scope has the rest."""
NEW = 200
"""Items that are proposed one by one, with and without the index."""


def measure() -> list[Figure]:
    """Time and recall of queries in scopes of different size, before and after `index`."""
    asked = questions(ASKED)
    embedder = Known(
        [*texts(COUNT), *asked], np.concatenate([vectors(texts(COUNT)), vectors(asked)])
    )
    with server() as place:
        return asyncio.run(_figures(place, embedder, asked))


async def _figures(place: str, embedder: Known, asked: Sequence[str]) -> list[Figure]:
    where = f"{COUNT:,} items" + (" on a memory file system" if FASTEST.name == "shm" else "")
    async with PostgresMemory(place, embedder=embedder) as memory:
        every = texts(COUNT - NEW * 2)
        begun = 0
        for part, scope in SMALL.items():
            await _fill(memory, scope, every[begun : begun + int(part * COUNT)])
            begun += int(part * COUNT)
        await _fill(memory, ALL, every[begun:])
        held_back = texts(COUNT)[COUNT - NEW * 2 :]
        before = await _propose(memory, held_back[:NEW])
        exact = {scope: await _ask(memory, scope, asked) for scope in (ALL, *SMALL.values())}
        began = time.perf_counter()
        assert await memory.index()
        building = time.perf_counter() - began
        after = await _propose(memory, held_back[NEW:])
        # What was proposed meanwhile is compared too, so the lists of old would be unfair.
        found = {scope: await _ask(memory, scope, asked) for scope in (ALL, *SMALL.values())}
    figures = [
        Figure(
            name=f"both indexes built, {where}", ours=building, unit="s", limit=building,
            limit_is="itself", bar=300.0,
        ),
        Figure(
            name="a new item, median", ours=after * 1e3, unit="ms", limit=before * 1e3,
            limit_is="without the indexes", bar=20.0,
        ),
    ]  # fmt: skip
    for scope, part in ((ALL, 0.89), *((scope, part) for part, scope in SMALL.items())):
        (old, times), (new, times_after) = exact[scope], found[scope]
        for name, share, bar in (("median", 0.5, 20.0), ("99th percentile", 0.99, 40.0)):
            figures.append(
                Figure(
                    name=f"a query in {part:.0%} of {where}, {name}",
                    ours=_part(times_after, share) * 1e3, unit="ms",
                    limit=_part(times, share) * 1e3, limit_is="every item compared", bar=bar,
                )
            )  # fmt: skip
        figures.append(
            Figure(
                name=f"recall@{LIMIT} of a query in {part:.0%} of {where}",
                ours=_recall(old, new), unit="", limit=1.0, limit_is="every item compared",
                bar=0.95, better="higher",
            )
        )  # fmt: skip
    return figures


async def _fill(memory: PostgresMemory, scope: Scope, of: Sequence[str]) -> None:
    for start in range(0, len(of), BATCH):
        some = of[start : start + BATCH]
        items = [{"id": text, "text": text} for text in some]
        await memory.restore(scope, {"scope": {}, "version": 1, "items": items})


async def _propose(memory: PostgresMemory, of: Sequence[str]) -> float:
    """Seconds of one proposal, in the median; to a scope of its own, which no query looks at."""
    spent = []
    for text in of:
        began = time.perf_counter()
        await memory.propose(Item(text, Scope("acme", "new"), text))
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)


async def _ask(
    memory: PostgresMemory, scope: Scope, asked: Sequence[str]
) -> tuple[list[Sequence[Hit]], list[float]]:
    """The hits and the seconds of each query."""
    await memory.recall(Query(scope, asked[0], limit=LIMIT))
    found, spent = [], []
    for text in asked:
        began = time.perf_counter()
        found.append(await memory.recall(Query(scope, text, limit=LIMIT)))
        spent.append(time.perf_counter() - began)
    return found, spent


def _recall(exact: Sequence[Sequence[Hit]], found: Sequence[Sequence[Hit]]) -> float:
    """The mean share of the best hits that were found; of equal scores, any hit counts."""
    shares = []
    for best, got in zip(exact, found, strict=True):
        least = best[-1].score - 1e-9
        shares.append(sum(hit.score >= least for hit in got) / len(best))
    return statistics.mean(shares)


def _part(times: list[float], part: float) -> float:
    return sorted(times)[int(part * (len(times) - 1))]
