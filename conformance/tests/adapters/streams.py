"""Hosts whose runs speak."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from agentic_kernel_conformance import RuntimeContract, RuntimeFeatures, ScriptedWork
from agentic_kernel_engine import Host

from .. import faulty_hosts
from ..speaking import Speaking
from .adapter import FaultyAdapter, adapters

HOSTS = {"SpeaksAtCommits": "R20"}


class _StreamsAdapter(FaultyAdapter, RuntimeContract):
    patience = 1.0
    features: ClassVar[Any] = RuntimeFeatures(pauses=True, keeps_partial_output=True, streams=True)

    @pytest.fixture
    def work(self) -> ScriptedWork:
        return ScriptedWork()

    @pytest_asyncio.fixture
    async def runtime(self, work: ScriptedWork) -> AsyncIterator[Host]:
        async with self.faulty(Speaking(work), interval=0.01) as host:
            yield host

    @pytest_asyncio.fixture
    async def elsewhere(self, runtime: Host) -> AsyncIterator[Host]:
        async with Host(store=runtime.store, interval=0.01) as host:
            yield host


ADAPTERS = adapters("Streams", _StreamsAdapter, faulty_hosts, HOSTS)
