"""ToolSchedulerContract: the duties of a ToolScheduler to the batches that it runs.

Needs the engine. A test decides when each of its calls goes on; no test waits for a fixed time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, Final

import pytest

from agentic_kernel_engine.loop import Observation
from agentic_kernel_engine.seams import ToolScheduler

from .contract import Contract, supplied
from .features import ToolSchedulerFeatures
from .rules import RuleError, broken, expect, in_time
from .unwinding import give_up, nothing_left

SIZES: Final = (0, 1, 2, 3, 9, 40)
"""The numbers of calls in the batches; 40 is more than most schedulers run at once."""
_TURNS: Final = 30
"""Turns of the event loop after which a call that can begin has begun."""
_UNWINDING: Final = 5
"""Turns of the event loop that a call takes to end after it was cancelled."""
_WHO: ContextVar[str] = ContextVar("who", default="")

Call = Callable[[], Coroutine[Any, Any, Observation]]


class Batch:
    """Calls that record when they begin and end.

    Args:
        concurrent: For each call, True if it may run beside others.
        steps: For each call, the turns of the event loop that it takes.
    """

    def __init__(self, concurrent: Sequence[bool], steps: Sequence[int] = ()) -> None:
        self.concurrent = list(concurrent)
        self.given = [Observation(n, tool=f"tool-{n}") for n in range(len(concurrent))]
        self.begun: list[int] = []
        self.running: set[int] = set()
        self.beside: set[int] = set()
        """The calls that ran while another call ran."""
        self.places: set[tuple[int, asyncio.AbstractEventLoop, str]] = set()
        """The thread, the event loop and the caller's context of each call."""
        self.gate = asyncio.Event()
        """A call that has no steps left waits for it."""
        self.gate.set()
        self.ended = asyncio.Event()
        """Set when all calls have ended."""
        self._steps = steps or [n % 3 for n in range(len(concurrent))]
        self.calls: list[Call] = [self._made(n) for n in range(len(concurrent))]

    def _made(self, n: int) -> Call:
        def call() -> Coroutine[Any, Any, Observation]:
            self.begun.append(n)
            return self._run(n)

        return call

    async def _run(self, n: int) -> Observation:
        self.running.add(n)
        if len(self.running) > 1:
            self.beside |= self.running
        self.places.add((threading.get_ident(), asyncio.get_running_loop(), _WHO.get()))
        try:
            for _ in range(self._steps[n]):
                await asyncio.sleep(0)
            await self.gate.wait()
            return self.given[n]
        except asyncio.CancelledError:
            for _ in range(_UNWINDING):
                await asyncio.sleep(0)
            raise
        finally:
            self.running.discard(n)
            if not self.running:
                self.ended.set()


