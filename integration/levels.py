"""How often the contract suite races on stores that wait for a disk or a server at each write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentic_kernel_conformance.level import LEVELS, Level


@pytest.fixture(scope="session")
def conformance_level(conformance_level: Level) -> Level:
    """As it was asked for; where nothing was, fewer histories."""
    if conformance_level.name != "quick":
        return conformance_level
    brief = LEVELS["brief"]
    return replace(
        conformance_level,
        reads=brief.reads,
        extras=brief.extras,
        durable_histories=brief.durable_histories,
        shared_histories=brief.shared_histories,
        examples=brief.examples,
    )
