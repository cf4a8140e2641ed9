"""A Runtime that is not built on the engine passes the contracts that need only the kernel."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agentic_kernel_conformance import QueryContract, RuntimeContract, RuntimeFeatures

from .dict_runtime import DictRuntime
from .dict_work import DictWork


class _Fixtures:
    @pytest.fixture
    def work(self) -> DictWork:
        return DictWork()

    @pytest_asyncio.fixture
    async def runtime(self, work: DictWork) -> AsyncIterator[DictRuntime]:
        runtime = DictRuntime(work.perform)
        yield runtime
        await runtime.close()


class TestDictRuntime(_Fixtures, RuntimeContract):
    features = RuntimeFeatures(pauses=True, keeps_partial_output=True, refuses=True)


class TestDictRuntimeAsQuery(_Fixtures, QueryContract):
    features = RuntimeFeatures(pauses=True, keeps_partial_output=True, refuses=True)
