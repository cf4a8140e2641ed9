"""The engine's schedulers pass the scheduler contract."""

from __future__ import annotations

import pytest

from agentic_kernel_conformance import ToolSchedulerContract, ToolSchedulerFeatures
from agentic_kernel_engine.seams import ParallelScheduler, SequentialScheduler


class TestParallelScheduler(ToolSchedulerContract):
    features = ToolSchedulerFeatures(parallel=True)

    @pytest.fixture(params=[2, 8], ids="limit {}".format)
    def scheduler(self, request: pytest.FixtureRequest) -> ParallelScheduler:
        return ParallelScheduler(request.param)


class TestSequentialScheduler(ToolSchedulerContract):
    @pytest.fixture
    def scheduler(self) -> SequentialScheduler:
        return SequentialScheduler()
