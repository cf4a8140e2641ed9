"""Bench: the moves that the plans of `SubstrateContract` are made of."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

from agentic_kernel import CannotStart, Task, TaskStatus
from agentic_kernel_engine import Event
from agentic_kernel_engine.events import from_stored

from .features import SubstrateFeatures
from .level import Level
from .rules import broken, expect
from .substrate_bounds import Bounds
from .substrate_factory import SubstrateFactory
from .substrate_script import Fail, Say, Script
from .substrate_trial import Stop, Trial
from .substrate_verdict import MarkLedger, in_steps
from .substrate_wire import Gone
from .substrate_work import SubstrateWork
from .substrate_world import Worker, World

_results: dict[tuple[SubstrateFactory, type[SubstrateWork]], dict[Script, Any]] = {}
"""Results of scripts that nothing interrupted; each is made once in this process."""
Act = Callable[[Stop], Awaitable[None]]
"""Does something at a stop, and lets the Task go on or ends its worker."""
_P = TypeVar("_P")
_log = logging.getLogger(__name__)
_STOPS: Final = 1_000
"""The most stops of one trial; the longest script has a few hundred."""
_ENOUGH = {"brief": 4, "quick": 10}
"""The most interruptions of one plan, by level; 60 at the level ``full``."""
_SUCCESS, _FAILURE = TaskStatus.SUCCESS, TaskStatus.FAILURE


@dataclass(frozen=True, slots=True)
class Subject:
    """The substrate under test, and what its author says about it."""

    factory: SubstrateFactory
    work: SubstrateWork
    features: SubstrateFeatures
    bounds: Bounds


class Bench:
    """The world of one test, with the moves of its plan.

    Args:
        subject: The substrate under test.
        world: The store, the marks and the workers.
        level: The sizes of the exercises.
        seed: The seed of everything that is random.
    """

    def __init__(self, subject: Subject, world: World, level: Level, seed: int) -> None:
        self.work, self.features, self.bounds = subject.work, subject.features, subject.bounds
        self.world, self.level = world, level
        self.random = Random(seed)
        self.most = _ENOUGH.get(level.name, 60)
        """The most interruptions of one plan."""
        self._results = _results.setdefault((subject.factory, type(subject.work)), {})
        self._orders = set[asyncio.Task[Any]]()

    async def close(self) -> None:
        """End the orders that are still in progress."""
        for order in list(self._orders):
            order.cancel()
        if self._orders:
            await asyncio.wait(list(self._orders))

    def some(self, places: Sequence[_P]) -> list[_P]:
        """Return at most `most` of these places, evenly spread."""
        step = max(1.0, len(places) / self.most)
        return [places[int(at * step)] for at in range(min(self.most, len(places)))]

    async def begin(
        self,
        script: Script,
        worker: Worker | None = None,
        extras: Collection[str] = (),
        *,
        stepwise: bool = False,
        twin: Trial | None = None,
    ) -> Trial:
        """Dispatch a Task of a script in a worker, or in a new one; these extras may follow.

        Args:
            stepwise: True to stop before and after each commit, too.
            twin: A trial of the same script that goes on at the same time.
        """
        trial = self.world.trial(script, self.work.task(script), extras, twin)
        trial.stepwise = stepwise
        await (worker or await self.world.worker()).dispatch(trial.given)
        return trial

    async def play(self, trial: Trial, act: Act | None = None) -> Task:
        """Answer every stop until the Task has ended; then judge the trial.

        Args:
            act: Called at each stop before the end; None to let the Task go on at each.
        """
        for _ in range(_STOPS):
            stop = await trial.next()
            if stop.what == "ended":
                break
            if stop.what == "mark":
                MarkLedger(trial, self.bounds)  # A mark that comes again and again ends the trial.
            if act is None:
                stop.go()
            else:
                await act(stop)
        else:
            raise broken("progress", f"the Task did not end in {_STOPS} stops\n{trial.story()}")
        trial.let_all_go()
        await self.judge(trial)
        return trial.task

    async def crash(self, trial: Trial, stop: Stop, *, made: bool = False) -> Worker:
        """Kill the worker that waits at a stop, and start another one.

        Args:
            made: True if the mark of the stop happens, although its answer is lost.
        """
        assert stop.worker is not None
        if made:
            trial.made(stop)
        trial.tell("crashed", worker=stop.worker)
        await stop.worker.kill()
        worker = await self.world.worker()
        self._order(worker, "claim", trial.task_id)
        return worker

    async def drain(self, trial: Trial, stop: Stop) -> Worker:
        """Let the worker of a stop let go at its next safe point, and start another one."""
        assert stop.worker is not None
        trial.tell("drained", worker=stop.worker)
        self._order(stop.worker, "drain", self.world.patience)
        await stop.worker.call("pulse")
        return await self.world.worker()

    def _order(self, worker: Worker, name: str, *arguments: Any) -> None:
        """Give a worker an order whose end may need the kit's answer at a stop."""
        order = asyncio.create_task(worker.call(name, *arguments))
        self._orders.add(order)
        order.add_done_callback(self._done)

    def _done(self, order: asyncio.Task[Any]) -> None:
        self._orders.discard(order)
        fault = None if order.cancelled() else order.exception()
        if fault is not None and not isinstance(fault, (Gone, CannotStart)):
            _log.error("an order to a worker failed: %s", fault)

    async def pause(self, trial: Trial, stop: Stop) -> None:
        """Ask for a pause while the Task waits at a stop."""
        trial.tell("pause", stop.name if stop.what == "mark" else "")
        await self.world.control.pause(trial.task_id)

    async def resume_in(self, worker: Worker, trial: Trial) -> None:
        """Resume the Task in a worker."""
        trial.tell("resumed", worker=worker)
        await worker.call("resume", trial.task_id)

    async def resume(self, trial: Trial, extra: str | None = None) -> None:
        """Resume the Task; with an extra that makes the work mark this token."""
        trial.tell("resumed", extra or "")
        if extra is None:
            await self.world.control.resume(trial.task_id)
        else:
            trial.extras.append(extra)
            await self.world.control.resume(trial.task_id, self.work.extra(extra))

    async def kill(self, trial: Trial) -> None:
        """Kill the Task."""
        trial.tell("killed")
        await self.world.control.kill(trial.task_id)

    async def until(self, trial: Trial, token: str, rule: str = "progress") -> Stop:
        """Let the Task go on until it waits at this mark.

        Args:
            rule: The rule that is broken if the Task ends before.
        """
        while True:
            stop = await trial.next()
            if stop.what == "mark" and stop.name == token:
                return stop
            if stop.what == "ended":
                await self.judge(trial)
                raise broken(rule, f"the Task ended before the mark {token}\n{trial.story()}")
            stop.go()

    async def paused(self, trial: Trial) -> None:
        """Let the Task go on until it is paused."""
        while True:
            stop = await trial.next("safe")
            if stop.what == "paused":
                return
            expect(
                stop.what != "ended",
                "safe",
                f"a pause was asked for, and the Task ended\n{trial.story()}",
            )
            stop.go()

    async def events(self, trial: Trial) -> list[Event]:
        """Return all durable events of the Task."""
        found = await self.world.store.events(trial.task_id, limit=100_000)
        return [from_stored(cursor, text) for cursor, text in found]

    async def judge(self, trial: Trial) -> None:
        """Raise if the trial broke a rule."""
        task, events = trial.task, await self.events(trial)
        if trial.record is not None and task.status is TaskStatus.CANCELLED:
            return
        ledger = MarkLedger(trial, self.bounds)
        reported = list(self.work.indeterminate(task, events))
        ledger.judge(reported, whole=task.status is _SUCCESS)
        if self.features.pauses:
            in_steps(trial, self.bounds)
        known = any(token in text for token in ledger.uncertain for text in reported)
        failing = any(isinstance(step, Fail) for step in trial.script)
        if task.status is _FAILURE and not failing and not known:
            assert task.failure is not None
            raise broken(
                "result",
                f"the work has no step that fails, and the Task ended in failure "
                f"{task.failure.code}: {task.failure.message:.500}\n{trial.story()}",
            )
        if task.status is _SUCCESS:
            self._said(trial, task, events)

    def _said(self, trial: Trial, task: Task, events: list[Event]) -> None:
        if not self.features.keeps_output:
            return
        output = self.work.output(task, events)
        for step in trial.script:
            if isinstance(step, Say) and step.text not in output:
                raise broken(
                    "output",
                    f"the work said {step.text!r}, and the Task's output has it no more: "
                    f"{output[-500:]!r}\n{trial.story()}",
                )

    async def plain(self, script: Script) -> Any:
        """Return the result of a script that nothing interrupts."""
        if script not in self._results:
            worker = await self.world.worker()
            trial = await self.begin(script, worker)
            task = await self.play(trial)
            await worker.kill()
            self._results[script] = task.result
        return self._results[script]

    async def compare(self, trial: Trial) -> None:
        """Raise if a Task that was interrupted has another result than one that was not."""
        task, events = trial.task, await self.events(trial)
        if task.status is not _SUCCESS or self.work.indeterminate(task, events):
            return
        expected = await self.plain(trial.script)
        expect(
            self.work.same(expected, task.result),
            "result",
            f"without an interruption the result is {expected!r:.500}, and with them it is "
            f"{task.result!r:.500}\n{trial.story()}",
        )


@asynccontextmanager
async def bench(subject: Subject, level: Level, patience: float, seed: int) -> AsyncIterator[Bench]:
    """Make the bench of one plan, with a world of its own."""
    with TemporaryDirectory(prefix="conformance-", ignore_cleanup_errors=True) as folder:
        async with World(subject.factory, subject.bounds, patience, Path(folder)) as world:
            made = Bench(subject, world, level, seed)
            try:
                yield made
            finally:
                await made.close()
