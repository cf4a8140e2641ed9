"""The contract kit: judging recorded histories."""

from __future__ import annotations

import asyncio

from figure import Figure, interleaved

from agentic_kernel import TaskStatus
from agentic_kernel_conformance.contest import Contest
from agentic_kernel_conformance.history import Operation
from agentic_kernel_conformance.linearizability import State, explains, linearize
from agentic_kernel_conformance.races import Script
from agentic_kernel_engine import MemoryStore

_MANY, _SIZE = 180, 40


def measure() -> list[Figure]:
    """How many operations a second are put in order."""
    histories = asyncio.run(_recorded())
    state = State((TaskStatus.RUNNING, (), ""))
    total = sum(map(len, histories))

    def ours() -> None:
        for history in histories:
            linearize(history)

    def limit() -> None:
        for history in histories:
            for operation in history:
                explains(state, operation)

    best = interleaved({"ours": ours, "limit": limit}, number=1, rounds=15)
    return [
        Figure(
            name=f"operations judged, in {_MANY} histories of {_SIZE} by Hosts that race",
            ours=total / best["ours"],
            unit="operations/s",
            limit=total / best["limit"],
            limit_is="the model asked about each operation once",
            bar=50_000,
            better="higher",
        )
    ]


async def _recorded() -> list[list[Operation]]:
    """The histories that the quick level begins with."""
    store, histories = MemoryStore(), []
    for seed in range(_MANY):
        contest = Contest(store, Script(seed, _SIZE))
        await contest.run()
        histories.append(contest.history)
    return histories
