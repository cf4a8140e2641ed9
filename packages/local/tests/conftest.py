"""The real model, loaded once for all tests of the engine and small enough to share a machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from agentic_kernel_local.engine import Engine, EngineOptions
from agentic_kernel_local.model import find_model

SLOTS = 4
CONTEXT_TOKENS = 1024


@pytest.fixture(scope="session")
def options() -> EngineOptions:
    return EngineOptions(find_model(), SLOTS, CONTEXT_TOKENS)


@pytest.fixture(scope="session")
def engine(options: EngineOptions) -> Iterator[Engine]:
    """Kept open for the session, so that every runtime with these options shares it."""
    engine = asyncio.run(Engine.open(options))
    yield engine
    asyncio.run(engine.close())
