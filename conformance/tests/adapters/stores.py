"""Stores."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel_conformance import StoreContract, StoreFeatures
from agentic_kernel_conformance.storage import Damage
from agentic_kernel_conformance.system import Hold

from .. import faulty_stores
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
}
THREADED = {"OneThreadOnly": "C2", "LoopBound": "C2"}
"""What shows in threads alone; which rule of a race shows first, chance decides."""
RACES = {"C2", "C7", "R1", "R5", "R15"}
FEATURES = {
    "SlowReaders": StoreFeatures(holdable=True),
    "Forgetful": StoreFeatures(durable=True),
    "StoppedByTheBad": StoreFeatures(damageable=True),
    "ShortOfTheBad": StoreFeatures(damageable=True),
    "BuriesTheHeld": StoreFeatures(damageable=True),
}


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
    def damage(self) -> Damage:
        async def spoilt(store: Any, task_id: str) -> Any:
            await store.spoil(task_id)
            return store

        return spoilt


class _ThreadedAdapter(_StoreAdapter):
    features = StoreFeatures(threads=True)
    advertises = "threads"


ADAPTERS = {
    **adapters("Store", _StoreAdapter, faulty_stores, STORES, FEATURES),
    **adapters("Store", _ThreadedAdapter, faulty_stores, THREADED, reported=RACES),
}
