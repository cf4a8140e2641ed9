"""Memories."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel_conformance import MemoryContract, MemoryFeatures

from .. import faulty_memories
from .adapter import FaultyAdapter, adapters

MEMORIES = {
    "JoinedScopes": "scopes",
    "FoldedScopes": "scopes",
    "OneTenant": "scopes",
    "CheckThenAct": "memory",
    "Overwrites": "memory",
    "HidesOnly": "memory",
    "NotFoundIsNone": "memory",
    "FindsTheSuperseded": "recall",
    "OldestFirst": "recall",
    "LimitThenScore": "recall",
    "LiveOnly": "export",
    "RestoresByProposing": "export",
    "TakesAnyVersion": "export",
    "ReadsOnce": "memory",
    "ExplainsAnyScope": "scopes",
    "UnknownFirst": "memory",
    "TwoActs": "memory",
    "ThenCounts": "recall",
    "KeepsTheExport": "alias",
    "TakesAnyName": "values",
    "ShortNames": "values",
}
FEATURES = {"ReadsOnce": MemoryFeatures(keeps=True, searches=True, shared=True)}


class _MemoryAdapter(FaultyAdapter, MemoryContract):
    features = MemoryFeatures(keeps=True, searches=True)

    @pytest.fixture
    def memory(self) -> Any:
        return self.faulty()

    @pytest.fixture
    def another(self, memory: Any) -> Any:
        return memory.another


ADAPTERS = adapters("Memory", _MemoryAdapter, faulty_memories, MEMORIES, FEATURES)
