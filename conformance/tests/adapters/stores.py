"""Stores."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel_conformance import (
    Disk,
    Operations,
    StoreContract,
    StoreFactory,
    StoreFeatures,
)
from agentic_kernel_conformance.storage import Count, Cut, Damage, Newer, Older
from agentic_kernel_conformance.system import Hold
from agentic_kernel_engine import Record, Store
from agentic_kernel_file import FileStore

from .. import faulty_places, faulty_stores
from .adapter import FaultyAdapter, adapters

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
    "LabelBlind": "find",
    "NewestById": "find",
    "LostTerms": "C6",
    "Rejoining": "R14",
    "OneAtLeast": "find",
    "NaiveMoments": "edges",
    "StraySuccessor": "R1",
    "EqualIsSame": "values",
    "StoppedByTheBad": "R22",
    "ShortOfTheBad": "R22",
    "BuriesTheHeld": "R22",
    "EqualExtrasOnce": "values",
    "FiltersAfterThePage": "find",
    "SharedAnswers": "alias",
    "LooksAtAll": "R8",
    "WritesTheWhole": "R16",
    "CallsItAFailure": "R5",
}
PLACES = {
    "AliveByProcessId": "R14",
    "AliveByInheritedLock": "R14",
    "EventsAtClose": "durable",
    "NeverSyncs": "durable",
    "LetsDiskErrorsOut": "R5",
    "SwallowsDiskErrors": "R5",
    "GuessesAfterAFailure": "R5",
    "WritesOnTheLoop": "C4",
    "IgnoresTheSchema": "durable",
    "RepairsTheNewer": "durable",
    "BeginsAnew": "durable",
}
"""Those on files."""
THREADED = {"OneThreadOnly": "C2", "LoopBound": "C2"}
"""What shows in threads alone; which rule of a race shows first, chance decides."""
RACES = {"C2", "C7", "R1", "R5", "R15"}
FEATURES = {
    "SlowReaders": StoreFeatures(holdable=True),
    "Forgetful": StoreFeatures(durable=True),
    "StoppedByTheBad": StoreFeatures(damageable=True),
    "ShortOfTheBad": StoreFeatures(damageable=True),
    "BuriesTheHeld": StoreFeatures(damageable=True),
    "LooksAtAll": StoreFeatures(counted=True),
    "WritesTheWhole": StoreFeatures(weighed=True),
    "CallsItAFailure": StoreFeatures(cuttable=True),
    "EventsAtClose": StoreFeatures(durable=True, processes=True),
    "NeverSyncs": StoreFeatures(synced=True),
    "LetsDiskErrorsOut": StoreFeatures(failable=True),
    "SwallowsDiskErrors": StoreFeatures(failable=True),
    "GuessesAfterAFailure": StoreFeatures(failable=True),
    "WritesOnTheLoop": StoreFeatures(failable=True),
    "IgnoresTheSchema": StoreFeatures(refuses_newer=True),
    "RepairsTheNewer": StoreFeatures(refuses_newer=True),
    "BeginsAnew": StoreFeatures(durable=True, reads_older=True),
}


RELEASED = Path(__file__).parents[3] / "packages/file/tests/released/log"
"""A folder that release 0.1.0 wrote."""


class _StoreAdapter(FaultyAdapter, StoreContract):
    patience = 0.5

    @pytest.fixture
    def store(self) -> Any:
        return self.faulty()

    @pytest.fixture
    def hold(self, store: Any) -> Hold:
        held: Hold = store.held
        return held

    @pytest.fixture
    def reopen(self) -> Any:
        async def reopened(store: Any) -> Any:
            return store.reopened()

        return reopened

    @pytest.fixture
    def cut(self, store: Any) -> Cut:
        cut: Cut = store.cut
        return cut

    @pytest.fixture
    def looked(self, store: Any) -> Count:
        return lambda: int(store.looked)

    @pytest.fixture
    def written(self, store: Any) -> Count:
        return lambda: int(store.bytes)

    @pytest.fixture
    def damage(self) -> Damage:
        async def spoilt(store: Any, task_id: str) -> Any:
            await store.spoil(task_id)
            return store

        return spoilt


class _PlaceAdapter(FaultyAdapter, StoreContract):
    features = StoreFeatures(processes=True)
    patience = 2.0

    @pytest.fixture
    def store(self, tmp_path: Path) -> Any:
        store = self.faulty(tmp_path / "state")
        yield store
        store.close()

    @pytest.fixture
    def factory(self, tmp_path: Path) -> StoreFactory:
        path = f"{faulty_places.__name__}:{self.faulty.__name__}"
        return StoreFactory(path, (str(tmp_path / "state"),))

    @pytest.fixture
    def reopen(self) -> Any:
        async def reopened(store: Any) -> Any:
            store.close()
            return type(store)(store.folder)

        return reopened

    @pytest.fixture
    def operations(self, store: Any) -> Operations:
        operations: Operations = store.operations
        return operations

    @pytest.fixture
    def disk(self, store: Any) -> Disk:
        disk: Disk = store.disk
        return disk

    @pytest.fixture
    def older(self, tmp_path: Path) -> Older:
        async def older() -> tuple[Store, Sequence[Record]]:
            place = tmp_path / "released"
            shutil.copytree(RELEASED, place)
            (place / "hosts").mkdir(exist_ok=True)  # git keeps no empty folder
            healthy = FileStore(place)
            known = await healthy.find(limit=1_000)
            healthy.close()
            return self.faulty(place), known

        return older

    @pytest.fixture
    def newer(self) -> Newer:
        @asynccontextmanager
        async def newer(store: Any) -> AsyncIterator[Callable[[], Awaitable[Store]]]:
            manifest = store.folder / faulty_places.MANIFEST
            known = manifest.read_bytes()
            document = {**json.loads(known), "schema": faulty_places.NEWER, "new": {}}

            async def again() -> Store:
                opened: Store = self.faulty(store.folder)
                return opened

            manifest.write_text(json.dumps(document))
            try:
                yield again
            finally:
                manifest.write_bytes(known)

        return newer


class _ThreadedAdapter(_StoreAdapter):
    features = StoreFeatures(threads=True)
    advertises = "threads"


ADAPTERS = {
    **adapters("Store", _StoreAdapter, faulty_stores, STORES, FEATURES),
    **adapters("Store", _PlaceAdapter, faulty_places, PLACES, FEATURES),
    **adapters("Store", _ThreadedAdapter, faulty_stores, THREADED, reported=RACES),
}