class ToolSchedulerContract(Contract):
    """A scheduler runs each call of a batch once, and gives their observations in order.

    Fixture: ``scheduler``. Features: `ToolSchedulerFeatures`.
    """

    contract: ClassVar[str] = "ToolSchedulerContract"
    features: ClassVar[ToolSchedulerFeatures] = ToolSchedulerFeatures()
    fixtures = frozenset({"scheduler"})

    scheduler: Any = supplied("scheduler")
    """The `ToolScheduler` under test. Supplied by the adapter."""

    @pytest.mark.rule("kit")
    def test_the_fixture_is_a_scheduler(self, scheduler: ToolScheduler) -> None:
        """It has a ``run``."""
        found = callable(getattr(scheduler, "run", None)) and not isinstance(scheduler, type)
        expect(found, "kit", f"{scheduler!r:.100} has no `run`")

    @pytest.mark.rule("batch")
    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize("shape", ["all beside", "all alone", "mixed", "mixed otherwise"])
    async def test_each_observation_has_the_place_of_its_call(
        self, scheduler: ToolScheduler, size: int, shape: str
    ) -> None:
        """Calls end in another order than they begin; the very objects come back, one for each."""
        batch = Batch(_flags(size, shape), [(size - n) % 7 for n in range(size)])
        await self._done(scheduler, batch)

    @pytest.mark.rule("batch")
    @pytest.mark.parametrize("size", [2, 3, 9])
    @pytest.mark.parametrize("shape", ["all alone", "mixed", "mixed otherwise"])
    async def test_a_call_that_must_run_alone_runs_beside_no_other(
        self, scheduler: ToolScheduler, size: int, shape: str
    ) -> None:
        """A call that may run beside others is no exception: it waits, too."""
        for steps in ([n % 4 for n in range(size)], [5 - n % 4 for n in range(size)]):
            batch = Batch(_flags(size, shape), steps)
            await self._done(scheduler, batch)
            wrong = sorted(n for n in batch.beside if not batch.concurrent[n])
            expect(not wrong, "batch", f"of {batch.concurrent}, the calls {wrong} had company")

    @pytest.mark.rule("batch")
    @pytest.mark.parametrize("size", [1, 3])
    async def test_a_call_runs_where_its_batch_runs(
        self, scheduler: ToolScheduler, size: int
    ) -> None:
        """On the same event loop, in the same thread, with the context variables of the caller."""
        batch = Batch([True] * size)
        token = _WHO.set("the caller")
        try:
            await self._done(scheduler, batch)
        finally:
            _WHO.reset(token)
        here = {(threading.get_ident(), asyncio.get_running_loop(), "the caller")}
        expect(batch.places == here, "batch", f"{size} calls ran in {batch.places!a:.300}")

    @pytest.mark.rule("batch")
    @pytest.mark.feature("parallel")
    async def test_two_calls_that_may_run_beside_others_do(self, scheduler: ToolScheduler) -> None:
        """Each of the two goes on after both have begun."""
        both = asyncio.Barrier(2)

        async def call(n: int) -> Observation:
            await both.wait()
            return Observation(n)

        calls: list[Call] = [lambda: call(0), lambda: call(1)]
        async with in_time("batch", self.patience, "two calls that wait for each other"):
            found = await scheduler.run(calls, [True, True])
        expect([each.output for each in found] == [0, 1], "batch", f"they gave {found!a:.200}")

    @pytest.mark.rule("context")
    async def test_a_batch_is_read_and_not_changed(self, scheduler: ToolScheduler) -> None:
        """The calls and the flags belong to the Loop, which goes on with them."""
        batch = Batch(_flags(9, "mixed"))
        calls, flags = list(batch.calls), list(batch.concurrent)
        await self._done(scheduler, batch)
        same = batch.calls == calls and batch.concurrent == flags
        expect(same, "context", f"of 9 calls there are {len(batch.calls)}, {batch.concurrent}")
        frozen = Batch(flags)
        async with in_time("batch", self.patience, "a batch of tuples"):
            found = await scheduler.run(tuple(frozen.calls), tuple(flags))
        expect(list(found) == frozen.given, "batch", f"tuples gave {found!a:.200}")

    @pytest.mark.rule("apart")
    async def test_batches_at_the_same_time_do_not_mix(self, scheduler: ToolScheduler) -> None:
        """Several Tasks share one scheduler, and one Task's calls do not wait for another's."""
        held = Batch([True, True, False])
        held.gate.clear()
        hanging = asyncio.create_task(scheduler.run(held.calls, held.concurrent))
        try:
            await _turns(_TURNS)
            several = [Batch(_flags(size, "mixed")) for size in (3, 9, 40)]
            async with in_time("apart", self.patience, "batches beside one that hangs"):
                found = await asyncio.gather(
                    *(scheduler.run(each.calls, each.concurrent) for each in several)
                )
            for batch, given in zip(several, found, strict=True):
                self._expect_whole(batch, given, "apart")
        finally:
            held.gate.set()
            async with in_time("apart", self.patience, "the batch that hung"):
                self._expect_whole(held, await hanging, "apart")

    @pytest.mark.rule("batch", "apart")
    async def test_a_batch_is_run_as_the_one_before_it(self, scheduler: ToolScheduler) -> None:
        """One scheduler runs all batches of a Loop."""
        for size in (3, 9, 1, 40, 2):
            await self._done(scheduler, Batch(_flags(size, "mixed")))

    @pytest.mark.rule("unwind")
    @pytest.mark.parametrize("shape", ["all beside", "all alone", "mixed", "mixed otherwise"])
    @pytest.mark.parametrize("size", [1, 4, 20])
    async def test_no_call_outlives_a_batch_that_is_cancelled(
        self, scheduler: ToolScheduler, shape: str, size: int
    ) -> None:
        """The calls need several turns of the event loop to end; no further call is begun."""
        for impatient in (False, True):
            batch = Batch(_flags(size, shape))
            batch.gate.clear()
            async with nothing_left("a batch that was cancelled"):
                running = asyncio.create_task(scheduler.run(batch.calls, batch.concurrent))
                await _turns(_TURNS)
                begun = len(batch.begun)
                expect(begun > 0, "batch", f"no call of {size} has begun")
                running.cancel()
                if impatient:  # As a kill after a timeout.
                    await _turns(1)
                    running.cancel()
                await asyncio.wait([running], timeout=self.patience)
                left = sorted(batch.running)
                expect(running.done(), "unwind", "a batch that was cancelled did not end")
                expect(not left, "unwind", f"the batch has ended, and the calls {left} have not")
                expect(running.cancelled(), "unwind", _how(running))
            more = len(batch.begun) - begun
            expect(more == 0, "unwind", f"{more} calls were begun after the cancellation")

    @pytest.mark.rule("unwind")
    async def test_a_batch_can_be_given_up_at_any_await(self, scheduler: ToolScheduler) -> None:
        """The scheduler runs the next batch as before."""

        async def run() -> None:
            batch = Batch(_flags(9, "mixed"), [2] * 9)
            await scheduler.run(batch.calls, batch.concurrent)

        await give_up(run, self.patience, "a batch")
        await self._done(scheduler, Batch(_flags(9, "mixed")))

    @pytest.mark.rule("batch", "unwind")
    @pytest.mark.parametrize("shape", ["all beside", "all alone"])
    async def test_a_call_that_raises_is_not_taken_for_an_observation(
        self, scheduler: ToolScheduler, shape: str
    ) -> None:
        """A kill raises in a call; the exception reaches the Loop, and no other call goes on."""
        batch = Batch(_flags(3, shape), [3, 3, 3])

        async def fail() -> Observation:
            await asyncio.sleep(0)
            raise _Killed

        calls: list[Call] = [batch.calls[0], fail, batch.calls[2]]
        async with nothing_left("a batch with a call that raised"):
            async with in_time("batch", self.patience, "a batch with a call that raises"):
                try:
                    found: object = await scheduler.run(calls, batch.concurrent)
                except BaseExceptionGroup as error:
                    raise broken("batch", f"a call raised one error, and {error!r:.200}") from error
                except _Killed:
                    found = None
            expect(found is None, "batch", f"a call raised, and the batch gave {found!a:.200}")
            expect(not batch.running, "unwind", "a call raised, and the others go on")

    async def _done(self, scheduler: ToolScheduler, batch: Batch) -> None:
        async with in_time("batch", self.patience, f"a batch of {len(batch.calls)} calls"):
            try:
                found = await scheduler.run(batch.calls, batch.concurrent)
            except RuleError:
                raise
            except Exception as error:
                raise broken("batch", f"{len(batch.calls)} calls: raised {error!r:.200}") from error
        self._expect_whole(batch, found, "batch")

    def _expect_whole(self, batch: Batch, found: Any, rule: str) -> None:
        size = len(batch.given)
        expect(isinstance(found, list), rule, f"a batch gave a {type(found).__name__}, no list")
        right = len(found) == size and all(a is b for a, b in zip(found, batch.given, strict=False))
        expect(right, rule, f"{size} calls gave {found!a:.300}, not {batch.given!a:.300}")
        once = sorted(batch.begun) == list(range(size))
        expect(once, rule, f"of {size} calls these were begun: {sorted(batch.begun)}")
        expect(not batch.running, rule, f"the batch ended before the calls {sorted(batch.running)}")


class _Killed(Exception):
    """The error of a call that raises."""


def _flags(size: int, shape: str) -> list[bool]:
    if shape.startswith("all"):
        return [shape == "all beside"] * size
    return [(n % 3 != 1) is (shape == "mixed") for n in range(size)]


def _how(task: asyncio.Task[Any]) -> str:
    error = None if task.cancelled() else task.exception()
    came = f"raised {error!r:.200}" if error is not None else "gave a result"
    return f"a batch that was cancelled {came}"


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
