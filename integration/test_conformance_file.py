"""A Host over files passes the contracts of a Runtime and a Query, as one over memory does.

That `FileStore` passes the contract of a Store is tested in its own package.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agentic_kernel_conformance import (
    QueryContract,
    RuntimeContract,
    RuntimeFeatures,
    ScriptedSubstrate,
    ScriptedWork,
)
from agentic_kernel_engine import Host
from agentic_kernel_file import FileStore

FEATURES = RuntimeFeatures(pauses=True, keeps_partial_output=True, refuses=True)


class _OnFiles:
    @pytest.fixture
    def work(self) -> ScriptedWork:
        return ScriptedWork()

    @pytest_asyncio.fixture
    async def runtime(self, work: ScriptedWork, tmp_path: Path) -> AsyncIterator[Host]:
        store = FileStore(tmp_path / "state")
        async with Host(ScriptedSubstrate(work), store) as host:
            yield host
        store.close()


class TestHostOnFiles(_OnFiles, RuntimeContract):
    features = FEATURES


class TestHostOnFilesAsQuery(_OnFiles, QueryContract):
    features = FEATURES
