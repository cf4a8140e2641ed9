"""The kit's contract for tools, held by a tool of a server in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agentic_kernel_conformance import ToolContract, ToolFeatures
from agentic_kernel_engine.seams import Tool
from agentic_kernel_mcp import MCPTools, StdioServer

from .conftest import PLAIN


class TestMCPTool(ToolContract):
    features = ToolFeatures(
        observable=True, steady=True, fails=True, waits=True, distinct=True, separates=True,
        explores=True,
    )  # fmt: skip

    @pytest_asyncio.fixture
    async def tool(self, tmp_path: Path) -> AsyncIterator[Tool]:
        server = StdioServer(sys.executable, ("-IS", PLAIN, str(tmp_path / "log")))
        async with MCPTools({"it": server}) as tools:
            tool = tools.find("it__act")
            assert tool is not None
            yield tool

    @pytest.fixture
    def effects(self, tmp_path: Path) -> Callable[[], int]:
        log = tmp_path / "log"
        return lambda: log.read_text().count("acted ") if log.exists() else 0

    @pytest.fixture
    def arguments(self) -> Sequence[Mapping[str, Any]]:
        return [{"how": "well"}, {"how": "as well"}]

    @pytest.fixture
    def failing(self) -> Mapping[str, Any]:
        return {"how": "badly"}

    @pytest.fixture
    def waiting(self) -> Mapping[str, Any]:
        return {"how": "never"}
