"""The engine's transport of requests passes the approvals contract."""

from __future__ import annotations

import pytest

from agentic_kernel_conformance import ApprovalsContract, ApprovalsFeatures
from agentic_kernel_conformance.approvals import Open
from agentic_kernel_engine.host.approvals_transport import InMemoryApprovals


class TestInMemoryApprovals(ApprovalsContract):
    features = ApprovalsFeatures(shows=True)

    @pytest.fixture
    def approvals(self) -> InMemoryApprovals:
        return InMemoryApprovals()

    @pytest.fixture
    def open(self, approvals: InMemoryApprovals) -> Open:
        return lambda: approvals.open
