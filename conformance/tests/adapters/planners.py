"""Planners."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel_conformance import PlannerContract, PlannerFeatures

from .. import faulty_seams
from .adapter import FaultyAdapter, adapters

PLANNERS = {
    "VendorsError": "plan",
    "CodeWithoutScope": "plan",
    "SilentStream": "plan",
    "TuplesInArguments": "plan",
    "CallsFromMemory": "plan",
    "SaysItAgain": "plan",
    "SaysNoPlace": "plan",
    "NeverTheSame": "plan",
    "StrictSchemas": "context",
    "TrimsTranscript": "context",
    "OneContext": "apart",
    "SharesTheContext": "apart",
    "StaleTools": "plan",
    "TellsOtherText": "plan",
    "OneAnswer": "apart",
    "CannotBeCancelled": "unwind",
    "PumpsOn": "unwind",
    "ForgetsReasoning": "budget",
    "AddsUpTheTotals": "budget",
    "SubtractsTheCached": "budget",
}
FEATURES = {
    "CallsFromMemory": PlannerFeatures(forecasts=True, grounded=True),
    "SaysItAgain": PlannerFeatures(forecasts=True, continues=True),
    "SaysNoPlace": PlannerFeatures(forecasts=True, continues=True),
    "NeverTheSame": PlannerFeatures(forecasts=True, deterministic=True),
    "OneContext": PlannerFeatures(forecasts=True, deterministic=True),
    "StaleTools": PlannerFeatures(forecasts=True, grounded=True),
    "TellsOtherText": PlannerFeatures(forecasts=True, streams=True),
    "PumpsOn": PlannerFeatures(forecasts=True, streams=True),
}


class _PlannerAdapter(FaultyAdapter, PlannerContract):
    features = PlannerFeatures(forecasts=True)

    @pytest.fixture
    def planner(self) -> Any:
        return self.faulty()


ADAPTERS = adapters("Planner", _PlannerAdapter, faulty_seams, PLANNERS, FEATURES)
