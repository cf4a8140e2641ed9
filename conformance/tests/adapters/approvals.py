"""Transports of requests."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel_conformance import ApprovalsContract, ApprovalsFeatures

from .. import faulty_approvals
from .adapter import FaultyAdapter, adapters

APPROVALS = {
    "AsksAgain": "approvals",
    "KeepsTheFirst": "approvals",
    "EndsOnce": "approvals",
    "ToolsOnly": "approvals",
    "NeverWithdraws": "approvals",
    "ByOrigin": "approvals",
    "OnePage": "approvals",
    "ShortensReasons": "approvals",
    "LosesTheRest": "approvals",
}


class _ApprovalsAdapter(FaultyAdapter, ApprovalsContract):
    features = ApprovalsFeatures(shows=True)

    @pytest.fixture
    def approvals(self) -> Any:
        return self.faulty()

    @pytest.fixture
    def open(self, approvals: Any) -> Any:
        return approvals.open


ADAPTERS = adapters("Approvals", _ApprovalsAdapter, faulty_approvals, APPROVALS)
