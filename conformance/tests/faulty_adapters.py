"""Every faulty implementation under its contract; `test_faulty` runs this file and reads on.

``breaks`` is the rule that the mistake breaks, and only the tests of that rule are run; of an
adapter whose mistake shows in threads alone, only those.
"""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from agentic_kernel_conformance import (
    ApprovalsContract,
    ApprovalsFeatures,
    KernelContract,
    MemoryContract,
    MemoryFeatures,
    ObserverContract,
    ObserverFeatures,
    PlannerContract,
    PlannerFeatures,
    PolicyContract,
    PolicyFeatures,
    QueryContract,
    RuntimeContract,
    RuntimeFeatures,
    StoreContract,
    StoreFeatures,
    ToolContract,
    ToolFeatures,
)
from agentic_kernel_conformance.system import Hold

from . import (
    faulty_approvals,
    faulty_kernels,
    faulty_memories,
    faulty_runtimes,
    faulty_seams,
    faulty_stores,
)
from .dict_runtime import DictRuntime
from .dict_work import DictWork

STORES = {
    "NoLock": "C2",
    "StaleCache": "C6",
    "TornWrite": "C3",
    "LateEvents": "C3",
    "LostAppend": "R15",
    "EventsLeftByConflict": "R1",
    "ResurrectedTerminal": "R1",
    "IgnoredOwner": "R1",
    "SwallowedConflict": "R1",
    "ClaimInTwoSteps": "R14",
    "ClaimFromTheLiving": "R14",
    "OwnerWithoutVersion": "R2",
    "UnsettledWrite": "R5",
    "UnorderedPages": "find",
    "OverlappingPages": "find",
    "CollatedIds": "find",
    "CaselessIds": "ids",
    "ForgottenIndex": "find",
    "PrunedHalf": "find",
    "SharedEvents": "alias",
    "DeafToChange": "R8",
    "MillisecondStamps": "C6",
    "NumbersAsFloats": "values",
    "SlowReaders": "C4",
    "Forgetful": "durable",
    "Unjoined": "R14",
    "LimitlessPages": "find",
    "OneThreadOnly": "C2",
    "LoopBound": "C2",
}
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
OBSERVERS = {
    "PrintsRaw": "observer",
    "PrintsLines": "observer",
    "ExpectsText": "observer",
    "DropsLive": "observer",
}
PLANNERS = {
    "VendorsError": "plan",
    "CodeWithoutScope": "plan",
    "SilentStream": "plan",
    "TuplesInArguments": "plan",
    "CallsFromMemory": "plan",
    "SaysItAgain": "plan",
    "NeverTheSame": "plan",
    "StrictSchemas": "context",
    "TrimsTranscript": "context",
    "OneContext": "apart",
    "OneAnswer": "apart",
    "CannotBeCancelled": "unwind",
    "PumpsOn": "unwind",
    "ForgetsReasoning": "budget",
    "SubtractsTheCached": "budget",
}
POLICIES = {
    "ToolsOnly": "decide",
    "KnownToolsOnly": "decide",
    "SaysYes": "decide",
    "OnceOnly": "decide",
    "HidesOnly": "visible",
    "VisibleScopes": "visible",
    "Redacts": "context",
    "CountsInVariables": "context",
    "OneQuestion": "apart",
    "DeniesWhenCancelled": "unwind",
    "AuditsLater": "unwind",
}
TOOLS = {
    "TrustsThePlanner": "schemas",
    "AnotherOutput": "schemas",
    "ErrorsAsText": "outcome",
    "ReportsObjects": "outcome",
    "ReadsWithATrace": "effects",
    "IgnoresTheKey": "effects",
    "KeepsItsArguments": "apart",
    "CatchesEverything": "unwind",
    "LeavesAWorker": "unwind",
}
MEMORIES = {
    "JoinedScopes": "scopes",
    "FoldedScopes": "scopes",
    "OneTenant": "scopes",
    "CheckThenAct": "memory",
    "Overwrites": "memory",
    "HidesOnly": "memory",
    "NotFoundIsNone": "memory",
    "FindsTheSuperseded": "recall",
    "OldestFirst": "recall",
    "LimitThenScore": "recall",
    "LiveOnly": "export",
    "RestoresByProposing": "export",
    "TakesAnyVersion": "export",
}
APPROVALS = {
    "AsksAgain": "approvals",
    "KeepsTheFirst": "approvals",
    "EndsOnce": "approvals",
    "ToolsOnly": "approvals",
    "NeverWithdraws": "approvals",
}


class FaultyAdapter:
    """What every adapter of a faulty implementation says of it."""

    faulty: ClassVar[str]
    """The name of its class."""
    breaks: ClassVar[str]
    """The rule that it is named for."""
    reported: ClassVar[set[str]]
    """The rules of which the contract may report any."""


class _StoreAdapter(FaultyAdapter, StoreContract):
    patience = 0.5

    @pytest.fixture
    def store(self) -> Any:
        return getattr(faulty_stores, self.faulty)()

    @pytest.fixture
    def hold(self, store: Any) -> Hold:
        held: Hold = store.held
        return held

    @pytest.fixture
    def reopen(self) -> Any:
        async def reopened(store: Any) -> Any:
            return store.reopened()

        return reopened


class _RuntimeFixtures(FaultyAdapter):
    patience = 0.5
    features: ClassVar[Any] = RuntimeFeatures(pauses=True, keeps_partial_output=True, refuses=True)

    @pytest.fixture
    def work(self) -> DictWork:
        return DictWork()

    @pytest_asyncio.fixture
    async def runtime(self, work: DictWork) -> AsyncIterator[DictRuntime]:
        runtime: DictRuntime = getattr(faulty_runtimes, self.faulty)(work.perform)
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


