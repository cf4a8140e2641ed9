"""Recorded random histories of one Task each, over the store under test."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from itertools import count

import pytest

from agentic_kernel_engine import Store

from .contest import Contest
from .judgement import judged, together
from .level import Level
from .parts import Part, contend
from .processes import StoreFactory, worker
from .races import Script
from .rules import broken, expect, in_time
from .storage import StoreSuite
from .threads import in_threads, taking_turns_often
from .trials import Trials

SIZE = 40
"""The number of operations after which a history ends; operations under way are added."""
_AT_ONCE = 8
"""The number of concurrent histories if each write waits for a disk or a network."""
_PARTS = 3
"""The number of processes or threads that take part in one history."""
_KEPT = 500
"""Prune ended Tasks once in so many trials, so that a campaign of hours fits into memory."""


class StoreHistories(StoreSuite):
    """C2 (mutators serialise) and C7 (happens-before): one order explains all answers."""

    @pytest.mark.random(weight=10)
    @pytest.mark.rule("C2", "C7")
    async def test_what_racing_hosts_were_told_has_one_order(
        self, store: Store, level: Level, trials: Trials
    ) -> None:
        """Random histories, biased toward races; each is judged as a whole and by the model."""
        many = level.durable_histories if self.features.durable else level.histories
        at_once = _AT_ONCE if self.features.durable else 1
        drawn, begun = trials.upto(many), dict[int, datetime]()

        async def play() -> None:
            for trial in drawn:
                begun[trial.seed] = datetime.now(UTC)
                with trial:
                    contest = Contest(store, Script(trial.seed, SIZE))
                    await judged(contest, trial.about, self.patience * 6)
                    trial.operations = len(contest.history)
                del begun[trial.seed]
                await _made_room(store, trial.seed, min(begun.values(), default=datetime.now(UTC)))

        players = [asyncio.create_task(play()) for _ in range(at_once)]
        _, left = await asyncio.wait(players, return_when=asyncio.FIRST_EXCEPTION)
        for player in left:
            player.cancel()
        await asyncio.gather(*players)

    @pytest.mark.random
    @pytest.mark.feature("processes")
    @pytest.mark.rule("C2", "C7")
    async def test_what_racing_processes_were_told_has_one_order(
        self, store: Store, factory: StoreFactory, level: Level, trials: Trials
    ) -> None:
        """The same with each host in its own process; the processes share the machine's clock."""
        async with AsyncExitStack() as stack:
            workers = [
                await stack.enter_async_context(
                    worker(factory, "contend", part=n, size=SIZE // _PARTS)
                )
                for n in range(_PARTS)
            ]
            for one in workers:
                expect(await one.said() == "ready", "kit", "a worker did not get ready")
            for trial in trials.upto(level.shared_histories):
                with trial:
                    about = f"history {trial.seed} of {_PARTS} processes, {trial.about}"
                    for one in workers:
                        one.go(trial.seed)
                    async with in_time("C2", self.patience * 6, about):
                        said = await asyncio.gather(*(one.said() for one in workers))
                    parts = [Part.from_json(each) for each in said]
                    trial.operations = await together(
                        store, trial.seed, parts, time.monotonic_ns, about
                    )
                await _made_room(store, trial.seed, datetime.now(UTC))

    @pytest.mark.random
    @pytest.mark.feature("threads")
    @pytest.mark.rule("C2", "C7")
    async def test_what_racing_threads_were_told_has_one_order(
        self, store: Store, level: Level, trials: Trials
    ) -> None:
        """The same with each host in its own thread; all threads share one store object."""
        for trial in trials.upto(level.shared_histories):
            about = f"history {trial.seed} of {_PARTS} threads, {trial.about}"
            clock = count().__next__
            jobs = [
                partial(contend, store, trial.seed, part, SIZE // _PARTS, clock)
                for part in range(_PARTS)
            ]
            with trial:
                try:
                    with taking_turns_often():
                        parts = await in_threads(jobs, self.patience * 6)
                except Exception as error:
                    raise broken("C2", f"in {about}: a host raised {error!r:.200}") from error
                trial.operations = await together(store, trial.seed, parts, clock, about)
            await _made_room(store, trial.seed, datetime.now(UTC))


async def _made_room(store: Store, seed: int, now: datetime) -> None:
    """Once in `_KEPT` seeds, prune Tasks that ended before ``now``.

    The caller passes a time at which no history that is under way had begun.
    """
    if seed % _KEPT == 0:
        await store.prune(now, 2 * _KEPT)
