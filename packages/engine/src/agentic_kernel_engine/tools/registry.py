"""ToolRegistry: the port of a run's tools; this module also exports the other names about tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from .call import MAX_OUTPUT, Invocation, perform, stored
from .deadline import DeadlinePassed
from .raised import ToolError, Unfinished
from .tool import SideEffect, Tool, ToolContext, Tools, tool

__all__ = [
    "MAX_OUTPUT",
    "DeadlinePassed",
    "Invocation",
    "SideEffect",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolRegistry",
    "Tools",
    "Unfinished",
    "perform",
    "stored",
    "tool",
]


@runtime_checkable
class ToolRegistry(Protocol):
    """The tools of a run."""

    def tools(self) -> Sequence[Tool]:
        """All of them, in the order in which a planner sees them."""
        ...

    def find(self, name: str) -> Tool | None:
        """The tool of this name, which is one of `tools`; None if there is none."""
        ...
