"""Policies."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel_conformance import PolicyContract, PolicyFeatures

from .. import faulty_seams
from .adapter import FaultyAdapter, adapters

POLICIES = {
    "ToolsOnly": "decide",
    "KnownToolsOnly": "decide",
    "SaysYes": "decide",
    "OnceOnly": "decide",
    "OnceKnown": "decide",
    "HidesOnly": "visible",
    "HidesFromSome": "visible",
    "VisibleScopes": "visible",
    "Redacts": "context",
    "CountsInVariables": "context",
    "OneQuestion": "apart",
    "DeniesWhenCancelled": "unwind",
    "AuditsLater": "unwind",
}
FEATURES = {
    "OnceOnly": PolicyFeatures(deterministic=True),
    "OnceKnown": PolicyFeatures(deterministic=True),
    "HidesFromSome": PolicyFeatures(filters=True),
    "OneQuestion": PolicyFeatures(deterministic=True),
    "HidesOnly": PolicyFeatures(filters=True),
    "VisibleScopes": PolicyFeatures(filters=True),
}


class _PolicyAdapter(FaultyAdapter, PolicyContract):
    @pytest.fixture
    def policy(self) -> Any:
        return self.faulty()


ADAPTERS = adapters("Policy", _PolicyAdapter, faulty_seams, POLICIES, FEATURES)
