"""Runtimes and queries."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from agentic_kernel_conformance import QueryContract, RuntimeContract, RuntimeFeatures
from agentic_kernel_conformance.system import Hold

from .. import faulty_runtimes
from ..dict_runtime import DictRuntime
from ..dict_work import DictWork
from .adapter import FaultyAdapter, adapters

RUNTIMES = {
    "NoLock": "C2",
    "StaleCache": "C6",
    "LateStamp": "C3",
    "Resurrected": "C7",
    "DoubleDispatch": "edges",
    "StartsAnything": "edges",
    "StoresWhatItRefuses": "edges",
    "TornResume": "C3",
    "KeptExtra": "edges",
    "EmptyExtraDropped": "C6",
    "FalsyResultReplaced": "values",
    "CompletesWhatIsPaused": "table",
    "RaisesOnTheEnded": "edges",
    "SilentOnTheUnknown": "edges",
    "NeverPauses": "edges",
    "ForgetsOutput": "notes",
    "OneAtATime": "clause1",
    "KillsTheNeighbours": "clause1",
    "RewritesInput": "notes",
    "AliasedResult": "alias",
    "SlowReaders": "C4",
}
QUERIES = {"InclusiveAfter": "find", "RaisesForOneUnknown": "find", "ReadsRepair": "C1"}
KERNELS = {
    "CopiesNoOps": "table",
    "CompletesThePaused": "table",
    "RestartsTheClock": "time",
    "LegalisesAll": "table",
    "NotesTheEnded": "edges",
}
FEATURES = {"SlowReaders": RuntimeFeatures(holdable=True)}


class _RuntimeFixtures(FaultyAdapter):
    patience = 0.5
    features: ClassVar[Any] = RuntimeFeatures(pauses=True, keeps_partial_output=True, refuses=True)

    @pytest.fixture
    def work(self) -> DictWork:
        return DictWork()

    @pytest_asyncio.fixture
    async def runtime(self, work: DictWork) -> AsyncIterator[DictRuntime]:
        runtime: DictRuntime = self.faulty(work.perform)
        yield runtime
        await runtime.close()

    @pytest.fixture
    def hold(self, runtime: Any) -> Hold:
        held: Hold = runtime.held
        return held


class _RuntimeAdapter(_RuntimeFixtures, RuntimeContract):
    pass


class _QueryAdapter(_RuntimeFixtures, QueryContract):
    pass


ADAPTERS = {
    **adapters("Runtime", _RuntimeAdapter, faulty_runtimes, RUNTIMES, FEATURES),
    **adapters("Query", _QueryAdapter, faulty_runtimes, QUERIES),
}
