"""Tools."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel_conformance import ToolContract, ToolFeatures

from .. import faulty_seams
from .adapter import FaultyAdapter, adapters

TOOLS = {
    "TrustsThePlanner": "schemas",
    "AnotherOutput": "schemas",
    "ErrorsAsText": "outcome",
    "ReportsObjects": "outcome",
    "ReadsWithATrace": "effects",
    "IgnoresTheKey": "effects",
    "LooksThenWrites": "effects",
    "RemembersTooLate": "effects",
    "KeepsItsArguments": "apart",
    "CatchesEverything": "unwind",
    "LeavesAWorker": "unwind",
}


class _ToolAdapter(FaultyAdapter, ToolContract):
    features = ToolFeatures(observable=True, steady=True, fails=True, waits=True)

    @pytest.fixture
    def made(self) -> Any:
        return self.faulty()

    @pytest.fixture
    def tool(self, made: Any) -> Any:
        return made.tool()

    @pytest.fixture
    def arguments(self, made: Any) -> Any:
        return made.arguments

    @pytest.fixture
    def effects(self, made: Any) -> Any:
        return made.effects

    @pytest.fixture
    def failing(self, made: Any) -> Any:
        return made.failing

    @pytest.fixture
    def waiting(self, made: Any) -> Any:
        return made.waiting


ADAPTERS = adapters("Tool", _ToolAdapter, faulty_seams, TOOLS)
