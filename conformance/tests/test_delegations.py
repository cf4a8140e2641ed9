"""The engine's delegations pass the delegation contract."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agentic_kernel_conformance import DelegationContract, DelegationFeatures
from agentic_kernel_conformance.delegation_family import Family
from agentic_kernel_conformance.delegation_household import Agents, Make
from agentic_kernel_engine import Host, Router
from agentic_kernel_engine.seams import ChildTasks, OnRuntime

from .dict_runtime import DictRuntime
from .dict_work import DictWork

_THERE = "there"


class _Cycles:
    @pytest.fixture
    def forbidden(self) -> Agents:
        return "kit/one", "kit/one"


class TestChildTasks(_Cycles, DelegationContract):
    features = DelegationFeatures(forbids=True, refuses=True, pauses=True, asks=True)

    @pytest.fixture
    def make(self) -> Make:
        return ChildTasks


class TestOnRuntime(_Cycles, DelegationContract):
    """Children on a Host over a store of its own."""

    features = DelegationFeatures(forbids=True, refuses=True, pauses=True, asks=True)

    @pytest_asyncio.fixture
    async def home(self, substrate: Family) -> AsyncIterator[Host]:
        async with Host(substrate, runtime_kinds=[_THERE], grace=0, interval=0.01) as host:
            yield host

    @pytest.fixture
    def make(self, home: Host) -> Make:
        return lambda: OnRuntime(home, runtime_kind=_THERE)


class TestOnRouter(_Cycles, DelegationContract):
    """Children that cannot be waited on, nor told of a decision."""

    features = DelegationFeatures(forbids=True, refuses=True, pauses=True)

    @pytest_asyncio.fixture
    async def home(self, substrate: Family) -> AsyncIterator[Router]:
        async with Host(substrate, runtime_kinds=[_THERE], grace=0, interval=0.01) as host:
            yield Router({_THERE: host})

    @pytest.fixture
    def make(self, home: Router) -> Make:
        return lambda: OnRuntime(home, runtime_kind=_THERE)


class TestOnDicts(DelegationContract):
    """Children on a Runtime that is no Host, and does not know the kit's substrate."""

    features = DelegationFeatures(pauses=True)

    @pytest_asyncio.fixture
    async def home(self) -> AsyncIterator[DictRuntime]:
        runtime = DictRuntime(DictWork().perform)
        yield runtime
        await runtime.close()

    @pytest.fixture
    def make(self, home: DictRuntime) -> Make:
        return lambda: OnRuntime(home, runtime_kind="dict", cycles=True)
