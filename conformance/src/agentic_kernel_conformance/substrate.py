"""SubstrateContract: the contract of an author of ``execute(job)``. Needs the engine.

A third party subclasses it and supplies two fixtures::

    class TestAcmeSubstrate(SubstrateContract):
        features = SubstrateFeatures(marks=True, pauses=True, fails=True)
        bounds = Bounds(after_crash="repeated")

        @pytest.fixture
        def factory(self):
            return "acme.runtime:make_substrate"    # called in each worker process

        @pytest.fixture
        def work(self):
            return AcmeWork()                       # a SubstrateWork: a script becomes a Task

The tests run the substrate in worker processes, which the kit kills, pauses and lets race. Each
test makes its Tasks by ``work.task(script)``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import pytest

from agentic_kernel import TaskStatus

from . import (
    substrate_crashes as crashes,
)
from . import (
    substrate_kills as kills,
)
from . import (
    substrate_pauses as pauses,
)
from . import (
    substrate_tasks as tasks,
)
from .contract import Contract, supplied
from .features import SubstrateFeatures
from .level import Level
from .rules import RuleError, broken
from .substrate_bench import Bench, Subject, bench
from .substrate_bounds import Bounds
from .substrate_factory import SubstrateFactory
from .substrate_honest import HonestWork
from .substrate_left import CAN_LOOK
from .substrate_random import random_history
from .substrate_script import Say
from .substrate_work import SubstrateWork
from .trials import Trials
from .work import RefusingWork

Plan = Callable[[Bench], Awaitable[None]]
"""One exercise; it raises a `RuleError` if the substrate broke a rule."""
_RANDOM = {"brief": 1, "quick": 6}
"""The random histories of a level; 500 at the level ``full``."""
_HONEST = SubstrateFactory(f"{__package__}.substrate_honest:make")


class SubstrateContract(Contract):
    """Tests of a substrate's ``execute``, in processes that the kit kills.

    Fixtures: ``factory`` (``"package.module:name"`` or a `SubstrateFactory`) and ``work`` (a
    `SubstrateWork`). Features: `SubstrateFeatures`. The declared numbers: ``bounds``.

    If a test fails, the same plan runs with the kit's own substrate. If that fails too, the error
    says that the fault is the kit's or the Host's.
    """

    contract = "SubstrateContract"
    features: ClassVar[SubstrateFeatures] = SubstrateFeatures()
    bounds: ClassVar[Bounds] = Bounds()
    """The bounds that the substrate declares: an attribute of the class, not a fixture."""
    fixtures = frozenset({"factory", "work", "bounds"})

    factory: Any = supplied("factory")
    """The place from which each worker process gets the substrate. Supplied by the adapter."""
    work: Any = supplied("work")
    """A `SubstrateWork`. Supplied by the adapter."""

    @pytest.fixture
    def prove(
        self, factory: str | SubstrateFactory, work: SubstrateWork, level: Level
    ) -> Callable[..., Awaitable[None]]:
        """Run a plan with the substrate; if it fails, run it with the kit's own."""
        features, bounds, patience = self.features, self.bounds, self.patience
        if not isinstance(bounds, Bounds):
            raise broken(
                "kit",
                f"`bounds` is a {type(bounds).__name__}, and must be an attribute of the class, "
                "not a fixture: for example `bounds = Bounds(growth=64)`",
            )
        subject = Subject(SubstrateFactory.of(factory), work, features, bounds)

        async def run(plan: Plan, seed: int = 0) -> None:
            try:
                async with bench(subject, level, patience, seed) as theirs:
                    await plan(theirs)
            except RuleError as found:
                if found.rule.name == "kit":
                    raise
                own = Subject(_HONEST, HonestWork(), features, bounds)
                try:
                    async with bench(own, level, patience, seed) as ours:
                        await plan(ours)
                except RuleError as fault:
                    raise broken(
                        "kit",
                        "the kit's own substrate breaks the same rule, so the fault is the kit's "
                        f"or the Host's: {fault.seen}",
                    ) from found
                raise

        return run

    @pytest.mark.rule("kit")
    async def test_the_fixtures_are_what_they_should_be(
        self, factory: str | SubstrateFactory, work: SubstrateWork
    ) -> None:
        """`work` makes fresh Tasks; features that need others, or a method, have them."""
        if not isinstance(work, SubstrateWork):
            raise broken("kit", f"`work` is a {type(work).__name__}, no SubstrateWork")
        if not isinstance(factory, (str, SubstrateFactory)):
            raise broken(
                "kit",
                f"`factory` is a {type(factory).__name__}; it must be 'package.module:name' or a "
                "SubstrateFactory, because each worker process calls it",
            )
        SubstrateFactory.of(factory)
        if self.features.refuses and not isinstance(work, RefusingWork):
            raise broken("kit", "refuses is open, but `work` has no method `refused`")
        for feature, needed in (("pauses", "marks"), ("hears", "pauses")):
            if self.features.is_open(feature) and not self.features.is_open(needed):
                raise broken("kit", f"{feature} is open, which needs {needed}")
        one, other = work.task((Say("a"),)), work.task((Say("a"),))
        if one.id == other.id:
            raise broken("kit", "`work.task` made two Tasks with the same id")
        if one.status is not TaskStatus.NOT_STARTED:
            raise broken("kit", f"`work.task` made a Task that is {one.status}")

    @pytest.mark.rule("progress")
    @pytest.mark.rule("result")
    async def test_every_step_is_done_once_and_in_order(self, prove: Any) -> None:
        """Without an interruption; and the same script gives the same result twice."""
        await prove(tasks.every_step_once)

    @pytest.mark.rule("outcome")
    @pytest.mark.feature("fails")
    async def test_work_that_fails_makes_a_task_that_fails(self, prove: Any) -> None:
        """With a code of the substrate's own; no later step is done; the next Task succeeds."""
        await prove(tasks.failing_work)

    @pytest.mark.rule("outcome")
    @pytest.mark.feature("marks")
    async def test_an_effect_that_failed_is_not_taken_for_done(self, prove: Any) -> None:
        """A mark is refused: the Task fails, tries again, or has another result."""
        await prove(tasks.failing_mark)

    @pytest.mark.rule("edges")
    @pytest.mark.feature("refuses")
    async def test_a_refusal_leaves_no_trace(self, prove: Any) -> None:
        """`accept` refuses: no record, no process, no file."""
        await prove(tasks.refusals)

    @pytest.mark.rule("held")
    @pytest.mark.feature("marks")
    async def test_the_event_loop_runs_while_the_work_waits(self, prove: Any) -> None:
        """While each mark waits the loop answers; a watchdog prints the stack that holds it."""
        await prove(tasks.free_loop)

    @pytest.mark.rule("safe")
    @pytest.mark.rule("progress")
    @pytest.mark.rule("result")
    @pytest.mark.rule("output")
    @pytest.mark.feature("pauses")
    async def test_a_pause_at_any_mark_takes_effect_and_changes_nothing(self, prove: Any) -> None:
        """Within the declared steps; no step is repeated or skipped; the result is the same."""
        await prove(pauses.pause_at_every_mark)

    @pytest.mark.rule("progress")
    @pytest.mark.rule("result")
    @pytest.mark.rule("output")
    @pytest.mark.feature("pauses")
    async def test_a_pause_at_any_commit_changes_nothing(self, prove: Any) -> None:
        """A pause is asked for before each commit lands: no step is repeated or skipped."""
        await prove(pauses.pause_at_every_commit)

    @pytest.mark.rule("progress")
    @pytest.mark.rule("result")
    @pytest.mark.feature("pauses")
    async def test_a_task_that_comes_back_goes_on_from_its_last_commit(self, prove: Any) -> None:
        """Two processes run the Task in turns: neither goes on from what it remembers."""
        await prove(pauses.there_and_back)

    @pytest.mark.rule("extras")
    @pytest.mark.feature("pauses")
    async def test_extras_reach_the_work_in_order_or_not_at_all(self, prove: Any) -> None:
        """With `hears` each is heard once, equal ones too; without it none changes the result."""
        await prove(pauses.extras)

    @pytest.mark.rule("extras")
    @pytest.mark.rule("once")
    @pytest.mark.feature("hears")
    async def test_a_crash_loses_no_extra(self, prove: Any) -> None:
        """The process dies while an extra's mark waits."""
        await prove(pauses.extras_and_crashes)

    @pytest.mark.rule("once")
    @pytest.mark.rule("progress")
    @pytest.mark.rule("result")
    @pytest.mark.feature("marks")
    async def test_a_crash_before_an_effect_skips_nothing_unsaid(self, prove: Any) -> None:
        """The process dies while each mark waits, and the mark does not happen."""
        await prove(crashes.crash_before_marks)

    @pytest.mark.rule("once")
    @pytest.mark.rule("progress")
    @pytest.mark.rule("result")
    @pytest.mark.feature("marks")
    async def test_a_crash_after_an_effect_repeats_nothing_unsaid(self, prove: Any) -> None:
        """The process dies when each mark has happened, before its answer arrives."""
        await prove(crashes.crash_after_marks)

    @pytest.mark.rule("once")
    @pytest.mark.rule("progress")
    @pytest.mark.rule("result")
    @pytest.mark.rule("output")
    async def test_a_crash_at_any_commit_keeps_what_was_committed(self, prove: Any) -> None:
        """The process dies before each commit lands, and after, before it is acknowledged."""
        await prove(crashes.crash_at_commits)

    @pytest.mark.rule("once")
    @pytest.mark.rule("progress")
    @pytest.mark.rule("result")
    @pytest.mark.feature("marks")
    async def test_another_process_goes_on_where_one_let_go(self, prove: Any) -> None:
        """A worker is drained while each mark waits; nothing is done again."""
        await prove(crashes.take_over_at_every_mark)

    @pytest.mark.rule("once")
    @pytest.mark.feature("marks")
    async def test_a_process_that_lost_the_task_begins_nothing_more(self, prove: Any) -> None:
        """Its lease ends while it works, and another process takes the Task."""
        await prove(crashes.expire_at_a_mark)

    @pytest.mark.rule("clause1")
    @pytest.mark.feature("marks")
    async def test_two_tasks_at_once_do_not_mix(self, prove: Any) -> None:
        """Of one script and of two, in one process, step by step in turns; then one is killed."""
        await prove(tasks.two_at_once)
        await prove(tasks.twins)

    @pytest.mark.rule("small")
    async def test_the_state_is_small_and_does_not_grow(self, prove: Any) -> None:
        """Of a script with 18 steps, within the declared bounds."""
        await prove(tasks.small_states)

    @pytest.mark.rule("unwind")
    @pytest.mark.rule("output")
    @pytest.mark.feature("marks")
    async def test_a_kill_at_any_mark_leaves_nothing_running(self, prove: Any) -> None:
        """No process, thread, socket or asyncio task; and the output from before is kept."""
        _can_look()
        await prove(kills.kill_at_every_mark)

    @pytest.mark.rule("unwind")
    @pytest.mark.rule("extras")
    @pytest.mark.feature("hears")
    async def test_a_kill_at_an_extra_leaves_nothing_running(self, prove: Any) -> None:
        """And no mark is begun for another extra that waits."""
        _can_look()
        await prove(kills.kill_at_every_extra)

    @pytest.mark.rule("clean")
    @pytest.mark.feature("marks")
    async def test_a_task_that_ended_leaves_nothing_behind(self, prove: Any) -> None:
        """After a success, a failure and a pause the process is as before."""
        _can_look()
        await prove(kills.leave_nothing)

    @pytest.mark.random(2)
    @pytest.mark.rule("once")
    @pytest.mark.rule("progress")
    @pytest.mark.rule("result")
    async def test_any_history_of_interruptions(
        self, prove: Any, trials: Trials, level: Level
    ) -> None:
        """A random script of up to six steps, with up to six crashes, pauses and take-overs."""
        for trial in trials.upto(_RANDOM.get(level.name, 500)):
            with trial:
                trial.operations = 1
                await prove(random_history, trial.seed)


def _can_look() -> None:
    if not CAN_LOOK:
        pytest.skip("unproven: this system does not show the processes of others in /proc")
