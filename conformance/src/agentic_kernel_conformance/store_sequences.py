"""Random sequences of verbs through Hosts over the store under test, compared with `apply`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import pytest

from agentic_kernel import Complete, Fail, Kill, Mutation, Pause, Resume, Task
from agentic_kernel_engine import Host, Receipt, Store

from .level import Level
from .records import running
from .stateful import hold_against_apply
from .storage import StoreSuite
from .trials import Trials

_NEVER = 3600.0


class StoreSequences(StoreSuite):
    """C2 (mutators serialise) without races: each verb stores the Task that `apply` makes."""

    @pytest.mark.random
    @pytest.mark.rule("table", "C6", "values")
    async def test_any_sequence_of_verbs_does_what_apply_does(
        self, store: Store, level: Level, trials: Trials
    ) -> None:
        """Two control planes take turns, so that each acts on the other's last write."""
        planes = _ControlPlanes(store)
        try:
            for trial in trials.upto(1):
                with trial:
                    trial.operations = await hold_against_apply(
                        planes, level.examples, trial.seed, self.patience * 3
                    )
        finally:
            await planes.close()


class _ControlPlanes:
    """Hosts without a substrate over one store: no Task has an owner, so verbs do not wait."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._hosts = [Host(store=store, interval=_NEVER) for _ in range(2)]
        self._turns = cycle(self._hosts)

    async def begin(self) -> Task:
        record = running()
        await self._store.insert(record)
        return record.task

    async def perform(self, task_id: str, mutation: Mutation) -> bool:
        return (await self._verb(next(self._turns), task_id, mutation)).changed

    async def _verb(self, host: Host, task_id: str, mutation: Mutation) -> Receipt:
        match mutation:
            case Pause():
                return await host.pause(task_id)
            case Resume(extra):
                return await host.resume(task_id, extra)
            case Complete(result):
                return await host.complete(task_id, result)
            case Fail(failure):
                return await host.fail(task_id, failure)
            case _:
                assert isinstance(mutation, Kill)
                return await host.kill(task_id)

    async def read(self, task_id: str) -> Sequence[Task]:
        tasks: list[Task] = []
        for host in self._hosts:
            tasks += [await host.get(task_id), (await host.get_many([task_id]))[task_id]]
        return tasks

    async def close(self) -> None:
        for host in self._hosts:
            await host.close()
