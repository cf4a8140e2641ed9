"""Recorded histories of one Task each, over the store under test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack

import pytest

from agentic_kernel_engine import Host, Record, Store
from agentic_kernel_engine.events import from_stored

from .contest import STEP, Contest
from .history import Operation, Recorder, View, snapshot, view_from
from .level import Level
from .processes import StoreFactory, worker
from .races import Script
from .rules import RuleError, broken, expect, in_time
from .storage import StoreSuite
from .timeline import expect_linearizable
from .traces import Trace, expect_steps

SIZE = 40
"""How many operations a history has, give or take the ones under way when it is full."""
_AT_ONCE = 8
"""How many histories go on at the same time where each write waits for a disk or a network."""
_PROCESSES = 3


class StoreHistories(StoreSuite):
    """Rules 2 and 7: whatever several hosts do to one Task, some order of it explains it all."""

    @pytest.mark.rule("C2", "C7")
    async def test_what_racing_hosts_were_told_has_one_order(
        self, store: Store, level: Level, conformance_seed: int
    ) -> None:
        """Random histories, biased toward races, each judged as a whole and against the model."""
        many = level.durable_histories if self.features.durable else level.histories
        seeds = iter(range(conformance_seed, conformance_seed + many))
        at_once = _AT_ONCE if self.features.durable else 1

        async def play(seeds: Iterator[int]) -> None:
            for seed in seeds:
                trial = f"trial {seed - conformance_seed + 1} of {many}"
                await judged(Contest(store, Script(seed, SIZE)), trial, self.patience * 6)

        players = [asyncio.create_task(play(seeds)) for _ in range(at_once)]
        _, left = await asyncio.wait(players, return_when=asyncio.FIRST_EXCEPTION)
        for player in left:
            player.cancel()
        await asyncio.gather(*players)

    @pytest.mark.feature("processes")
    @pytest.mark.rule("C2", "C7")
    async def test_what_racing_processes_were_told_has_one_order(
        self, store: Store, factory: StoreFactory, level: Level, conformance_seed: int
    ) -> None:
        """The same with each host in a process of its own; their clock is the machine's."""
        many = level.shared_histories
        seeds = list(range(conformance_seed, conformance_seed + many))
        async with AsyncExitStack() as stack:
            workers = [
                await stack.enter_async_context(
                    worker(factory, "contend", part=n, seeds=seeds, size=SIZE // _PROCESSES)
                )
                for n in range(_PROCESSES)
            ]
            for one in workers:
                expect(await one.said() == "ready", "kit", "a worker did not get ready")
            for seed in seeds:
                about = f"history {seed} of {_PROCESSES} processes, of {many}"
                for one in workers:
                    one.go()
                async with in_time("C2", self.patience * 6, about):
                    said = await asyncio.gather(*(one.said() for one in workers))
                task_id = f"contest-{seed}"
                recorder = Recorder(time.monotonic_ns)
                control = Host(store=store)
                await recorder.call("the last", "kill", None, control.kill(task_id))
                await recorder.call("at the end", "get", None, control.get(task_id), snapshot)
                await control.close()
                history = [Operation.from_json(each) for one in said for each in one["operations"]]
                history += recorder.operations
                given = [
                    (rule, version, view_from(view))
                    for one in said
                    for rule, version, view in one["given"]
                ]
                record = await store.load(task_id)
                await judge(store, record, history, given, None, about)


async def judged(contest: Contest, trial: str, patience: float = 60.0) -> None:
    """Run a contest and judge it.

    Args:
        patience: Seconds after which it is taken to hang; one takes some milliseconds.

    Raises:
        RuleError: What its callers were told, or what it left in the store, is not explained.
    """
    script = contest.script
    about = f"history {script.seed} ({script.race.name}: {script.race.about}), {trial}"
    async with in_time("C2", patience, about):
        record = await contest.run()
    await judge(contest.store, record, contest.history, contest.given, contest.dead, about)


async def judge(
    store: Store,
    record: Record,
    history: Sequence[Operation],
    given: Iterable[tuple[str, int, View]],
    dead: Collection[str] | None,
    about: str,
) -> None:
    """Hold a history, and the trace that it left, against the models.

    Raises:
        RuleError: One of them does not explain it.
    """
    stored = await store.events(record.task.id, limit=1_000_000)
    events = [from_stored(id, text) for id, text in stored]
    try:
        expect_linearizable(history)
        trace = Trace(mortal=dead)
        trace.follow(events)
        for rule, version, view in given:
            trace.expect_seen(version, view, rule)
        trace.expect_left(record)
        expect_steps(events, STEP, record)
    except RuleError as error:
        raise broken(error.rule.name, f"in {about}: {error.seen}") from None
