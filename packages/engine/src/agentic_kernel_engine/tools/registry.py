"""ToolRegistry: the port of a run's tools."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final, Protocol, runtime_checkable

from .tool import Tool

NAMED: Final = 100
"""The most tools that ``run.started`` names."""


@runtime_checkable
class ToolRegistry(Protocol):
    """The tools of a run."""

    def tools(self) -> Sequence[Tool]:
        """All of them, in the order in which a planner sees them."""
        ...

    def find(self, name: str) -> Tool | None:
        """The tool of this name, which is one of `tools`; None if there is none."""
        ...


def named_tools(tools: Sequence[Tool]) -> dict[str, Any]:
    """These tools as ``run.started`` records them; empty if there are none."""
    names = [tool.name for tool in islice(tools, NAMED)]
    return {"tools": names} if names else {}
