"""Delegations."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agentic_kernel_conformance import DelegationContract, DelegationFeatures
from agentic_kernel_conformance.delegation_family import Family
from agentic_kernel_conformance.delegation_household import Agents, Make
from agentic_kernel_engine import Host

from .. import faulty_delegations
from .adapter import FaultyAdapter, adapters

DELEGATIONS = {
    "CountsChildren": "admit",
    "NamesChildren": "admit",
    "OwnMetadata": "admit",
    "RefusesByValue": "admit",
    "RemembersStarts": "children",
    "TakesAnyTask": "children",
    "StartsSilently": "children",
    "ForAnybody": "children",
    "LeavesOrphans": "children",
    "MarksFirst": "children",
    "ForgetsTheUnjoined": "children",
    "KillsAll": "children",
    "CancelsTheRunning": "children",
    "AnyPause": "join",
    "OnlyTheEnd": "join",
    "KillsWhenCancelled": "join",
    "OneByOne": "tell",
    "TheFirstOnly": "tell",
    "LeavesIt": "tell",
    "TellsTheEnded": "tell",
    "OneChild": "apart",
    "WaitsOn": "unwind",
}


class _DelegationAdapter(FaultyAdapter, DelegationContract):
    patience = 0.5
    features = DelegationFeatures(forbids=True, refuses=True, pauses=True, asks=True)

    @pytest_asyncio.fixture
    async def home(self, substrate: Family) -> AsyncIterator[Host]:
        async with Host(substrate, runtime_kinds=["there"], grace=0, interval=0.01) as host:
            yield host

    @pytest.fixture
    def make(self, home: Host) -> Make:
        return lambda: self.faulty(home)

    @pytest.fixture
    def forbidden(self) -> Agents:
        return "kit/one", "kit/one"


ADAPTERS = adapters("Delegation", _DelegationAdapter, faulty_delegations, DELEGATIONS)
