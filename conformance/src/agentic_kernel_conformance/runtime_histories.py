"""Recorded random histories of one Task each, on any Runtime with its Query."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentic_kernel import Failure, Task

from .history import Recorder, View, snapshot, succeeded_with, view_of
from .level import Level
from .races import Script
from .reading import SUCCESS, Reader
from .rules import RuleError, broken, in_time
from .system import SystemSuite
from .timeline import expect_linearizable
from .trials import Trials
from .workbench import Workbench

_SIZE = 40
_CALLERS = 4


class RuntimeHistories(SystemSuite):
    """C2 (mutators serialise) and C7 (happens-before): one order explains all answers."""

    @pytest.mark.random
    @pytest.mark.rule("C2", "C7")
    async def test_what_racing_callers_saw_has_one_order(
        self, bench: Workbench, level: Level, trials: Trials
    ) -> None:
        """A pause may take effect at any time after its request; the state table rules the rest."""
        for trial in trials.upto(level.shared_histories):
            with trial:
                about = f"history {trial.seed}, {trial.about}"
                contest = RuntimeContest(bench, Script(trial.seed, _SIZE))
                async with in_time("C2", self.patience * 6, about):
                    await contest.run()
                trial.operations = len(contest.recorder)
                try:
                    expect_linearizable(contest.recorder.operations)
                except RuleError as error:
                    raise broken(error.rule.name, f"in {about}: {error.seen}") from None


class RuntimeContest:
    """One history on a Runtime.

    Args:
        bench: The Runtime and Query, and Tasks for it.
        script: The plan of the history.
    """

    def __init__(self, bench: Workbench, script: Script) -> None:
        self.recorder = Recorder()
        self._bench = bench
        self._script = script
        makes = (bench.work.run_until_stopped, bench.work.pass_safe_points)
        self._task: Task = makes[script.seed % len(makes)]()
        self._offered: set[str] = set()

    async def run(self) -> None:
        """Play the history, then kill the Task and read it once more."""
        # The run may end the Task at any time. Only the last read shows if it did.
        end = self.recorder.begin("its run", "complete")
        await self.recorder.call("caller 0", "dispatch", None, self._bench.dispatch(self._task))
        readers = [self._bench.another_reader() for _ in range(_CALLERS)]
        await asyncio.gather(*(self._caller(n, reader) for n, reader in enumerate(readers)))
        await self._do("caller 0", "kill", None, self._bench.system.kill(self._task.id))
        final = await self._read("caller 0", readers[0])
        if final[0] is SUCCESS and final[2] not in self._offered:
            self.recorder.amend(end, final[2])
        else:
            self.recorder.drop(end)

    async def _caller(self, number: int, reader: Reader) -> None:
        name, script, system = f"caller {number}", self._script, self._bench.system
        task_id = self._task.id
        while len(self.recorder) < _SIZE:
            for _ in range(script.turns()):
                await asyncio.sleep(0)
            recorded = len(self.recorder)
            verb = script.verb(recorded)
            if verb == "pause":
                # The request itself changes no status; the pause may come at any later time.
                self.recorder.begin("its run", "honour")
                await system.pause(task_id)
            elif verb == "resume":
                extra = self._bench.extra(f"{number}.{recorded}")
                await self._do(name, verb, extra, system.resume(task_id, extra))
            elif verb == "kill":
                await self._do(name, verb, None, system.kill(task_id))
            elif verb == "complete":
                result = f"by {name}"
                self._offered.add(succeeded_with(result))
                call = system.complete(task_id, result)
                await self._do(name, verb, succeeded_with(result), call)
            elif verb == "fail":
                failure = Failure(f"contest/{number}", "as it goes")
                await self._do(name, verb, failure.code, system.fail(task_id, failure))
            else:
                await self._read(name, reader)

    async def _do(self, name: str, verb: str, argument: Any, call: Any) -> None:
        await self.recorder.call(name, verb, argument, call)

    async def _read(self, name: str, reader: Reader) -> View:
        task = await self.recorder.call(name, "get", None, reader.get(self._task.id), snapshot)
        return view_of(task)
