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
OTHERS = {1_000: Scope("acme", "thousand"), 10_000: Scope("acme", "ten thousand")}
"""Scopes beside the large one, by the number of their items; the first one is not indexed."""
NEW = 200
"""Items that are proposed one by one, without the indexes and then with them."""


def measure() -> list[Figure]:
    """Time and recall of queries in scopes of different size, before and after `index`."""
    asked = questions(ASKED)
    embedder = Known(
        [*texts(COUNT), *asked], np.concatenate([vectors(texts(COUNT)), vectors(asked)])
    )
    with server() as place:
        return asyncio.run(_figures(place, embedder, asked))


async def _figures(place: str, embedder: Known, asked: Sequence[str]) -> list[Figure]:
    medium = " on a memory file system" if FASTEST.name == "shm" else ""
    every = texts(COUNT)
    every, tail = every[: -2 * NEW], every[-2 * NEW :]
    scopes = {COUNT: ALL, **OTHERS}
    async with PostgresMemory(place, embedder=embedder) as memory:
        for count, scope in OTHERS.items():
            await _fill(memory, scope, texts(count))
        filling = await _fill(memory, ALL, every)
        before = await _propose(memory, tail[:NEW])
        exact = {count: await _ask(memory, scope, asked) for count, scope in scopes.items()}
        began = time.perf_counter()
        await memory.index(ALL)
        building = time.perf_counter() - began
        await memory.index(OTHERS[10_000])
        found = {count: await _ask(memory, scope, asked) for count, scope in scopes.items()}
        after = await _propose(memory, tail[NEW:])
    figures = [
        Figure(
            name=f"both indexes of {COUNT:,} items built{medium}", ours=building, unit="s",
            limit=filling, limit_is="the items taken in", bar=300.0,
        ),
        Figure(
            name=f"a new item in a scope of {COUNT:,}{medium}, median", ours=after * 1e3, unit="ms",
            limit=before * 1e3, limit_is="without the indexes", bar=20.0,
        ),
    ]  # fmt: skip
    for count in scopes:
        where = f"among {count:,} items{medium}"
        times, limits = found[count][1], exact[count][1]
        figures += [
            Figure(
                name=f"a query {where}, {name}", ours=_part(times, part) * 1e3, unit="ms",
                limit=_part(limits, part) * 1e3, limit_is="without the indexes", bar=bar,
            )
            for name, part, bar in (("median", 0.5, 20.0), ("99th percentile", 0.99, 40.0))
        ] + [
            Figure(
                name=f"recall@{LIMIT} {where}", ours=_recall(exact[count][0], found[count][0]),
                unit="", limit=1.0, limit_is="every item compared", bar=0.95, better="higher",
            )
        ]  # fmt: skip
    return figures


async def _fill(memory: PostgresMemory, scope: Scope, of: Sequence[str]) -> float:
    """The seconds until a scope has taken all texts in."""
    began = time.perf_counter()
    for start in range(0, len(of), BATCH):
        some = of[start : start + BATCH]
        items = [{"id": text, "text": text} for text in some]
        await memory.restore(scope, {"scope": {}, "version": 1, "items": items})
    return time.perf_counter() - began


async def _propose(memory: PostgresMemory, of: Sequence[str]) -> float:
    """Seconds of one proposal, in the median."""
    spent = []
    for text in of:
        began = time.perf_counter()
        await memory.propose(Item(text, ALL, text))
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
