"""LocalPlanner passes the planner contract, on the real model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agentic_kernel_conformance import PlannerContract, PlannerFeatures
from agentic_kernel_engine.loop import ToolCall
from agentic_kernel_engine.seams import Tool, tool
from agentic_kernel_local import Example, LocalPlanner
from agentic_kernel_local.engine import Engine

# The gate asks the real model in test_runtime.py and in the equivalence of the runtimes.
pytestmark = pytest.mark.torture


# Arguments that cannot get long: a small model does not always find an end of its own.
EXAMPLE = Example("Light off.", ToolCall("switch", {"on": False}), "off", "It is off.")


def switch(on: bool) -> str:
    """Switch the light."""
    return "on" if on else "off"


class TestLocalPlanner(PlannerContract):
    features = PlannerFeatures(streams=True, forecasts=True, grounded=True, fails=True)
    patience = 60

    @pytest_asyncio.fixture
    async def planner(self, engine: Engine) -> AsyncIterator[LocalPlanner]:
        planner = LocalPlanner(
            system="Give short answers.",
            max_tokens=400,
            examples=[EXAMPLE],
            slots=engine.options.slots,
            context_tokens=engine.options.context_tokens,
        )
        assert await planner.open() is engine
        yield planner
        await planner.close()

    @pytest.fixture
    def question(self) -> str:
        return "Light on."

    @pytest.fixture
    def tools(self) -> list[Tool]:
        return [tool(switch, effect="none")]

    @pytest.fixture
    def failing(self, tmp_path: Path) -> LocalPlanner:
        return LocalPlanner(tmp_path / "missing.gguf")