class _KernelAdapter(FaultyAdapter, KernelContract):
    @pytest.fixture
    def kernel(self) -> Any:
        return getattr(faulty_kernels, self.faulty)()


class _ObserverAdapter(FaultyAdapter, ObserverContract):
    @pytest.fixture
    def file(self) -> io.StringIO:
        return io.StringIO()

    @pytest.fixture
    def observer(self, file: io.StringIO) -> Any:
        maker = getattr(faulty_kernels, self.faulty)
        return maker(file) if self.faulty.startswith("Prints") else maker()

    @pytest.fixture
    def output(self, file: io.StringIO) -> Any:
        return file.getvalue

    @pytest.fixture
    def kept(self, observer: Any) -> Any:
        return lambda: observer.events


class _PlannerAdapter(FaultyAdapter, PlannerContract):
    features = PlannerFeatures(forecasts=True)

    @pytest.fixture
    def planner(self) -> Any:
        return getattr(faulty_seams, self.faulty)()


class _PolicyAdapter(FaultyAdapter, PolicyContract):
    @pytest.fixture
    def policy(self) -> Any:
        return getattr(faulty_seams, self.faulty)()


class _ToolAdapter(FaultyAdapter, ToolContract):
    features = ToolFeatures(observable=True, steady=True, fails=True, waits=True)

    @pytest.fixture
    def made(self) -> Any:
        return getattr(faulty_seams, self.faulty)()

    @pytest.fixture
    def tool(self, made: Any) -> Any:
        return made.tool()

    @pytest.fixture
    def arguments(self, made: Any) -> Any:
        return made.arguments

    @pytest.fixture
    def effects(self, made: Any) -> Any:
        return made.effects

    @pytest.fixture
    def failing(self, made: Any) -> Any:
        return made.failing

    @pytest.fixture
    def waiting(self, made: Any) -> Any:
        return made.waiting


class _MemoryAdapter(FaultyAdapter, MemoryContract):
    features = MemoryFeatures(keeps=True, searches=True)

    @pytest.fixture
    def memory(self) -> Any:
        return getattr(faulty_memories, self.faulty)()


class _ApprovalsAdapter(FaultyAdapter, ApprovalsContract):
    features = ApprovalsFeatures(shows=True)

    @pytest.fixture
    def approvals(self) -> Any:
        return getattr(faulty_approvals, self.faulty)()

    @pytest.fixture
    def open(self, approvals: Any) -> Any:
        return approvals.open


_THREADS = StoreFeatures(threads=True)
FEATURES: dict[str, Any] = {
    "StoreOneThreadOnly": _THREADS,
    "StoreLoopBound": _THREADS,
    "StoreSlowReaders": StoreFeatures(holdable=True),
    "StoreForgetful": StoreFeatures(durable=True),
    "RuntimeSlowReaders": RuntimeFeatures(holdable=True),
    "ObserverPrintsRaw": ObserverFeatures(writes_to_terminal=True),
    "ObserverPrintsLines": ObserverFeatures(writes_to_terminal=True),
    "ObserverDropsLive": ObserverFeatures(keeps_events=True),
    "PlannerCallsFromMemory": PlannerFeatures(forecasts=True, grounded=True),
    "PlannerSaysItAgain": PlannerFeatures(forecasts=True, continues=True),
    "PlannerNeverTheSame": PlannerFeatures(forecasts=True, deterministic=True),
    "PlannerOneContext": PlannerFeatures(forecasts=True, deterministic=True),
    "PlannerPumpsOn": PlannerFeatures(forecasts=True, streams=True),
    "PolicyOnceOnly": PolicyFeatures(deterministic=True),
    "PolicyOneQuestion": PolicyFeatures(deterministic=True),
    "PolicyHidesOnly": PolicyFeatures(filters=True),
    "PolicyVisibleScopes": PolicyFeatures(filters=True),
}


def _adapters(
    prefix: str, parent: type[FaultyAdapter], broken: dict[str, str]
) -> dict[str, type[FaultyAdapter]]:
    made = {}
    for faulty, rule in broken.items():
        name = f"{prefix}{faulty}"
        given: dict[str, Any] = {"__module__": __name__, "faulty": faulty, "breaks": rule}
        if name in FEATURES:
            given["features"] = FEATURES[name]
            given["advertises"] = "threads" if FEATURES[name] is _THREADS else None
        # Which rule of a race shows first, chance decides.
        races = {"C2", "C7", "R1", "R5", "R15"} if given.get("advertises") else set()
        given["reported"] = {rule, *races}
        made[f"Test{name}"] = type(f"Test{name}", (parent,), given)
    return made


ADAPTERS = {
    **_adapters("Store", _StoreAdapter, STORES),
    **_adapters("Runtime", _RuntimeAdapter, RUNTIMES),
    **_adapters("Query", _QueryAdapter, QUERIES),
    **_adapters("Kernel", _KernelAdapter, KERNELS),
    **_adapters("Observer", _ObserverAdapter, OBSERVERS),
    **_adapters("Planner", _PlannerAdapter, PLANNERS),
    **_adapters("Policy", _PolicyAdapter, POLICIES),
    **_adapters("Tool", _ToolAdapter, TOOLS),
    **_adapters("Memory", _MemoryAdapter, MEMORIES),
    **_adapters("Approvals", _ApprovalsAdapter, APPROVALS),
}
globals().update(ADAPTERS)
