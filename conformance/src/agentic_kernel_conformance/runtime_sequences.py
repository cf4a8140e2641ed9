"""Random sequences of verbs on any Runtime with its Query, compared with `apply`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentic_kernel import Complete, Fail, Kill, Mutation, Pause, Resume, Task

from .level import Level
from .reading import PAUSED, RUNNING
from .stateful import hold_against_apply
from .system import SystemSuite
from .trials import Trials
from .workbench import Workbench


class RuntimeSequences(SystemSuite):
    """The state table, verb after verb: one caller waits until each pause takes effect."""

    @pytest.mark.random
    @pytest.mark.feature("pauses")
    @pytest.mark.rule("table", "C6", "values")
    async def test_any_sequence_of_verbs_does_what_apply_does(
        self, bench: Workbench, level: Level, trials: Trials
    ) -> None:
        """After each verb, ``get`` and ``get_many`` both return the Task that `apply` made."""
        examples = max(1, level.examples // 4)
        for trial in trials.upto(1):
            with trial:
                trial.operations = await hold_against_apply(
                    SingleCaller(bench), examples, trial.seed, self.patience * 3, bench.extra
                )


class SingleCaller:
    """A `Driver` with one caller of a Runtime."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench

    async def begin(self) -> Task:
        return await self._bench.reader.get(await self._bench.dispatch_running())

    async def perform(self, task_id: str, mutation: Mutation) -> None:
        system, reader = self._bench.system, self._bench.reader
        match mutation:
            case Pause():
                before = await reader.get(task_id)
                await system.pause(task_id)
                if before.status is RUNNING:
                    await reader.until(task_id, PAUSED)
            case Resume(extra):
                await system.resume(task_id, extra)
            case Complete(result):
                await system.complete(task_id, result)
            case Fail(failure):
                await system.fail(task_id, failure)
            case _:
                assert isinstance(mutation, Kill)
                await system.kill(task_id)

    async def read(self, task_id: str) -> Sequence[Task]:
        reader = self._bench.reader
        task = await reader.get(task_id)
        return [task, (await reader.get_many([task_id]))[task_id]]
